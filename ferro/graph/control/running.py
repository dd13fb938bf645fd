"""What runs the graphs of branches and loops, on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.graph import interpreter
from ferro.graph.functions import CONTROL
from ferro.graph.ir import in_memory
from ferro.graph.literals import SAVED


def entered(outlined: Callable) -> Callable[[Callable], Callable]:
    """Makes a function one that nodes call; `outlined` gives arrays like its results where nothing can be decided."""

    def enter(function: Callable) -> Callable:
        function.outlined = outlined  # type: ignore[attr-defined]
        CONTROL[function.__name__.strip("_")] = function
        return function

    return enter


def alike(graph: Any) -> tuple:
    """Arrays like the results of a graph."""
    return tuple([_empty(v) for v in graph.outputs])


def _empty(value: Any) -> Any:
    return in_memory(value.shape, value.strides, value.dtype, np.zeros)


def chosen(index: Any, count: int) -> int:
    """The number of the branch that runs: of a condition, the first if it is true; IndexError for a number that no branch has."""
    if index.dtype == np.bool_:
        return 0 if index.item() else 1
    found = index.item()
    if not 0 <= found < count:
        raise IndexError(f"switch: the index is {found}, there are {count} branches")
    return found


def listed(given: Sequence) -> list:
    """Operands as a list that nobody else has; those of a list are taken out of it, so that they end with their last reader."""
    found = list(given)
    if type(given) is list:
        given.clear()
    return found


@entered(lambda index, given, graphs: alike(graphs[0]))
def branch(index: Any, given: Sequence, graphs: tuple) -> tuple:
    """The results of that one of some graphs which the index says."""
    return tuple(interpreter.taken(graphs[chosen(index, len(graphs))], listed(given)))


@entered(lambda *arrays: np.zeros((), SAVED))
def pack(*arrays: Any, stacks: Sequence = ()) -> Any:
    """One array that holds others, and the stacks in whose memory some of them may lie."""
    found = np.empty((), SAVED)
    found[()] = arrays, stacks
    return found


def _unpacked(saved: Any, *like: Any) -> tuple:
    return tuple([np.zeros(shape, dtype) for shape, dtype in like])


@entered(_unpacked)
def unpack(saved: Any, *like: Any) -> tuple:
    """What `pack` packed; `like` says of which shapes and dtypes."""
    return saved[()][0]


def _absent(shape: tuple, dtype: Any, number: float = -0.0) -> Any:
    return np.full(shape, number, dtype)


@entered(_absent)
def absent(shape: tuple, dtype: Any, number: float = -0.0) -> Any:
    """Stands for a gradient that does not come: to be added, -0.0 changes nothing."""
    return _absent(shape, dtype, number)
