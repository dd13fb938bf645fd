"""Straight code: formulas of a few steps, written out once more as functions for small NumPy arrays.

A formula such as ``lambda xp, g, y: g * y.conj()`` is called once with symbols in the place of its arguments. They note
what is done with them, and the same steps are written out as one function: it reads saved values itself, and each step
calls the front of its function (cpu/kernels/front.py). So a node of the tape costs one call of Python, and not one for
every step of what leads there. Formulas that decide anything, or call functions other than those of `xp`, stay as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from opcode import hasjabs, hasjrel, opmap
from typing import Any

from ferro import cpu
from ferro.core.base import check_version
from ferro.cpu.kernels.front import front

# What a formula must not do: jump, and look at anything but its arguments.
_DECIDES = frozenset((*hasjrel, *hasjabs, *[opmap[name] for name in ("LOAD_GLOBAL", "LOAD_DEREF", "MAKE_FUNCTION")]))
_LONG = 400  # bytes of a formula's code


class Untraceable(Exception):
    """A formula does what symbols cannot note."""


def _step(function: Any) -> Any:
    """A method of symbols that notes a step."""
    return lambda *operands: Symbol(function, operands)


def _swapped(function: Any) -> Any:
    return lambda self, other: Symbol(function, (other, self))


class Symbol:
    """Stands for an array, or for what a step gives: `function` of `operands`."""

    __slots__ = ("function", "operands")
    __hash__ = object.__hash__

    def __init__(self, function: Any = None, operands: tuple = ()) -> None:
        self.function, self.operands = function, operands

    __add__, __sub__, __mul__ = map(_step, (operator.add, operator.sub, operator.mul))
    __radd__, __rsub__, __rmul__ = map(_swapped, (operator.add, operator.sub, operator.mul))
    __truediv__, __rtruediv__, __neg__ = _step(operator.truediv), _swapped(operator.truediv), _step(operator.neg)
    __eq__, __ne__ = _step(operator.eq), _step(operator.ne)
    __lt__, __le__, __gt__, __ge__ = map(_step, (operator.lt, operator.le, operator.gt, operator.ge))
    __and__, __or__, __invert__, __abs__ = map(_step, (operator.and_, operator.or_, operator.invert, operator.abs))

    def __pow__(self, power: Any) -> Symbol:
        return self * self if type(power) in (int, float) and power == 2 else Symbol(operator.pow, (self, power))

    def conj(self) -> Symbol:
        """The conjugate: a step that costs nothing where the next one takes it along."""
        return Symbol(_conj, (self,))

    def __bool__(self) -> bool:
        raise Untraceable


class _Parameter(Symbol):
    """Stands for a parameter: handed on, and not computed with."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Untraceable

    __add__ = __sub__ = __mul__ = __truediv__ = __neg__ = __pow__ = __abs__ = __and__ = __or__ = __invert__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__
    conj = _refuse


class _Vocabulary:
    """Stands for `xp`."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(cpu, name, None)
        if not callable(function):
            raise Untraceable
        return lambda *operands: Symbol(function, operands)


def _conj(a: Any) -> Any:
    return a.conj()


_FRONTS: dict[Any, Any] = {
    f: front(f) for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg)
}


def _by_conjugate(function: Any) -> Any:
    """The function of a and the conjugate of b; real numbers are their own."""
    return front(lambda a, b: function(a, b.conj()), function.__name__)


_BY_CONJUGATE = {f: _by_conjugate(f) for f in (operator.mul, operator.truediv)}


def _without_conjugate(step: Symbol) -> tuple[Any, tuple]:
    """The function and the operands of a step, which takes the conjugate of the second one itself if it can."""
    function, operands = step.function, step.operands
    if function in _BY_CONJUGATE and isinstance(operands[1], Symbol) and operands[1].function is _conj:
        return _BY_CONJUGATE[function], (operands[0], *operands[1].operands)
    return function, operands


def traced(formula: Callable, *arguments: Any) -> Any:
    """What a formula of the arguments gives, a symbol; None if it cannot be traced."""
    code = getattr(formula, "__code__", None)
    if code is None or len(code.co_code) > _LONG or code.co_freevars or not _DECIDES.isdisjoint(code.co_code[::2]):
        return None
    try:
        found = formula(_Vocabulary(), *arguments)
    except (Untraceable, AttributeError, TypeError, ValueError):
        return None
    return found if isinstance(found, Symbol) else None


def direct(formula: Callable, count: int, parameters: int) -> Callable | None:
    """What a formula of a single step calls, ``xp.sum`` for ``lambda xp, x, /, dim: xp.sum(x, dim)``.

    It can be called with the formula's own arguments, so many arrays and behind them so many parameters.
    """
    symbols = [*[Symbol() for _ in range(count)], *[_Parameter() for _ in range(parameters)]]
    found = traced(formula, *symbols)
    if found is None:
        return None
    function, operands = _without_conjugate(found)
    if len(operands) != len(symbols) or not all(map(operator.is_, operands, symbols)):
        return None
    return _FRONTS.get(function, function)


def straight(formula: Callable, kinds: list[str], places: list[int]) -> Callable | None:
    """A formula as a function (xp, g, node) that reads what it names from ``node.saved``, at these places.

    `kinds` are those of `saved_arrays`. None for formulas that cannot be traced.
    """
    if not {"tensor", "array", "plain", "aux"}.issuperset(kinds):
        return None
    g = Symbol()
    values: list[Symbol] = [_Parameter() if kind in ("plain", "aux") else Symbol() for kind in kinds]
    found = traced(formula, g, *values)
    if found is None:
        return None
    names = {g: "g"}
    lines = ["saved = node.saved"] if kinds else []
    for k, (kind, place, value) in enumerate(zip(kinds, places, values, strict=True)):
        name = names[value] = f"v{k}"
        lines.append(f"{name} = saved[{place}]")
        if kind == "tensor":
            lines += [
                f"if {name} is not None:",
                f"    if {name}._counter is not None:",
                f"        check_version(node, {name})",
                f"    {name} = {name}._data",
            ]
    return _Writer(names).function(["xp", "g", "node"], lines, found)


class _Writer:
    """Writes steps out as the lines of a function."""

    def __init__(self, names: dict[Symbol, str]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"__name__": __name__, "check_version": check_version}

    def function(self, parameters: list[str], lines: list[str], result: Symbol) -> Callable:
        """The function of these parameters that runs the lines given, and returns the result."""
        last = self.name(result)
        text = [f"def straight({', '.join(parameters)}):", *lines, *self.lines, f"return {last}"]
        # (Under the name of this file it counts as the library's, see provenance.py.)
        exec(compile("\n    ".join(text), __file__, "exec"), self.scope)
        return self.scope["straight"]

    def name(self, value: Any) -> str:
        """The name under which a value stands in the text; a step that has none yet is written."""
        if not isinstance(value, Symbol):
            if type(value) in (int, float, bool, type(None)) and repr(value) not in ("nan", "inf", "-inf"):
                return repr(value)
            return self._held("c", value)
        if value not in self.names:
            function, operands = _without_conjugate(value)
            given = ", ".join([self.name(operand) for operand in operands])
            line = f"{self._held('f', _FRONTS.get(function, function))}({given})"
            self.names[value] = name = f"t{len(self.lines)}"
            self.lines.append(f"{name} = {line}")
        return self.names[value]

    def _held(self, letter: str, value: Any) -> str:
        """The name of a function or constant."""
        name = f"{letter}{len(self.scope)}"
        self.scope[name] = value
        return name
