"""Python floats that a compiled function is given: numbers of the graph, as far as the function only computes with them.

Note [Numbers].  While a function is captured, its float arguments are `Number`s: floats that know the 0-d float64 array that
stands for them. Beside tensors, and in sums, products and quotients of Python's, that array is noted. Whatever else is asked of
one (whether it is less than 0.5, its text, its hash) makes it `fixed`: the graph is for this number alone. What C reads
of a float cannot be noticed, so a graph is taken for any number only if a second capture, with another number, gives the same graph.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ferro.core.dtypes import INEXACT
from ferro.graph.array import called, traced
from ferro.graph.functions import ARRAY


class Number(float):
    """A float of a function that is captured; see Note [Numbers]."""

    traced: Any = None
    fixed: list[bool]  # one for all that are computed of one argument

    @staticmethod
    def of(value: float, traced: Any, fixed: list[bool]) -> Number:
        """The number that a traced array stands for."""
        found = Number(value)
        found.traced, found.fixed = traced, fixed
        return found

    def constant(self, dtype: Any) -> Any:
        """The array that stands for it beside a tensor; None if it is the same for all calls."""
        if (
            self.fixed[0]
            or self.traced is None
            or not self.traced.recorder.notes()
            or dtype not in INEXACT
            or dtype.kind == "c"
        ):
            self.fixed[0] = True
            return None
        return called("array.astype", ARRAY["astype"], self.traced, dtype)


def _computed(name: str, reflected: bool) -> Any:
    python, noted = getattr(float, f"__{'r' if reflected else ''}{name}__"), ARRAY[name]

    def method(self: Number, other: Any) -> Any:
        found = python(self, other)
        if found is NotImplemented or type(other) not in (int, float, bool, Number):
            return found
        if (
            self.fixed[0]
            or not self.traced.recorder.notes()
            or (name == "truediv" and (reflected or type(other) is Number))
        ):
            self.fixed[0] = True
            return found
        its = other.traced if type(other) is Number else np.asarray(float(other))
        pair = (its, self.traced) if reflected else (self.traced, its)
        fixed = self.fixed
        if type(other) is Number and other.fixed is not fixed:  # of two arguments: both or none
            fixed[0] = other.fixed[0] = True
            return found
        return Number.of(found, called(f"array.{name}", noted, *pair), fixed)

    return method


def _negated(self: Number) -> Any:
    found = float.__neg__(self)
    if self.fixed[0] or not self.traced.recorder.notes():
        return found
    return Number.of(found, called("array.neg", operator.neg, self.traced), self.fixed)


def _asked(name: str) -> Any:
    python = getattr(float, name)

    def method(self: Number, *args: Any) -> Any:
        self.fixed[0] = True
        return python(self, *args)

    return method


_COMPUTED = ("add", "sub", "mul", "truediv")
_LEFT = frozenset(
    ("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__", "__doc__", "__dir__")
)
for _name in dir(float):
    if (
        callable(getattr(float, _name))
        and _name not in _LEFT
        and not _name.startswith(("__init_sub", "__sub", "__reduce", "__sizeof", "__getst"))
    ):
        setattr(Number, _name, _asked(_name))
for _name in _COMPUTED:
    setattr(Number, f"__{_name}__", _computed(_name, False))
    setattr(Number, f"__r{_name}__", _computed(_name, True))
Number.__neg__ = _negated  # type: ignore[method-assign]


def begin(values: list[float], recorder: Any, value_of: Any) -> list[Number]:
    """The numbers of a capture, each with the input that ``value_of(array)`` makes."""
    found = []
    for value in values:
        array = np.asarray(value)
        found.append(Number.of(value, traced(array, recorder, value_of(array)), [False]))
    return found
