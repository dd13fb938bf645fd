"""Expressions written out as functions of Python, for small arrays: each step calls the entry of its function.

So a formula of several steps costs one call of Python, and not one for every step of what leads there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ferro.cpu.elementwise import written_by
from ferro.cpu.kernels.conversions import sixteen
from ferro.cpu.kernels.entries import with_entry
from ferro.cpu.trace import trace
from ferro.elementwise import Elementwise
from ferro.expressions import Symbol, conjugate

ENTRIES: dict[Any, Any] = {
    **{f: with_entry(sixteen(f)) for f in (operator.add, operator.sub, operator.mul, operator.truediv)},
    operator.neg: with_entry(operator.neg),
}


def _by_conjugate(function: Any) -> Any:
    """The function of a and the conjugate of b; real numbers are their own."""
    return with_entry(lambda a, b: function(a, b.conj()), function.__name__)


_BY_CONJUGATE = {f: _by_conjugate(f) for f in (operator.mul, operator.truediv)}


def without_conjugate(step: Symbol) -> tuple[Any, tuple]:
    """The function and the operands of a step, which takes the conjugate of the second one itself if it can."""
    function, operands = step.function, step.operands
    if function in _BY_CONJUGATE and isinstance(operands[1], Symbol) and operands[1].function is conjugate:
        return _BY_CONJUGATE[function], (operands[0], *operands[1].operands)
    return function, operands


@written_by
def of(function: Elementwise) -> Callable | None:
    """The formula of an elementwise function; None if it decides by what it is given."""
    given = [Symbol() for _ in range(function.arrays + function.numbers)]
    found = trace(function.formula, *given)
    if found is None:
        return None
    names = {value: f"v{k}" for k, value in enumerate(given)}
    return Writer(names, {}).function([*names.values()], [], found)


class Writer:
    """Writes steps out as the lines of a function. `names` are those of the values that are there, `scope` what they may name."""

    def __init__(self, names: dict[Symbol, str], scope: dict[str, Any]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"__name__": __name__, **scope}

    def function(self, parameters: list[str], lines: list[str], result: Symbol) -> Callable:
        """The function of these parameters that runs the lines given, and returns the result."""
        last = self.name(result)
        text = [f"def generated({', '.join(parameters)}):", *lines, *self.lines, f"return {last}"]
        # (Under the name of this file it counts as the library's, see provenance.py.)
        exec(compile("\n    ".join(text), __file__, "exec"), self.scope)
        return self.scope["generated"]

    def name(self, value: Any) -> str:
        """The name under which a value stands in the text; a step that has none yet is written."""
        if not isinstance(value, Symbol):
            if type(value) in (int, float, bool, type(None)) and repr(value) not in ("nan", "inf", "-inf"):
                return repr(value)
            return self._held("c", value)
        if value not in self.names:
            function, operands = without_conjugate(value)
            given = ", ".join([self.name(operand) for operand in operands])
            line = f"{self._held('f', ENTRIES.get(function, function))}({given})"
            self.names[value] = name = f"t{len(self.lines)}"
            self.lines.append(f"{name} = {line}")
        return self.names[value]

    def _held(self, letter: str, value: Any) -> str:
        """The name of a function or constant."""
        name = f"{letter}{len(self.scope)}"
        self.scope[name] = value
        return name
