"""Elementwise functions: each is declared by one formula, of which every backend makes what it runs.

    @elementwise
    def _softplus_slope(xp, g, x, /, beta, threshold):
        scaled = x * beta
        return xp.where(scaled > threshold, g, g * xp.sigmoid(scaled))

What stands before the ``/`` are arrays (all are, where there is none), behind it numbers. The function is called like its
formula: Tensors follow the formula step by step, so that it has derivatives of any order; the processor has a loop printed
from it (cpu/kernels/loops.py) for large arrays, and the formula bound to NumPy's functions for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DECLARED: dict[str, Elementwise] = {}


class Elementwise:
    """An elementwise function of arrays of one dtype and of numbers, which is called with the backend's module in front.

    formula(xp, arrays..., /, numbers...): what each element of the result is. `entry`: where arrays that are not large are worth
    machine code of their own, the word of the first one in its layout ("x" or "many", see native/jit_layouts.py).
    """

    __slots__ = ("__name__", "__wrapped__", "arrays", "entry", "formula", "numbers")

    def __init__(self, formula: Callable, name: str, entry: str) -> None:
        self.formula = self.__wrapped__ = formula
        self.__name__ = name
        code = formula.__code__
        self.arrays = (code.co_posonlyargcount or code.co_argcount) - 1
        self.numbers = code.co_argcount - 1 - self.arrays
        self.entry = entry
        if (
            name in DECLARED and DECLARED[name].formula.__module__ != formula.__module__
        ):  # (a module may be loaded again)
            raise ValueError(f"the elementwise function {name!r} is declared twice")
        DECLARED[name] = self

    def __call__(self, xp: Any, *values: Any) -> Any:
        return xp.elementwise(self, *values)

    def __repr__(self) -> str:
        return f"elementwise({self.__name__!r})"


def elementwise(formula: Any = None, *, name: str = "", entry: str = "") -> Any:
    """Declares an elementwise function; a decorator, or called with the formula. See Elementwise."""
    if formula is None:
        return lambda found: elementwise(found, name=name, entry=entry)
    return Elementwise(formula, name or formula.__name__.lstrip("_"), entry)
