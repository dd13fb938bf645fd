"""What the functions around kernels share: which arrays get one, how they are prepared, how work is cut into chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cpu.kernels.conversions import converted, float32
from ferro.cpu.thresholds import GRAIN
from ferro.native.readiness import get, ready
from ferro.native.thread_pool import parallel_for
from ferro.native.thresholds import MOST_CHUNKS, SMALL
from ferro.native.workers import run_rows

_REAL = (np.dtype(np.float32), np.dtype(np.float64))


def has_kernel(x: np.ndarray, *names: str, small: bool = False) -> bool:
    """Whether `x` is large enough for the kernels of these names (none: for all), and they have machine code for it.

    `small`: if it is there already, they take small arrays too: a call costs no more than one of NumPy then. Nothing is
    compiled for small arrays.
    """
    if x.dtype not in _REAL:
        return False
    large = x.size >= SMALL
    return (large or small) and ready(names, x.dtype, large)


def is_half(x: np.ndarray) -> bool:
    """Whether the numbers are 16-bit floats, whose functions are computed in float32."""
    return x.dtype.itemsize == 2 and x.dtype.kind in "fV"


def widened(x: Any) -> Any:
    """An array of 16-bit floats as float32; anything else as it is."""
    return converted(x, float32) if isinstance(x, np.ndarray) and is_half(x) else x


def contiguous(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """`x` as kernels read it: C-contiguous, aligned, of the given dtype."""
    if dtype is not None and x.dtype is not dtype and x.dtype != dtype:
        x = x.astype(dtype)
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else np.array(x, order="C")


def split(length: int, grain: int, work: Callable[[int, int], object]) -> None:
    """Call work(start, stop) for the parts of range(length), each of about `grain` or more, spread over threads of Python.

    It is for what NumPy, SciPy and BLAS compute; kernels go to the workers, by `share_rows`. The parts depend on `length` and
    `grain` alone: see Note [Same numbers for any number of threads] in threads.py.
    """
    parts = min(length // max(grain, 1), MOST_CHUNKS)
    if parts < 2:
        work(0, length)
    else:
        parallel_for(lambda part: work(length * part // parts, length * (part + 1) // parts), parts)


def share_rows(name: str, rows: int, grain: int, args: tuple, whole: int = 0, span: int = -2) -> bool:
    """Call a kernel whose rows do not depend on each other: see `workers.run_rows`.

    `grain` rows take some 50 us, as in `split`; the workers take chunks of an eighth of that.
    """
    return run_rows(name, min(8 * rows // max(grain, 1), rows, MOST_CHUNKS), rows, args, whole, span)


def pointwise(name: str, *arrays: np.ndarray, parameters: tuple = (), grain: int = GRAIN) -> np.ndarray:
    """The kernel of that name over arrays of one shape; the result has the dtype and memory layout of the last one."""
    x = arrays[-1]
    for a in arrays:
        flags = a.flags
        if not (flags.c_contiguous and flags.aligned and a.dtype is x.dtype):
            out = np.empty_like(x)
            order = sorted(range(x.ndim), key=out.strides.__getitem__, reverse=True)
            flat_out = out.transpose(order).reshape(-1)
            flat = [contiguous(a.transpose(order), x.dtype).reshape(-1) for a in arrays]
            break
    else:
        out = np.empty(x.shape, x.dtype)
        flat_out = out.reshape(-1)
        flat = [a.reshape(-1) for a in arrays]
    if 4 * x.size < grain:  # a few microseconds: every step around the kernel counts, and nobody helps with it
        get(name)(*flat, *parameters, flat_out)
    else:
        share_rows(name, x.size, grain, (*flat, *parameters, flat_out))
    return out
