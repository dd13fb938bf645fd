"""Memory that others hold too: lent to NumPy, mapped from a file, kept together in deep copies."""

from __future__ import annotations

import mmap
import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ferro.core import backend
from ferro.cpu.shape import geometry, memory_of

# The owners of memory that NumPy has been given, by their id.
_LENT: WeakValueDictionary[int, Any] = WeakValueDictionary()


def lend(data: Any) -> None:
    """Notes that the program is given an array of this memory: it stays where it is, as in PyTorch."""
    owner = memory_of(data)
    _LENT[id(owner)] = (
        owner  # (unasked: to ask costs as much, and an interrupt within the question leaves memory behind)
    )


def is_lent(data: Any) -> bool:
    """Whether the program has been given an array of this memory."""
    return id(memory_of(data)) in _LENT


class _Mapping(mmap.mmap):
    """Memory that shows a file."""

    filename: str | None = None  # if what is written reaches it


def mapped(filename: str, shared: bool, nbytes: int) -> Any:
    """The first bytes of a file in memory, None for no bytes; shared: what is written reaches the file, which grows as needed."""
    if nbytes < 0:
        raise RuntimeError(f"from_file: the number of bytes must not be negative, got {nbytes}")
    file = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o666)
    try:
        length = os.fstat(file).st_size
        if length < nbytes:
            if not shared:
                raise RuntimeError(f"from_file: unable to mmap {nbytes} bytes from file <{filename}>: it has {length}")
            os.ftruncate(file, nbytes)
        if nbytes == 0:
            return None
        found = _Mapping(file, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    finally:
        os.close(file)
    found.filename = filename if shared else None
    return found


def mapping(memory: Any) -> Any:
    """The mapped file that an array shows; None if it shows none."""
    base = memory_of(memory).base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None


def copied(data: Any, memo: dict) -> Any:
    """A deep copy of an array; arrays that view one memory view one memory in the copy too."""
    if type(data) is not backend.HOST:
        return _copied_there(data, memo)
    root = memory_of(data)
    if not root.flags.forc:
        return data.copy(order="K")
    key = ("the memory of", id(root))
    if key not in memo:
        memo[key] = root, np.array(root, order="K")  # with the root itself: its id must not be used again
    fresh = memo[key][1]
    if root is data:
        return fresh
    offset = data.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(data.shape, data.dtype, fresh, offset, data.strides)


def _copied_there(data: Any, memo: dict) -> Any:
    """The same of an array of a device."""
    root, module = memory_of(data), backend.xp_of(data)
    if not root.flags.forc:
        return data.copy(order="K")
    key = ("the memory of", id(root))
    if key not in memo:
        memo[key] = root, root.copy(order="K")
    fresh = memo[key][1]
    if root is data:
        return fresh
    shape, strides, offset = geometry(data)
    return module.as_strided(fresh, shape, strides, offset, geometry(fresh))
