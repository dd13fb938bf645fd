"""Sums, and sums of squared distances from a mean, of large arrays over any dimensions; products; largest and smallest elements."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.common import MOST_CHUNKS, contiguous, has_kernel, share_rows
from ferro.cpu.thresholds import SUM_FEW_TILES, SUM_GRAIN, SUM_LEAST, SUM_PIECE, SUM_ROWS, SUM_TILE
from ferro.native.readiness import ready
from ferro.native.workers import helpers, run_rows


def has_sum_kernel(x: np.ndarray) -> bool:
    """Whether `total` takes `x`: large, and of single or double precision."""
    return x.size >= SUM_LEAST and x.dtype in _REAL and ready(_SUMS, x.dtype)


def has_extreme_kernel(x: np.ndarray) -> bool:
    """Whether `extreme` and `first_extreme` take `x`."""
    return x.size >= SUM_LEAST and has_kernel(x, *_EXTREMA)


_DOUBLE = np.dtype(np.float64)
_REAL = (np.dtype(np.float32), _DOUBLE)
_SUMS = kernels("jit_reduce.sum_rows sum_columns square_rows square_columns")
_EXTREMA = kernels("jit_reduce.max_rows max_columns min_rows min_columns first_extreme_columns")


def total(
    x: np.ndarray, dim: tuple[int, ...], keepdim: bool = True, dtype: Any = _DOUBLE, center: Any = None, power: int = 1
) -> Any:
    """The sum over `dim` of x, of x - center, or of squares of that (power 2); the center keeps these dimensions.

    The reduced dimensions that lie closest in memory are summed by a kernel, which leaves little of what is large.
    """
    if not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
        back = np.argsort(order)
        x = contiguous(x.transpose(order))
        center = center.transpose(order) if isinstance(center, np.ndarray) else center
        out = total(x, tuple([int(back[d]) for d in dim]), True, dtype, center, power).transpose(back)
        return out if keepdim else out.reshape([s for d, s in enumerate(out.shape) if d not in dim])
    cut, left, rest, shape = _plan(x.shape, dim, keepdim)
    if not cut[1]:  # there is nothing to add
        away = x if center is None else x - center
        return (away.astype(_DOUBLE) ** power).astype(dtype).reshape(shape)
    if center is None:
        about = np.empty((0, 0), x.dtype)
    else:
        about = np.empty((cut[0], cut[2]), x.dtype)
        about.reshape(left)[...] = center
    out = _along("sum" if power == 1 else "square", x, cut, _DOUBLE if rest else dtype, about)
    if rest:
        out = np.add.reduce(out.reshape(left), rest).astype(dtype)
    return out.reshape(shape)


@lru_cache(1024)
def _plan(shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> tuple:
    """How to sum over the last run of the dimensions `dim`: what `_along` takes, the shape it leaves (which keeps them),
    the dimensions that are left to reduce, and the shape of the result.
    """
    result = tuple([1 if d in dim else s for d, s in enumerate(shape) if keepdim or d not in dim])
    stop = start = max([d + 1 for d in dim if shape[d] > 1], default=0)
    if not stop:
        return (0,) * 6, shape, (), result
    while start and (start - 1 in dim or shape[start - 1] == 1):
        start -= 1
    cut = _cut(math.prod(shape[:start]), math.prod(shape[start:stop]), math.prod(shape[stop:]))
    left = (*shape[:start], *[1] * (stop - start), *shape[stop:])
    return cut, left, tuple([d for d in dim if d < start and shape[d] > 1]), result


def _cut(before: int, n: int, m: int) -> tuple[int, int, int, int, int, int]:
    """How `_along` takes an array of (before, n, m) numbers: into how many parts it cuts n where there are few tiles of
    columns for the threads to share, how many tiles there are in all, and how many chunks of these.
    """
    tiles = before * -(-m // SUM_TILE)
    parts = max(1, min(-(-n * m // SUM_PIECE), n // SUM_ROWS)) if tiles <= SUM_FEW_TILES else 1
    tiles *= parts
    return before, n, m, parts, tiles, min(-(-8 * before * n * m // SUM_GRAIN), tiles, MOST_CHUNKS)


# What takes the results for the parts of rows together.
_TOGETHER: dict[str, Any] = {"sum": np.add, "square": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _along(name: str, x: np.ndarray, cut: tuple, dtype: Any, center: Any = None) -> np.ndarray:
    """Over the middle dimension of a C-contiguous array, rows by one kernel, columns by another; `cut` is of `_cut`.

    The result has (before, m) numbers, in any shape.
    """
    before, n, m, parts, tiles, chunks = cut
    kind = dtype if parts == 1 or name in ("max", "min") else _DOUBLE
    inputs: tuple
    if m == 1:
        out = np.empty(tiles, kind)
        inputs = (x.reshape(before, n),) if center is None else (x.reshape(before, n), center.reshape(-1))
        run_rows(name + "_rows", chunks, tiles, (*inputs, out, 0, tiles), -1, len(inputs) + 1)
    else:
        out = np.empty((before * parts, m), kind)
        inputs = (x.reshape(before, n, m),) if center is None else (x.reshape(before, n, m), center)
        run_rows(name + "_columns", chunks, tiles, (*inputs, out, 0, tiles), -1, len(inputs) + 1)
    return out if parts == 1 else _TOGETHER[name].reduce(out.reshape(before, parts, m), 1).astype(dtype, copy=False)


def product(x: np.ndarray, dim: int | None, dtype: Any = _DOUBLE) -> np.ndarray:
    """The product over one dimension, which is kept, or over all (None), taken in float64."""
    shape = x.shape
    if dim is None:
        return _along("prod", contiguous(x), _cut(1, x.size, 1), dtype).reshape((1,) * len(shape))
    cut = _cut(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    return _along("prod", contiguous(x), cut, dtype).reshape(*shape[:dim], 1, *shape[dim + 1 :])


def quotients(whole: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray:
    """The products over a dimension, as `product` gives them, over each of their factors."""
    x = contiguous(x)
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    count = math.gcd(x.size, MOST_CHUNKS) if whole.size == 1 else before * x.shape[dim] if after > 1 else before
    out = np.empty(x.shape, x.dtype)
    args = (x.reshape(count, -1), whole.reshape(before, after), out.reshape(count, -1), 0, count)
    run_rows("quotients", min(16 * x.size // SUM_GRAIN, count, MOST_CHUNKS), count, args, -1, 3)
    return out


def extreme(x: np.ndarray, first: int, stop: int, largest: bool) -> np.ndarray:
    """The largest or smallest elements of a C-contiguous array over the dimensions from `first` to before `stop`."""
    shape = x.shape
    cut = _cut(math.prod(shape[:first]), math.prod(shape[first:stop]), math.prod(shape[stop:]))
    return _along("max" if largest else "min", x, cut, x.dtype)


def first_extreme(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest elements of a C-contiguous array over a dimension, and the first place of each."""
    shape = x.shape
    before, n, behind = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    parts = math.gcd(n, 8) if before == 1 and helpers() else 1  # of one matrix, for the threads to share
    left = shape[:dim] + shape[dim + 1 :]
    y = x.reshape(before * parts, n // parts, behind)
    best, place = np.empty((before * parts, behind), x.dtype), np.empty((before * parts, behind), np.int64)
    share_rows("first_extreme_columns", before * parts, SUM_GRAIN // (2 * y[0].size) + 1, (y, largest, best, place))
    if parts > 1:
        part, columns = (best.argmax if largest else best.argmin)(0), np.arange(behind)
        best, place = best[part, columns], place[part, columns] + part * (n // parts)
    return best.reshape(left), place.reshape(left)
