"""Expressions of formulas: a formula is called once with symbols in the place of its arrays, and what it does is noted.

A formula such as ``lambda xp, g, y: g * (1 - y * y)`` leaves ``Symbol(mul, (g, Symbol(sub, (1, Symbol(mul, (y, y))))))``: each
symbol is a function and its operands, which are symbols, parameters or constants. A formula that decides something, or does
anything else with its arrays, finds that a symbol has no truth value, no elements and no shape, and has no expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ferro.elementwise import Elementwise


class Untraceable(Exception):
    """A formula does what symbols cannot note."""


def conjugate(a: Any) -> Any:
    """The function of the step that ``a.conj()`` is."""
    return a.conj()


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

    __rpow__ = _swapped(operator.pow)

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


class _Names:
    """Stands for `xp` where steps are only named: ``Symbol("exp", (x,))``. Elementwise functions inside others are taken apart."""

    def once(self, formula: Callable, *operands: Any) -> Any:
        return formula(self, *operands)

    def elementwise(self, function: Elementwise, *operands: Any) -> Any:
        return function.formula(self, *operands)

    def __getattr__(self, name: str) -> Any:
        return lambda *operands: Symbol(name, operands)


NAMES = _Names()


def trace_names(formula: Callable, *arguments: Any) -> Symbol | None:
    """What a formula of (xp, arguments...) gives, the functions of `xp` being names; None if it has no expression."""
    return traced(formula, NAMES, arguments)


def traced(formula: Callable, xp: Any, arguments: tuple) -> Symbol | None:
    """What formula(xp, *arguments) gives as an expression; None if it has none."""
    try:
        found = formula(xp, *arguments)
    except Exception:  # noqa: BLE001 (whatever symbols cannot do; the formula itself says what is wrong, if it is)
        return None
    return found if isinstance(found, Symbol) else None
