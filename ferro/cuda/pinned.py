"""Page-locked ("pinned") memory of the processor, from which a copy to the GPU goes on while the program does.

A copy from it that is not waited for (`non_blocking=True`) is the work of a stream for copies, which begins at once, whatever the current
stream has to do yet: a batch comes while the step before it is computed. The current stream waits for the copy, and the pinned memory
is kept until it is done. To change the numbers before that is the program's error, as in PyTorch. Copies to the processor are
always waited for.
"""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any

import numpy as np

from ferro.core.base import wrap
from ferro.cuda.driver import cupy, module
from ferro.cuda.pool import keep_until, used_in

_BLOCKS: dict[int, int] = {}  # where pinned arrays begin, and where they end


def pinned(array: np.ndarray) -> np.ndarray:
    """A copy of a NumPy array in pinned memory; itself if it lies there."""
    if is_pinned(array):
        return array
    found = module("cupyx").empty_pinned(array.shape, array.dtype)
    np.copyto(found, array)
    if found.nbytes:
        start = found.__array_interface__["data"][0]
        _BLOCKS[start] = start + found.nbytes
        weakref.finalize(found, _BLOCKS.pop, start).atexit = False
    return found


def is_pinned(array: np.ndarray) -> bool:
    """Whether a NumPy array lies in memory that `pinned` made."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return any(start <= low and high <= end for start, end in _BLOCKS.items())


def from_pinned(array: np.ndarray) -> Any:
    """A copy on the GPU, for which the current stream waits, of a NumPy array in pinned memory; of another one at once."""
    if not (array.flags.c_contiguous and array.size and is_pinned(array)):
        return cupy().asarray(array)
    current = cupy().cuda.get_current_stream()
    if current.is_capturing():  # (replays copy in their stream, from memory that the program keeps, as in PyTorch)
        found = cupy().empty(array.shape, array.dtype)
        found.set(array)
        return found
    copying = _stream_of_copies()
    with copying:  # (memory of this stream's own, which nobody reads any longer)
        tensor = wrap(cupy().empty(array.shape, array.dtype))
        tensor._data.set(array)
    done = copying.record()
    current.wait_event(done)
    keep_until(done, array)
    used_in(tensor, current)
    return tensor._data


@cache
def _stream_of_copies() -> Any:
    return cupy().cuda.Stream(non_blocking=True)
