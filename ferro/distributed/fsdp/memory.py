"""Where whole parameters lie: memory that is there while they are used, and given back in between.

Note [Memory that comes back].  The graph of a forward keeps arrays of the parameters that it used. They shall be freed behind the forward, and
be there again when backward needs them.

On the processor they come back in the same place: whole parameters lie in pages of their own. To free them is to tell the system that
nobody needs their content; to fill them again is to write them. What looks at them meanwhile would read zeros: the counter of changes of
the parameter says that they were written, so the graph raises an error instead.

On a GPU they come back in another place, as memory of CuPy's pool, which is ordered by streams. So the graph keeps no arrays of them,
but says which part of which parameter it means (saved.py). What keeps an array all the same keeps its memory, and reads right numbers.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np

from ferro.cuda import driver, pool


class Pages:
    """An array in whole pages."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        count = math.prod(shape) * dtype.itemsize
        flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self._map = mmap.mmap(-1, max(count, 1), **flags)
        self.array: Any = np.frombuffer(self._map, np.uint8, count).view(dtype).reshape(shape)

    def take(self) -> Any:
        """The array, whose numbers are to be written."""
        return self.array

    def free(self) -> None:
        """Gives the content back; where the system has no way to do so, it stays."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def holds(self, array: Any) -> bool:
        """Whether an array shows memory of this one."""
        return np.may_share_memory(array, self.array)


class Blocks:
    """An array of a GPU, another one each time; None while there is none."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape, self._dtype = shape, dtype
        self.array: Any = None
        self._stream: Any = None  # to which the pool gives its memory back

    def take(self) -> Any:
        """A new array, whose numbers are to be written; the last one if it is still there."""
        if self.array is None:
            self._stream = driver.cupy().cuda.get_current_stream()
            self.array = driver.cupy().empty(self._shape, self._dtype)
        return self.array

    def free(self) -> None:
        """Lets go of it: the pool gives its memory to what comes next in the stream that it was made in."""
        if self.array is not None:
            here = driver.cupy().cuda.get_current_stream()
            if here.ptr != self._stream.ptr:
                pool.keep_until(here.record(), self.array)
        self.array = None

    def holds(self, array: Any) -> bool:
        """Whether an array shows memory of this one."""
        return self.place(array) is not None

    def place(self, array: Any) -> int | None:
        """How many bytes behind its beginning another array begins; None if that lies elsewhere."""
        if self.array is None or not array.nbytes:
            return None
        behind = array.data.ptr - self.array.data.ptr
        return behind if 0 <= behind < self.array.nbytes else None

    def part(self, behind: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> Any:
        """The array that begins so many bytes behind the beginning."""
        return driver.cupy().ndarray(shape, dtype, self.array.data + behind, strides)


def absent(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of a GPU that has this shape and one number, for a parameter that is not there."""
    cupy = driver.cupy()
    return cupy.broadcast_to(cupy.zeros((1,) * len(shape), dtype), shape)
