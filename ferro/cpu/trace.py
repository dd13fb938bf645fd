"""Formulas traced with the functions of this backend: each step of the expression knows what computes it; see expressions.py.

Those who compute with expressions: bound.py writes one out in Python, for small arrays; for large ones fusion.py lowers it to
NumPy's inner loops. (kernels/loops.py prints a loop of one whose functions are names.)
"""

from __future__ import annotations

from collections.abc import Callable
from opcode import hasjabs, hasjrel, opmap
from typing import Any

from ferro.cpu.elementwise import function_of
from ferro.cpu.namespace import cpu
from ferro.elementwise import Elementwise
from ferro.expressions import Symbol, Untraceable, traced


def once(formula: Callable, *values: Any) -> Any:
    """The function of the step that ``xp.once(formula, ...)`` is."""
    return cpu.once(formula, *values)


class _Vocabulary:
    """Stands for `xp`."""

    def once(self, formula: Callable, *operands: Any) -> Symbol:
        """A formula of `operands` as a single step."""
        return Symbol(once, (formula, *operands))

    def elementwise(self, function: Elementwise, *operands: Any) -> Symbol:
        """An elementwise function is a single step."""
        return Symbol(function_of(function), operands)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # (asked by Python's own tools, never by a formula)
            raise AttributeError(name)
        function = getattr(cpu, name, None)
        if not callable(function):
            raise Untraceable
        return lambda *operands: Symbol(function, tuple(map(_operand, operands)))


def _operand(value: Any) -> Any:
    if isinstance(value, (tuple, list)) and any(isinstance(v, Symbol) for v in value):
        raise Untraceable  # (it would be taken for a constant)
    return value


_XP = _Vocabulary()
# A formula of unknown arguments must not ask whether one *is* something, None say: symbols cannot note that. So it must not
# jump, and must call no function but those of `xp`, which might.
_JUMPS = frozenset((*hasjrel, *hasjabs))
_INNER = frozenset((opmap["LOAD_DEREF"], opmap["MAKE_FUNCTION"]))
_NUMBERS = frozenset((int, float, type(None)))  # what names outside may stand for (None: a name of `xp` or a method)
_LONG = 400  # bytes of code from which a formula is not worth a look


def trace(formula: Callable, *arguments: Any) -> Symbol | None:
    """What a formula of (xp, arguments...) gives for these arguments, as an expression; None if it has none."""
    return traced(formula, _XP, arguments)


def trace_any(formula: Callable, *arguments: Symbol) -> Symbol | None:
    """The expression of a formula that holds for all arguments, also where one of them is None."""
    if isinstance(formula, Elementwise):
        return trace(formula, *arguments)
    code = getattr(formula, "__code__", None)
    if code is None or len(code.co_code) > _LONG:
        return None
    used = set(code.co_code[::2])
    if not (used.isdisjoint(_JUMPS) and used.isdisjoint(_INNER)):
        return None
    if opmap["LOAD_GLOBAL"] in used and not _NUMBERS.issuperset(
        [type(v) for v in map(formula.__globals__.get, code.co_names)]
    ):
        return None
    return trace(formula, *arguments)
