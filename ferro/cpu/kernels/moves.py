"""Copies of large arrays by kernels: any view into any other, matrices transposed."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ferro.cpu import team
from ferro.cpu.kernels import background
from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, SMALL

_TRANSPOSED = ("transposed",)
NUMBERS = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}  # what elements of so many bytes are moved as
LARGE = 1 << 15  # elements from which views are copied by the kernel: what comes before it takes some microseconds
_SOME = 1 << 13  # elements of a chunk


def contiguous(x: np.ndarray) -> np.ndarray:
    """A C-ordered copy."""
    parts = _exchanged(x) if x.size >= SMALL and not x.flags.c_contiguous else None
    if parts is not None and x.flags.aligned and not x.dtype.hasobject:
        number = NUMBERS.get(x.itemsize)
        if number is not None and background.ready(_TRANSPOSED, number):
            return _transposed(x, number, *parts)
    if x.size < LARGE:
        return np.array(x, order="C")
    out = np.empty(x.shape, x.dtype)
    assign((out, x))
    return out


def _transposed(x: np.ndarray, number: Any, stacked: int, axes: int) -> np.ndarray:
    """A C-ordered copy of what is C-contiguous once the dimensions from `stacked` to `axes` are moved to the end."""
    out = np.empty(x.shape, x.dtype)
    first = math.prod(x.shape[:stacked])
    columns = math.prod(x.shape[stacked:axes])
    rows = x.size // (first * columns)
    order = (*range(stacked), *range(axes, x.ndim), *range(stacked, axes))
    source = x.transpose(order).reshape(first, rows, columns).view(number)
    groups = first * -(-rows // 8)
    args = (0, groups, source, out.reshape(first, columns, rows).view(number))
    team.run_rows("transposed", min(x.size // GRAIN, groups), groups, args, whole=-1, span=0)
    return out


def _exchanged(x: np.ndarray) -> tuple[int, int] | None:
    """(a, b) where moving the dimensions from a to b to the end makes x C-contiguous."""
    n = x.ndim
    for b in range(n - 1, 0, -1):
        for a in range(b - 1, -1, -1):
            if x.transpose(*range(a), *range(b, n), *range(a, b)).flags.c_contiguous:
                return a, b
    return None


# --- any view into any other -----------------------------------------------------------------------------------------


def assign(*pairs: tuple[np.ndarray, Any]) -> None:
    """For each pair of a view and what it is to hold (an array or a number, broadcast): target[...] = source.

    No target may overlap with another one or with a source.
    """
    total = sum([target.size for target, _ in pairs])
    twin = team.fixed_twin("move", _example) if total >= LARGE else None
    words: list[int] = []
    sources = []  # live until they have been read
    for target, source in pairs:
        if twin is not None and target.size:
            if type(source) is not np.ndarray or source.shape != target.shape:
                source = np.broadcast_to(np.asarray(source, target.dtype), target.shape)
            found = _words(target, source)
            if found is not None:
                words += found
                sources.append(source)
                continue
        target[...] = source
    if twin is not None and words:
        parts = min(total // _SOME, MOST_CHUNKS)
        team.share(twin, team.helpers(), parts, parts, (0, parts, parts, np.array(words, np.int64)), -1, 0)


def copied(x: np.ndarray) -> np.ndarray:
    """A copy with the same order of dimensions in memory, which for an expanded array is the usual one."""
    order = "C" if 0 in x.strides else "K"
    if x.size < LARGE:
        return x.copy(order)
    out = np.empty_like(x, order=order)
    assign((out, x))
    return out


def zeros(shape: tuple, dtype: Any) -> np.ndarray:
    """Zeros, written by all threads where there are many."""
    if not team.helpers() or math.prod(shape) < LARGE:
        return np.zeros(shape, dtype)
    out = np.empty(shape, dtype)
    assign((out, 0))
    return out


def triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray | None:
    """x with zeros above (lower) or below a diagonal of its last two dimensions; None if no kernel can do it."""
    number = NUMBERS.get(x.itemsize)
    if number is None or x.size < SMALL or x.dtype.hasobject or not background.ready(("triangle",), number):
        return None
    x = x if x.flags.c_contiguous and x.flags.aligned else contiguous(x)
    m, n = x.shape[-2:]
    out = np.empty(x.shape, x.dtype)
    rows = x.size // n
    args = (0, rows, m, diagonal, lower, x.reshape(rows, n).view(number), out.reshape(rows, n).view(number))
    team.run_rows("triangle", min(x.size // _SOME, rows, MOST_CHUNKS), rows, args, whole=-1, span=0)
    return out


def _words(target: np.ndarray, source: np.ndarray) -> list[int] | None:
    """A copy as the kernel reads it; None if it cannot make it."""
    size = target.itemsize
    if (
        source.dtype is not target.dtype
        or target.dtype.hasobject
        or not (target.flags.aligned and source.flags.aligned)
    ):
        return None
    lengths: list[int] = []
    s: list[int] = []
    t: list[int] = []
    for b, a, n in sorted(zip(target.strides, source.strides, target.shape), reverse=True):  # as the target lies
        if n == 1:
            continue
        if lengths and s[-1] == a * n and t[-1] == b * n:  # one dimension with the one before
            lengths[-1] *= n
            s[-1], t[-1] = a, b
        else:
            lengths.append(n)
            s.append(a)
            t.append(b)
    if not lengths or (s[-1] == t[-1] == size):
        if lengths:
            lengths[-1] *= size
            s[-1] = t[-1] = 1
        else:
            lengths, s, t = [size], [1], [1]
        size = 1
    elif size == 16:
        lengths.append(2)
        s.append(8)
        t.append(8)
        size = 8
    if len(lengths) > 4 or size not in (1, 4, 8) or (size == 1 and target.itemsize == 1 and (s[-1] != 1 or t[-1] != 1)):
        return None
    pad = [0] * (4 - len(lengths))
    ones = [1] * len(pad)
    return [size, address(source), address(target), *ones, *lengths, *pad, *s, *pad, *t]


def _example() -> tuple:
    return 0, 1, 1, np.zeros(0, np.int64)


def address(a: np.ndarray) -> int:
    """Where the elements of an array begin: the first field of its C struct (``a.ctypes.data`` takes a microsecond)."""
    return _pointer_at(id(a) + object.__basicsize__).value or 0


_pointer_at = ctypes.c_void_p.from_address
if address(_probe := np.zeros(1)) != _probe.ctypes.data:  # not the NumPy, or the Python, that we know

    def address(a: np.ndarray) -> int:
        return a.ctypes.data
