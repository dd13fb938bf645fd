"""Results that are written where the caller says: what is refused, and what has to be copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.core.backend import address, is_writable
from ferro.core.base import TensorBase
from ferro.graph.there import shares


def targets_of(graph: Any, out: Sequence[Any], given: Sequence) -> dict[int, Any]:
    """The arrays of `out`, by the numbers of the outputs; ValueError unless results can be written there."""
    if len(out) != len(graph.outputs):
        raise ValueError(f"run: out has {len(out)} entries, the graph has {len(graph.outputs)} outputs")
    found: dict[int, Any] = {}
    taken = [(f"input {i}", array_of(x)) for i, x in enumerate(given)]
    for i, (o, value) in enumerate(zip(out, graph.outputs, strict=True)):
        if o is None:
            continue
        if not isinstance(o, TensorBase):
            raise TypeError(f"run: out[{i}] is a {type(o).__name__}; tensors and None are allowed")
        array = o._data
        if array.shape != value.shape or array.dtype != value.dtype:
            raise ValueError(
                f"run: out[{i}] is {array.dtype}{list(array.shape)}, the output is {value.dtype}{list(value.shape)}"
            )
        if not is_writable(array):
            raise ValueError(f"run: out[{i}] must not be written into")
        for name, other in taken:
            if overlaps(array, other):
                raise ValueError(f"run: out[{i}] shares memory with {name}")
        taken.append((f"out[{i}]", array))
        found[i] = array
    return found


def overlaps(x: Any, y: Any) -> bool:
    """Whether two arrays have memory in common; of a device: whether they may."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return np.may_share_memory(x, y) and np.shares_memory(x, y)
    return shares(x, y)


def array_of(x: Any) -> Any:
    """The array of a tensor, or the array that it is."""
    return x._data if isinstance(x, TensorBase) else x


def written(found: list, targets: dict[int, Any] | None) -> list:
    """The outputs with those of `targets` in their places, copied into them if they do not lie there."""
    for i, target in (targets or {}).items():
        if address(found[i]) != address(target):
            target[...] = found[i]
        found[i] = target
    return found
