"""Straight code: formulas of a few steps, written out once more as functions for small NumPy arrays.

The steps of an expression (cpu/trace.py) are written out as one function: it reads saved values itself, and each step calls
the entry of its function (cpu/kernels/entries.py). So a node of the tape costs one call of Python, and not one for every step
of what leads there. Formulas without an expression stay as they are. What a call saves for its formulas is written out, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ferro.core.saved_values import check_version
from ferro.cpu.bound import ENTRIES, Writer, without_conjugate
from ferro.cpu.trace import once, trace_any
from ferro.expressions import Parameter, Symbol


def direct(formula: Callable, count: int, parameters: int) -> Callable | None:
    """What a formula of a single step calls, ``xp.sum`` for ``lambda xp, x, /, dim: xp.sum(x, dim)``.

    It can be called with the formula's own arguments, so many arrays and behind them so many parameters.
    """
    symbols = [*[Symbol() for _ in range(count)], *[Parameter() for _ in range(parameters)]]
    found = trace_any(formula, *symbols)
    if found is None:
        return None
    function, operands = without_conjugate(found)
    if len(operands) != len(symbols) or not all(map(operator.is_, operands, symbols)):
        return None
    return ENTRIES.get(function, function)


def generate(formula: Callable, kinds: list[str], positions: list[int]) -> Callable | None:
    """A formula as a function (xp, g, node) that reads what it names from ``node.saved``, at these places.

    `kinds` are those of `saved_arrays`. None for formulas that cannot be traced.
    """
    if not _READABLE.issuperset(kinds):
        return None
    g = Symbol()
    values: list[Symbol] = [Parameter() if kind in ("plain", "aux") else Symbol() for kind in kinds]
    found = trace_any(formula, g, *values)
    if found is None or found.function is once:  # (that looks for a kernel itself)
        return None
    names = {g: "g", **{value: f"v{k}" for k, value in enumerate(values)}}
    lines = _reading(kinds, positions)
    return Writer(names, {"check_version": check_version}).function(["xp", "g", "node"], lines, found)


_READABLE = {"tensor", "array", "plain", "aux"}


def _reading(kinds: list[str], positions: list[int]) -> list[str]:
    """Lines that read the values v0, v1, ... from ``node.saved``."""
    lines = ["saved = node.saved"] if kinds else []
    for k, (kind, position) in enumerate(zip(kinds, positions, strict=True)):
        lines.append(f"v{k} = saved[{position}]")
        if kind == "tensor":
            lines += [
                f"if v{k} is not None:",
                f"    if v{k}._counter is not None:",
                f"        check_version(node, v{k})",
                f"    v{k} = v{k}._data",
            ]
    return lines


def calling(function: Callable, kinds: list[str], positions: list[int]) -> Callable | None:
    """A function (xp, g, node) that calls another one with g and what it reads likewise; None for other kinds."""
    if not _READABLE.issuperset(kinds):
        return None
    g, *values = [Symbol() for _ in range(1 + len(kinds))]
    names = {g: "g", **{value: f"v{k}" for k, value in enumerate(values)}}
    lines = _reading(kinds, positions)
    return Writer(names, {"check_version": check_version}).function(
        ["xp", "g", "node"], lines, Symbol(function, (g, *values))
    )


def saver(op: Any, names: Sequence[str]) -> Callable[[Any, Any, Any, Any], tuple]:
    """The function that gives what a plan saves, see Plan; written out, as it runs in every recorded call."""
    return _written(f"({''.join(_source(op, name) + ', ' for name in names)})")


def _source(op: Any, name: str) -> str:
    """Where the value of a name comes from, in the parameters of Plan.save."""
    if name in op.inputs:
        return "xs" if op.variadic else f"xs[{op.inputs.index(name)}]"
    computed = (*op.output_names, *op.aux)
    if name in computed:
        return f"outs[{computed.index(name)}]"
    if name in op.params:
        return f"params[{op.params.index(name)}]"
    if name == "out":  # of an operation with any number of outputs
        return "outs"
    if op.variadic:
        return "tuple([a.shape for a in arrays])"
    number = op.inputs.index(name.removesuffix("_shape"))
    return f"(None if (a := arrays[{number}]) is None else a.shape)"


@cache
def _written(text: str) -> Callable[[Any, Any, Any, Any], tuple]:
    return eval(f"lambda xs, arrays, outs, params: {text}")
