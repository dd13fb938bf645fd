"""Traces of formulas: a formula is called once with symbols in the place of its arrays, and what it does becomes an expression.

A formula such as ``lambda xp, g, y: g * (1 - y * y)`` leaves ``Symbol(mul, (g, Symbol(sub, (1, Symbol(mul, (y, y))))))``: each
symbol is a function and its operands, which are symbols, parameters or constants. A formula that decides something, or does
anything else with its arrays, finds that a symbol has no truth value, no elements and no shape, and has no expression.
Those who compute with expressions: core/codegen.py writes one out in Python, for small arrays; fusion.py lowers it to NumPy's
inner loops, for large ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from opcode import hasjabs, hasjrel, opmap
from typing import Any

from ferro import cpu


class Untraceable(Exception):
    """A formula does what symbols cannot note."""


def conjugate(a: Any) -> Any:
    """The function of the step that ``a.conj()`` is."""
    return a.conj()


def once(formula: Callable, *values: Any) -> Any:
    """The function of the step that ``xp.once(formula, ...)`` is, whatever its kernel."""
    return cpu.once(formula, *values)


def _step(function: Any) -> Any:
    """A method of symbols that notes a step."""
    return lambda *operands: Symbol(function, operands)


def _swapped(function: Any) -> Any:
    return lambda self, other: Symbol(function, (other, self))


class Symbol:
    """Stands for an array, or for what a step gives: `function` of `operands`. The dtype is that of an array, where it is known."""

    __slots__ = ("_dtype", "function", "operands")
    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy's functions refuse it

    def __init__(self, function: Any = None, operands: tuple = (), dtype: Any = None) -> None:
        self.function, self.operands, self._dtype = function, operands, dtype

    __add__, __sub__, __mul__ = map(_step, (operator.add, operator.sub, operator.mul))
    __radd__, __rsub__, __rmul__ = map(_swapped, (operator.add, operator.sub, operator.mul))
    __truediv__, __rtruediv__, __neg__ = _step(operator.truediv), _swapped(operator.truediv), _step(operator.neg)
    __eq__, __ne__ = _step(operator.eq), _step(operator.ne)
    __lt__, __le__, __gt__, __ge__ = map(_step, (operator.lt, operator.le, operator.gt, operator.ge))
    __and__, __or__, __invert__, __abs__ = map(_step, (operator.and_, operator.or_, operator.invert, operator.abs))
    conj = _step(conjugate)

    def __pow__(self, power: Any) -> Symbol:
        return self * self if type(power) in (int, float) and power == 2 else Symbol(operator.pow, (self, power))

    def __bool__(self) -> bool:
        raise Untraceable

    @property
    def dtype(self) -> Any:
        """The dtype, by which a formula may decide."""
        if self._dtype is None:
            raise Untraceable
        return self._dtype


class Parameter(Symbol):
    """Stands for a parameter: handed on, and not computed with."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Untraceable

    __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = __pow__ = __abs__ = __and__ = __or__ = __invert__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__
    conj = _refuse


class _Vocabulary:
    """Stands for `xp`."""

    def once(self, formula: Callable, *operands: Any, kernel: str = "") -> Symbol:
        """A formula of `operands` as a single step."""
        return Symbol(once, (formula, *operands))

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
    try:
        found = formula(_XP, *arguments)
    except Exception:  # noqa: BLE001 (whatever symbols cannot do; the formula itself says what is wrong, if it is)
        return None
    return found if isinstance(found, Symbol) else None


def trace_any(formula: Callable, *arguments: Symbol) -> Symbol | None:
    """The expression of a formula that holds for all arguments, also where one of them is None."""
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
