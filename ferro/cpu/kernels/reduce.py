"""Sums, and sums of squared distances from a mean, of large arrays over any dimensions; products; largest and smallest elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import contiguous, has_kernel, share_rows

LARGE = 1 << 17  # elements below which NumPy takes less than 50 us, and nothing is compiled
GRAIN = 1 << 19  # elements that one thread takes in some 50 us
PIECE = 1 << 17  # numbers, of a few long rows or columns, that are taken together


def has_sum_kernel(x: np.ndarray) -> bool:
    """Whether `total` takes `x`: large, and of single or double precision."""
    return x.size >= LARGE and has_kernel(x, *_SUMS)


def has_extreme_kernel(x: np.ndarray) -> bool:
    """Whether `extreme` and `first_extreme` take `x`."""
    return x.size >= LARGE and has_kernel(x, *_EXTREMA)


_SUMS = ("sum_rows", "sum_columns", "square_rows", "square_columns")
_EXTREMA = ("max_rows", "max_columns", "min_rows", "min_columns", "first_extreme_columns")


def total(x: np.ndarray, dim: tuple[int, ...], mean: Any = None) -> np.ndarray:
    """The sum over `dim` of x, or of (x - mean)² with a mean that keeps these dimensions or is 0, in float64; these are kept.

    The reduced dimensions that lie closest in memory are summed by a kernel, which leaves little of what is large.
    """
    if x.flags.c_contiguous:
        return _total(x, dim, mean)
    order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
    back = np.argsort(order)
    out = _total(
        contiguous(x.transpose(order)),
        tuple([int(back[d]) for d in dim]),
        mean.transpose(order) if isinstance(mean, np.ndarray) else mean,
    )
    return out.transpose(back)


def _total(x: Any, dim: tuple[int, ...], mean: Any) -> Any:
    """`total` of a C-contiguous array."""
    shape = x.shape
    stop = start = max([d + 1 for d in dim if shape[d] > 1], default=0)
    if not stop:  # there is nothing to add
        return x.astype(np.float64) if mean is None else (x - mean).astype(np.float64) ** 2
    while start and (start - 1 in dim or shape[start - 1] == 1):
        start -= 1
    before, behind = math.prod(shape[:start]), math.prod(shape[stop:])
    left = (*shape[:start], *[1] * (stop - start), *shape[stop:])
    center = mean
    if isinstance(mean, np.ndarray):
        center = np.ascontiguousarray(np.broadcast_to(mean, left), x.dtype).reshape(before, behind)
    elif mean is not None:
        center = np.zeros((before, behind), x.dtype)
    name = "sum" if mean is None else "square"
    out = _along(name, x.reshape(before, -1, behind), center).reshape(left)
    rest = tuple([d for d in dim if d < start])
    return np.add.reduce(out, rest, keepdims=True) if rest else out


def product(x: np.ndarray, dim: int | None) -> np.ndarray:
    """The product over one dimension, which is kept, or over all (None), in float64."""
    if dim is None:
        return _along("prod", contiguous(x).reshape(1, -1, 1)).reshape((1,) * x.ndim)
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    out = _along("prod", contiguous(x).reshape(before, x.shape[dim], after))
    return out.reshape(*x.shape[:dim], 1, *x.shape[dim + 1 :])


# What takes the results for the parts of rows together.
_TOGETHER: dict[str, Any] = {"sum": np.add, "square": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _along(name: str, x: np.ndarray, mean: Any = None) -> np.ndarray:
    """Over the middle dimension of a C-contiguous array of three: rows by one kernel, columns by another.

    Few long matrices are cut into parts of one length, and a shorter one at the end, for the sake of threads.
    """
    before, n, m = x.shape
    parts = min(n * m // PIECE, n // 8) if before <= 8 else 1  # parts of 8 rows are large beside their results
    if parts < 2:
        return _whole(name, x, mean)
    rows = n // parts
    for some in (8, 16, 32):  # so many parts leave no rest in most cases
        if n % some == 0 and parts < 2 * some < 4 * parts:
            rows = n // some
    parts = n // rows
    out = np.empty((before, m), x.dtype if name in ("max", "min") else np.float64)
    for k in range(before):
        center = None if mean is None else mean[k : k + 1]
        found = _whole(name, x[k, : parts * rows].reshape(parts, rows, m), _repeated(center, parts))
        if parts * rows < n:
            found = np.concatenate((found, _whole(name, x[k : k + 1, parts * rows :], center)))
        _TOGETHER[name].reduce(found, 0, None, out[k])
    return out


def _repeated(mean: Any, times: int) -> Any:
    return None if mean is None else np.repeat(mean, times, 0)


def _whole(name: str, x: np.ndarray, mean: Any) -> np.ndarray:
    """The same, matrix by matrix."""
    before, n, m = x.shape
    out = np.empty((before, m), x.dtype if name in ("max", "min") else np.float64)
    grain = GRAIN // (n * m) + 1
    if m > 1:
        share_rows(name + "_columns", before, grain, (x, out) if mean is None else (x, mean, out))
    elif mean is None:
        share_rows(name + "_rows", before, grain, (x.reshape(before, n), out.reshape(-1)))
    else:
        share_rows(name + "_rows", before, grain, (x.reshape(before, n), mean.reshape(-1), out.reshape(-1)))
    return out


def extreme(x: np.ndarray, first: int, stop: int, largest: bool) -> np.ndarray:
    """The largest or smallest elements of a C-contiguous array over the dimensions from `first` to before `stop`."""
    shape = x.shape
    before, behind = math.prod(shape[:first]), math.prod(shape[stop:])
    return _along("max" if largest else "min", x.reshape(before, -1, behind))


def first_extreme(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest elements of a C-contiguous array over a dimension, and the first place of each."""
    shape = x.shape
    before, behind = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    y = x.reshape(before, shape[dim], behind)
    left = shape[:dim] + shape[dim + 1 :]
    best, place = np.empty((before, behind), x.dtype), np.empty((before, behind), np.int64)
    share_rows("first_extreme_columns", before, GRAIN // (2 * y[0].size) + 1, (y, largest, best, place))
    return best.reshape(left), place.reshape(left)
