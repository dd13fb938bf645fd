"""Chains of elementwise steps as one function: one program over blocks (cpu/fusion.py) where arrays are large, else step by step.

A chain is a tuple of steps, ``(function, argument, ...)``; "x0" is the first array that the chain gets, "s0" what its first step
gave, anything else a number. The steps are the functions that nodes call one by one, and a program runs NumPy's loops, so
the bits are those of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ferro.core.op import OPS
from ferro.cpu import fusion
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.elementwise import DECLARED


def _argument(arg: Any, given: tuple, made: list) -> Any:
    if type(arg) is not str:
        return arg
    return (given if arg[0] == "x" else made)[int(arg[1:])]


@lru_cache(1024)
def formula_of(steps: tuple, array: Callable[[str], Callable]) -> Callable:
    """The formula of (xp, arrays...) that a chain is; `array` gives operators by their names."""

    def formula(xp: Any, *given: Any) -> Any:
        made: list = []
        for name, *args in steps:
            values = [_argument(a, given, made) for a in args]
            space, _, rest = name.partition(".")
            if space == "array":
                made.append(array(rest)(*values))
            elif space == "elementwise":
                made.append(xp.elementwise(DECLARED[rest], *values))
            elif space == "gradient":
                op, _, by = rest.rpartition(".")
                made.append(OPS[op].formulas[by](xp, *values))
            else:
                made.append(OPS[name].forward(xp, *values))
        return made[-1]

    return formula


def evaluate(steps: tuple, array: Callable, step: Callable[[str], Callable], given: tuple) -> Any:
    """What a chain gives; `step` gives the function of a node by its name."""
    if max(x.size for x in given) >= PROGRAM_LEAST:
        found = fusion.evaluate(formula_of(steps, array), *given)
        if found is not None:
            return found
    made: list = []
    for name, *args in steps:
        made.append(step(name)(*[_argument(a, given, made) for a in args]))
    return made[-1]
