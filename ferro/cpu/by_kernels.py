"""Functions of arrays that kernels answer from some size on, and NumPy or LAPACK below: which kernels, and arguments around it.

Note [Functions by kernels]
    Products, convolutions, factorisations and recurrent layers are no loops over rows, so `array_function` cannot make them.
    They choose by themselves between a kernel and a formula in NumPy, and `@by_kernels` says beside them which kernels
    they call, and gives examples: arguments on both sides of each threshold, from the table. Nothing is put before the function.
    From this follow which kernels there are, in which modules, what is compiled ahead (kernels/warm.py), and
    tests/cpu/test_by_kernels.py: kernels compute what the formula computes, of arrays that lie anyhow, with the same bits for
    any number of threads.

    A kernel is said once as "module.function", the module being one of cpu/kernels; what has no module stands in that of the
    one before. Functions that ask together whether their kernels are ready share a tuple of `kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ferro.native import registry

_PACKAGE = "ferro.cpu.kernels"
Make = Callable[..., Any]  # an array of a shape, of numbers between -1 and 1
Examples = Callable[[Make], Iterator[tuple]]


class ByKernels(NamedTuple):
    """What `by_kernels` has been told."""

    function: Callable
    kernels: tuple[str, ...]
    examples: Examples
    unique: Callable | None


DECLARED: dict[str, ByKernels] = {}
ABSENT: set[str] = set()  # kernels for which this processor lacks instructions: neither called nor compiled


def kernels(said: str, here: bool = True) -> tuple[str, ...]:
    """Enter kernels, and give their names (those that are entered already need no module). See Note [Functions by kernels].

    - `here` (bool): whether this processor has the instructions that they are written for
    """
    module, names = "", []
    for word in said.split():
        before, _, name = word.rpartition(".")
        module = before or module
        if module:
            registry.declare(_PACKAGE, {module: name})
        names.append(name)
    ABSENT.update(() if here else names)
    return tuple(names)


def by_kernels(some: str | tuple[str, ...], examples: Examples, unique: Callable | None = None) -> Callable:
    """Say of a function which kernels it may call; see Note [Functions by kernels].

    - `some` (str or tuple): the kernels, or their names from `kernels`
    - `examples` (function): of a function that makes arrays of a shape; it gives tuples of arguments
    - `unique` (function): of the arguments and results, what of the results does not depend on the way they are found;
      None for all of them
    """

    def note(function: Callable) -> Callable:
        names = kernels(some) if isinstance(some, str) else some
        DECLARED[function.__name__] = ByKernels(function, names, examples, unique)
        return function

    return note


def places(make: Make, most: int, *shape: int) -> Any:
    """Integers below `most`, for an index."""
    return (abs(make(*shape)) * most).astype(np.int64) % most


def sides(least: int, power: int = 1) -> tuple[int, int]:
    """The largest number whose power is below a threshold, and the next one."""
    below = math.ceil(least ** (1 / power)) - 1
    while (below + 1) ** power < least:
        below += 1
    return below, below + 1
