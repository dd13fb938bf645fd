"""Traces of formulas: what becomes an expression, and what must not."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from ferro import cpu
from ferro.cpu.trace import once, trace, trace_any
from ferro.expressions import Parameter, Symbol, conjugate

HALF = 0.5
X, Y, P = Symbol(), Symbol(), Parameter()


def _written(value: Any) -> str:
    """An expression as text."""
    names = {X: "x", Y: "y", P: "p"}
    if not isinstance(value, Symbol):
        return repr(value)
    if value in names:
        return names[value]
    name = getattr(value.function, "__name__", "?")
    return f"{name}({', '.join(map(_written, value.operands))})"


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (lambda xp, x, y, p: x * (1 - y * y), "mul(x, sub(1, mul(y, y)))"),
        (lambda xp, x, y, p: 2 / x + -y.conj(), "add(truediv(2, x), neg(conjugate(y)))"),
        (lambda xp, x, y, p: x**2, "mul(x, x)"),
        (lambda xp, x, y, p: x**p, "pow(x, p)"),
        (lambda xp, x, y, p: xp.where(x > HALF, y, 0.0), "where(gt(x, 0.5), y, 0.0)"),
        (lambda xp, x, y, p: xp.sum(x, p, False), "sum(x, p, False)"),
        (lambda xp, x, y, p: ~(x == y) | (abs(x) <= y), "or_(invert(eq(x, y)), le(abs(x), y))"),
    ],
)
def test_formulas_become_expressions(formula: Any, text: str) -> None:
    assert _written(trace_any(formula, X, Y, P)) == text
    assert _written(trace(formula, X, Y, P)) == text


def _helper(x: Any) -> Any:
    return x


def _inner(value: Any) -> Any:
    return lambda xp, x, y, p: x * value


DECIDING = {
    "by the numbers": lambda xp, x, y, p: x if x > 0 else y,
    "by a parameter": lambda xp, x, y, p: x if p == 1 else y,
    "by its identity": lambda xp, x, y, p: x * 2 if y is None else x * y,
    "in a function of its own": lambda xp, x, y, p: _helper(x) * y,
    "with what it closes over": _inner(2.0),
    "shape": lambda xp, x, y, p: xp.reshape(x, y.shape),
    "dtype": lambda xp, x, y, p: xp.cast(x, y.dtype),
    "elements": lambda xp, x, y, p: x[0],
    "NumPy": lambda xp, x, y, p: np.exp(x),
    "computing with a parameter": lambda xp, x, y, p: xp.sum(x, p + 1, False),
    "a parameter within a tuple": lambda xp, x, y, p: xp.sum(x, (p,), False),
    "a name that is none": lambda xp, x, y, p: xp.no_such_function(x),
    "no step": lambda xp, x, y, p: (x, y),
}


@pytest.mark.parametrize("name", DECIDING)
def test_formulas_that_look_at_their_arguments_have_no_expression_for_all_of_them(name: str) -> None:
    assert trace_any(DECIDING[name], X, Y, P) is None


def test_a_formula_may_decide_by_what_is_known() -> None:
    formula = DECIDING["by its identity"]
    assert _written(trace(formula, X, None, P)) == "mul(x, 2)"
    assert _written(trace(DECIDING["by a parameter"], X, Y, 1)) == "x"
    wide = Symbol(dtype=np.dtype(np.float64))
    found = trace(lambda xp, x: x * 2 if x.dtype == np.float64 else -x, wide)
    assert isinstance(found, Symbol)
    assert found.function is operator.mul


def test_steps_know_their_functions() -> None:
    found = trace(lambda xp, x: xp.once(_helper, x.conj()), X)
    assert isinstance(found, Symbol)
    assert found.function is once
    assert found.operands[0] is _helper
    assert found.operands[1].function is conjugate
    found = trace(lambda xp, x: xp.exp(x), X)
    assert isinstance(found, Symbol)
    assert found.function is cpu.exp
