"""An expression as the body of a loop over elements, a line for each step; what a line looks like a language says."""

from __future__ import annotations

import operator
from typing import Any

from ferro.expressions import Symbol, conjugate

NUMBER, TRUTH, ELEMENT = "number", "truth", "element"  # what a value is: the same for all elements, a bool, or neither
TRUTHS = frozenset(
    (operator.and_, operator.or_, operator.invert)
    + (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
)
# How operators are written in Python and in C alike.
OPERATORS: dict[Any, str] = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.truediv: "{} / {}",
    operator.neg: "-{}",
    operator.eq: "{} == {}",
    operator.ne: "{} != {}",
    operator.lt: "{} < {}",
    operator.le: "{} <= {}",
    operator.gt: "{} > {}",
    operator.ge: "{} >= {}",
}


class Unprintable(TypeError):
    """A formula asks for what no loop computes."""


class LoopText:
    """Steps of an expression as lines: those of numbers alone stand in front of the loop, the others inside.

    Elements of arrays are named x0, x1, ..., numbers p0, p1, ... A language says `text`, what computes a step, and may say
    more: `number`, how a number is written, and `line`, how a step is named.
    """

    def __init__(self, arrays: list[Symbol], numbers: list[Symbol]) -> None:
        self.before: list[str] = []
        self.inside: list[str] = []
        self._known: dict[Symbol, tuple[str, str]] = {x: (f"x{k}", ELEMENT) for k, x in enumerate(arrays)}
        self._known |= {x: (f"p{k}", NUMBER) for k, x in enumerate(numbers)}

    def name(self, value: Any) -> str:
        """What an element of a value is called inside the loop."""
        name, kind = self._step(value)
        return f"T({name})" if kind is NUMBER else name

    def text(self, function: Any, operands: tuple, names: list[str], kinds: list[str]) -> str:
        """What computes a function of operands with these names and kinds."""
        raise NotImplementedError

    def number(self, value: float) -> str:
        """A number as it is written."""
        return repr(value)

    def line(self, name: str, kind: str, text: str) -> str:
        """The line that gives a step's text a name."""
        return f"{name} = {text}"

    def _step(self, value: Any) -> tuple[str, str]:
        if type(value) in (int, float, bool):
            return self.number(float(value)), NUMBER
        if not isinstance(value, Symbol):
            raise Unprintable(f"{value!r} is no number")
        if value.function is conjugate:  # real numbers are their own conjugates
            return self._step(value.operands[0])
        if value not in self._known:
            self._known[value] = self._write(value.function, value.operands)
        return self._known[value]

    def _write(self, function: Any, operands: tuple) -> tuple[str, str]:
        kinds = [self._step(operand)[1] for operand in operands]
        of_numbers = ELEMENT not in kinds and TRUTH not in kinds
        names = [self._step(o)[0] if of_numbers else self.name(o) for o in operands]
        kind = TRUTH if function in TRUTHS else NUMBER if of_numbers else ELEMENT
        text = self.text(function, operands, names, kinds)
        lines, name = (self.before, f"n{len(self.before)}") if of_numbers else (self.inside, f"t{len(self.inside)}")
        lines.append(self.line(name, kind, text))
        return name, kind
