"""Where arrays of a GPU lie in its memory: views, copies, and what the formulas of `ferro.cpu` ask of memory."""

from __future__ import annotations

import math
import weakref
from functools import cache
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import numpy as np

from ferro.core.graph_task import STANDING
from ferro.cpu.shape import strides_of
from ferro.cuda.driver import cupy

ALL = slice(None)


def is_half(x: Any) -> bool:
    """Whether the numbers are 16-bit floats, whose functions are computed in float32."""
    return x.dtype.itemsize == 2 and x.dtype.kind in "fV"


def widened(x: Any) -> Any:
    """An array of 16-bit floats as float32; anything else as it is."""
    return x.astype(np.float32) if isinstance(x, cupy().ndarray) and is_half(x) else x


def contiguous(x: Any) -> Any:
    """A C-ordered copy."""
    return x.copy("C")


def copied(x: Any) -> Any:
    """A copy with the same order of dimensions in memory."""
    return x.copy("C") if 0 in x.strides else x.copy("K")


def strided(x: Any, shape: tuple, strides: tuple, start: int = 0) -> Any:
    """The memory that begins `start` bytes after the first element of x, under another shape and strides (in bytes)."""
    return over(x, shape, x.dtype, start, strides)


# By the identity of arrays that CuPy takes for owners of their memory, as long as they live: the owner that they view.
_VIEWED: dict[int, tuple[Any, Any]] = {}


def over(held: Any, shape: tuple, dtype: Any, start: int, strides: tuple) -> Any:
    """The array of a dtype, a shape and strides (in bytes) that looks at the memory of another, from its byte number `start` on."""
    view = cupy().ndarray(shape, dtype, held.data + start, strides)
    key = id(view)
    _VIEWED[key] = weakref.ref(view, lambda _: _VIEWED.pop(key, None)), memory_of(held)
    return view


def empty(shape: tuple, dtype: Any, strides: tuple) -> Any:
    """A new array without gaps, of these strides."""
    return cupy().ndarray(shape, dtype, cupy().empty(math.prod(shape), dtype).data, strides)


def expand(x: Any, shape: tuple) -> Any:
    """x broadcast to `shape` without a copy."""
    return cupy().broadcast_to(x, shape)


def address(x: Any) -> int:
    """Where the elements of an array begin."""
    return x.data.ptr


def memory_of(x: Any) -> Any:
    """The array that owns the memory x lies in."""
    while True:
        base = x.base
        if base is None:
            known = _VIEWED.get(id(x))
            if known is None:
                return x
            base = known[1]
        x = base


def geometry(x: Any) -> tuple[tuple, tuple, int]:
    """Shape, strides and offset in the storage of x, counted in elements; see `ferro.cpu.shape.geometry`."""
    return x.shape, strides_of(x), (address(x) - address(memory_of(x))) // x.dtype.itemsize


def storage_bytes(x: Any) -> int:
    """The number of bytes of the storage of x."""
    root = memory_of(x)
    reach = sum([(n - 1) * abs(s) for n, s in zip(root.shape, root.strides, strict=True)])
    return reach + root.itemsize if root.size else 0


def memory_bytes(root: Any) -> Any:
    """All bytes of the memory of an array that owns it, as an array that shares them."""
    return over(root, (storage_bytes(root),), np.uint8, 0, (1,))


def is_unshared(array: Any) -> bool:
    """Whether no other array lies in the memory of one, as far as counts of references tell; no, once a stream was chosen.

    An array holds a pointer, and that the memory: a view has a pointer of its own into the same memory, or the same pointer.
    """
    memory = array.data.mem
    if STANDING or getattr(memory, "_owner", None) is not None:
        return False
    return (getrefcount(array.data), getrefcount(memory)) == _counts_of_one()


@cache
def _counts_of_one() -> tuple[int, int]:
    """The counts for an array that nobody shares; such that no array has where a view changes none of them."""
    array = cupy().empty(1, np.uint8)
    memory = array.data.mem
    alone = getrefcount(array.data), getrefcount(memory)
    view = strided(array, (1,), (1,))
    told = getrefcount(memory) > alone[1]
    del view
    same = cupy().ndarray((1,), np.uint8, array.data)
    told &= (getrefcount(array.data), getrefcount(memory)) != alone
    del same
    return alone if told else (0, 0)


def method(name: str) -> Any:
    """A method of arrays as a function: what NumPy's takes by position."""
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def within(index: Any, size: int) -> bool:
    """Whether all integers of an index are in [0, size)."""
    return not index.size or bool(((index >= 0) & (index < size)).all())


def _never(*args: Any) -> bool:
    return False


def _none(*args: Any) -> None:
    return None


# What modules of the CPU's kernels stand for in twins; functions.py enters the namespace for `ferro.cpu`.
MODULES: dict[str, Any] = {
    "ferro.cpu.kernels.gather_scatter": SimpleNamespace(fits=_never, line=_none, take=_none, within=within),
    "ferro.cpu.kernels.conv": SimpleNamespace(ready=_never),
    "ferro.cpu.kernels.attention": SimpleNamespace(),
    "ferro.cpu.kernels.factor": SimpleNamespace(ready=_never, ORDER=0),
    "ferro.cpu.kernels.triangle": SimpleNamespace(ready=_never),
}
