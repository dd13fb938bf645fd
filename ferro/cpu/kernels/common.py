"""What the functions around kernels share: which arrays get one, how arrays are prepared, how work is cut into chunks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ferro.cpu.threads import parallel_for

SMALL = 4096  # elements below which NumPy answers, so that nothing is ever compiled for small arrays
MOST_CHUNKS = 32  # keeps the cost of a chunk negligible, and 8 threads evenly busy

_REAL = (np.dtype(np.float32), np.dtype(np.float64))


def has_kernel(x: np.ndarray) -> bool:
    """Whether `x` is large enough for a kernel and of a dtype that kernels are compiled for."""
    return x.size >= SMALL and x.dtype in _REAL


def is_half(x: np.ndarray) -> bool:
    """Whether the numbers are 16-bit floats, whose functions are computed in float32."""
    return x.dtype.itemsize == 2 and x.dtype.kind in "fV"


def widened(*arrays: np.ndarray | None) -> list:
    """The arrays with 16-bit floats as float32."""
    return [x.astype(np.float32) if x is not None and is_half(x) else x for x in arrays]


def contiguous(x: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """`x` as kernels read it: C-contiguous, aligned, of the given dtype."""
    return np.require(x, dtype, "CA")


def split(length: int, grain: int, work: Callable[[int, int], object]) -> None:
    """Call work(start, stop) for the parts of range(length), each of about `grain` or more, spread over the threads.

    The parts depend on `length` and `grain` alone: see Note [Same numbers for any number of threads] in threads.py.
    """
    parts = min(length // max(grain, 1), MOST_CHUNKS)
    if parts < 2:
        work(0, length)
    else:
        parallel_for(lambda part: work(length * part // parts, length * (part + 1) // parts), parts)


def split_rows(rows: int, columns: int, grain: int, work: Callable[[int, int], object]) -> None:
    """`split` over the rows of a matrix, `grain` being a number of elements."""
    split(rows, -(-grain // max(columns, 1)), work)
