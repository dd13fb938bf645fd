"""Reductions of NumPy arrays; `dim` is a tuple of non-negative dimensions unless said otherwise.

Note [Accurate sums].  NumPy adds pairwise along the dimension that lies closest in memory and one after the other along
any other, so the sum of the rows of a tall float32 matrix would lose digits in proportion to its height.  Long sums are
cut into blocks here, whose sums are added in turn, or done by a kernel that adds blocks in float64.  16-bit floats are
summed as float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.indexing import scatter_
from ferro.cpu.kernels.common import SMALL, has_kernel, share_rows
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.reduce import (
    extreme,
    first_extreme,
    has_extreme_kernel,
    has_sum_kernel,
    product,
    quotients,
    total,
)
from ferro.cpu.masks import select
from ferro.cpu.namespace import cpu
from ferro.cpu.thresholds import SUM_GRAIN, SUM_LEAST, SUM_RUN

__all__ = ["all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "max_dim", "mean",
           "min_dim", "nansum", "prod", "prod_others", "sum", "tie_weights", "value_gather",
           "value_scatter"]  # fmt: skip

FLOAT16, BFLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_and: Any = np.logical_and.reduce
_or: Any = np.logical_or.reduce


def wide(x: Any) -> Any:
    """x, as float32 if it holds 16-bit floats."""
    return x.astype(FLOAT32) if x.dtype is FLOAT16 or x.dtype is BFLOAT16 else x


def whole(out: Any) -> Any:
    """A result as an array: NumPy gives numbers where no dimension is left, which the recorder in machine code leaves to Python."""
    return out if type(out) is np.ndarray else np.asarray(out)


def count(shape: tuple, dim: tuple) -> int:
    """How many elements of a shape a reduction over `dim` takes together."""
    n = 1
    for d in dim:
        n *= shape[d]
    return n


@lru_cache(1024)
def number(value: float, dtype: Any) -> Any:
    """A number as a 0-d array: arrays of few elements combine twice as fast with it as with a Python number."""
    found = np.asarray(value, dtype)
    found.flags.writeable = False
    return found


def matrices(make: Make) -> Iterator[tuple]:
    for n in sides(SUM_LEAST // 128):
        for shape in ((n, 128), (128, n), (14, 10_000)):
            for dim in ((0,), (1,), (0, 1)):
                yield make(*shape), dim, False


@entry("x dims keep -> r ?+", "jit_small.sum", large="jit_total.sum")
@by_kernels("sum_rows sum_columns", matrices)
def sum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`, in the dtype of x.  See Note [Accurate sums]."""
    d = x.dtype
    if d is FLOAT16 or d is BFLOAT16:
        return cpu.sum(x.astype(FLOAT32), dim, keepdim).astype(d)
    if x.size <= SMALL or d.kind in "biu" or not dim:
        return whole(_add(x, dim, d, None, keepdim))
    if has_sum_kernel(x):
        return total(x, dim, keepdim, d)
    return whole(_long_sum(x, dim, keepdim))


def kept_or_not(out: Any, shape: tuple, dim: tuple, keepdim: bool) -> Any:
    """`out`, which has the reduced dimensions, without them if they are not to be kept."""
    return out if keepdim else out.reshape([s for d, s in enumerate(shape) if d not in dim])


def _long_sum(x: Any, dim: tuple, keepdim: bool) -> Any:
    if len(dim) == x.ndim and x.flags.forc:
        return _add(x, dim, x.dtype, None, keepdim)
    near = min(range(x.ndim), key=lambda d: (abs(x.strides[d]), -d) if x.shape[d] > 1 else (1 << 62, 0))
    pairwise = x.shape[near] if near in dim else 1
    if count(x.shape, dim) <= SUM_RUN * pairwise:
        return _add(x, dim, x.dtype, None, keepdim)
    if pairwise > 1:  # first the dimension along which NumPy is accurate
        x = _add(x, near, x.dtype, None, True)
    for d in sorted(dim, key=lambda d: -abs(x.strides[d])):
        if d != near or pairwise == 1:
            x = _blocked_sum(x, d)
    return kept_or_not(x, x.shape, dim, keepdim)


def _blocked_sum(x: Any, d: int) -> Any:
    """The sum over dimension d, kept, of blocks of at most SUM_RUN and of their sums in turn."""
    n = x.shape[d]
    if n <= SUM_RUN:
        return _add(x, d, x.dtype, None, True)
    columns = x.size // n
    if columns <= 16:  # short rows: NumPy is fast and accurate along the columns of a copy
        y = np.ascontiguousarray(np.moveaxis(x, d, -1))
        return np.moveaxis(_add(y, -1, x.dtype, None, True), -1, d)
    blocks = max(n // SUM_RUN, 2)
    size = n // blocks
    head = x[(slice(None),) * d + (slice(0, blocks * size),)]
    cut = head.reshape((*x.shape[:d], blocks, size, *x.shape[d + 1 :]))
    total = _blocked_sum(_add(cut, d + 1, x.dtype), d)
    if blocks * size < n:
        tail = x[(slice(None),) * d + (slice(blocks * size, n),)]
        total = total + _add(tail, d, x.dtype, None, True)
    return total


@entry("x dims keep -> r ?+", "jit_small.mean", large="jit_total.mean")
def mean(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Mean over the dimensions `dim`; nan over none."""
    d = x.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        total = cpu.sum(wide(x), dim, keepdim)
    n = count(x.shape, dim)
    if n:
        if total.dtype is FLOAT32 and not _and(np.isfinite(total), None):  # a sum may overflow where the mean does not
            total = cpu.sum(x.astype(np.float64), dim, keepdim)
        total = whole(total / (n if total.ndim == 0 else number(n, total.dtype)))
    else:
        total = np.full_like(total, np.nan)
    return total if d is total.dtype else total.astype(d)


def nansum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`, nan counted as zero."""
    found = _sum_if_clean(x, dim, keepdim)
    return cpu.sum(select(np.isnan(x), np.zeros((), x.dtype), x), dim, keepdim) if found is None else found


def _sum_if_clean(x: Any, dim: tuple, keepdim: bool) -> Any:
    """The sum, None if it shows that there may be nan."""
    found = cpu.sum(x, dim, keepdim)
    return found if not (np.isnan(found.item()) if found.size == 1 else np.isnan(found).any()) else None


_PRODUCTS = kernels("jit_reduce.prod_rows prod_columns quotients")


def _factors(make: Make) -> Iterator[tuple]:
    for rows in (*sides(-(-SMALL // 20)), SUM_LEAST // 20):
        for dim in (0, 1, None):
            yield 1 + make(rows, 20) / 64, dim


@entry("", "jit_running.entries")
@by_kernels(_PRODUCTS[:2], lambda make: ((x, dim, False) for x, dim in _factors(make)))
def prod(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Product of all elements or along the dimension `dim`."""
    d = x.dtype
    if x.ndim == 0:
        return x.copy()
    if has_kernel(x, *_PRODUCTS):
        with np.errstate(over="ignore"):
            out = product(x, dim, d)
        return out if keepdim else out.reshape(() if dim is None else x.shape[:dim] + x.shape[dim + 1 :])
    out = whole(_multiply(wide(x), dim, None if d.kind == "V" else _product_dtype(d), None, keepdim))
    return out.astype(d, copy=False)


def _product_dtype(d: Any) -> Any:
    return FLOAT32 if d is FLOAT16 else d


@by_kernels(_PRODUCTS, _factors)
def prod_others(x: Any, dim: int | None) -> Any:
    """At every place the product of the other elements (along `dim`, or all): exact where x has zeros."""
    if dim is None:
        return prod_others(x.reshape(-1), 0).reshape(x.shape)
    if x.ndim == 0:
        return np.ones_like(x)
    d = x.dtype
    if has_kernel(x, *_PRODUCTS):
        whole = product(x, dim)
        fine = (np.abs(whole) > 1e-290) & np.isfinite(whole)  # no zeros, and exact but for its rounding
        if d is FLOAT32 and not fine.all():
            with np.errstate(divide="ignore"):
                size = total(np.log2(np.abs(x)), tuple(range(x.ndim)) if whole.size == 1 else (dim,))
            fine |= np.isfinite(size) & (size < -500)  # no zeros, and too small for float32 even without one factor
        if fine.all():
            return quotients(whole, x, dim)
        return _prod_others(x.astype(np.float64), dim).astype(d)
    return _prod_others(x.astype(np.float64) if d is FLOAT32 else wide(x), dim).astype(d, copy=False)


def _prod_others(x: Any, dim: int) -> Any:
    y = np.moveaxis(x, dim, 0)
    before, behind = np.ones_like(y), np.ones_like(y)
    np.multiply.accumulate(y[:-1], 0, out=before[1:])
    np.multiply.accumulate(y[:0:-1], 0, out=behind[-2::-1])
    return np.moveaxis(before * behind, 0, dim)


# -- extrema -----------------------------------------------------------------------------------------------------------


@entry("x dims keep -> r +", "jit_small_extrema.amax", large="jit_total.amax")
@by_kernels("max_rows max_columns", matrices)
def amax(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Largest element over the dimensions `dim`; nan if one is nan."""
    return _extreme(np.maximum, x, dim, keepdim)


@entry("x dims keep -> r +", "jit_small_extrema.amin", large="jit_total.amin")
@by_kernels("min_rows min_columns", matrices)
def amin(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Smallest element over the dimensions `dim`; nan if one is nan."""
    return _extreme(np.minimum, x, dim, keepdim)


def _extreme(ufunc: Any, x: Any, dim: tuple, keepdim: bool) -> Any:
    d = x.dtype
    if d is BFLOAT16:
        return _extreme(ufunc, x.astype(FLOAT32), dim, keepdim).astype(d)
    if x.size > SMALL and x.flags.c_contiguous:
        n = count(x.shape, dim)
        if n >= SUM_RUN and has_extreme_kernel(x) and dim[-1] - dim[0] + 1 == len(dim):
            out = extreme(x, dim[0], dim[-1] + 1, ufunc is np.maximum)
            return out.reshape([1 if k in dim else s for k, s in enumerate(x.shape) if keepdim or k not in dim])
        out = None
        if dim == tuple(range(len(dim))) and x.size < 64 * n:
            out = _down_columns(ufunc, x.reshape(n, -1))
        elif n <= 16 and dim == tuple(range(x.ndim - len(dim), x.ndim)):
            out = _along_rows(ufunc, x.reshape(-1, n))
        if out is not None:
            return out.reshape([1 if k in dim else s for k, s in enumerate(x.shape) if keepdim or k not in dim])
    return whole(ufunc.reduce(x, dim, None, None, keepdim))


# NumPy spends most of its time between rows where these are short; so they are taken together, or column by column.


def _down_columns(ufunc: Any, x: Any) -> Any:
    n, m = x.shape
    rows = min(256 // m + 1, n)
    whole = n // rows * rows
    out = ufunc.reduce(ufunc.reduce(x[:whole].reshape(-1, rows * m), 0).reshape(rows, m), 0)
    return ufunc(out, ufunc.reduce(x[whole:], 0)) if whole < n else out


def _along_rows(ufunc: Any, x: Any) -> Any:
    out = x[:, 0].copy()
    for j in range(1, x.shape[1]):
        ufunc(out, x[:, j], out=out)
    return out


def aminmax(x: Any, dim: tuple, keepdim: bool) -> tuple:
    """Smallest and largest element over the dimensions `dim`."""
    return cpu.amin(x, dim, keepdim), cpu.amax(x, dim, keepdim)


def argmax(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Index of the largest element (the first of several, or the first nan) along `dim`, or in the flattened array."""
    return _arg(_argmax, x, dim, keepdim)


def argmin(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Index of the smallest element (the first of several, or the first nan) along `dim`, or in the flattened array."""
    return _arg(_argmin, x, dim, keepdim)


def _arg(find: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    index = np.asarray(find(wide(x), dim), np.int64)
    if keepdim:
        return index.reshape([1 if dim is None or d == dim else s for d, s in enumerate(x.shape)])
    return index


_argmax: Any = np.ndarray.argmax
_argmin: Any = np.ndarray.argmin
_largest: Any = np.maximum.reduce
_least: Any = np.minimum.reduce


@entry("x dims keep -> r i", "jit_small_extrema.max_dim")
@by_kernels("first_extreme_columns", lambda make: ((x, dim[0], keep) for x, dim, keep in matrices(make)))
def max_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """Largest element along one dimension, and its index."""
    return _picked(x, dim, keepdim, argmax)


@entry("x dims keep -> r i", "jit_small_extrema.min_dim")
@by_kernels("first_extreme_columns", lambda make: ((x, dim[0], keep) for x, dim, keep in matrices(make)))
def min_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """Smallest element along one dimension, and its index."""
    return _picked(x, dim, keepdim, argmin)


def _picked(x: Any, dim: int, keepdim: bool, find: Any) -> tuple:
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    if x.size <= SMALL and x.dtype is FLOAT32:
        largest = find is argmax
        best = (_largest if largest else _least)(x, dim, None, None, keepdim)
        return best, (_argmax if largest else _argmin)(x, dim, None, keepdims=keepdim)
    if x.flags.c_contiguous and dim < x.ndim - 1 and x.size > SUM_RUN * x.shape[dim] and has_extreme_kernel(x):
        best, place = first_extreme(x, dim, find is argmax)
        return (np.expand_dims(best, dim), np.expand_dims(place, dim)) if keepdim else (best, place)
    over = amax if find is argmax else amin
    return over(x, (dim,), keepdim), find(x, dim, keepdim)


def _tied(make: Make) -> Iterator[tuple]:
    for x, dim, keep in matrices(make):
        x = np.round(8 * x) / 8
        yield x, amax(x, dim, keep), dim, keep


@by_kernels("jit_ties.ties", _tied)
def tie_weights(x: Any, out: Any, dim: tuple, keepdim: bool) -> Any:
    """The share of the cotangent of an extremum `out` over `dim` that each element of x gets: ties share evenly."""
    if x.size >= SUM_LEAST and x.flags.c_contiguous and dim == (x.ndim - 1,) and has_kernel(x, "ties"):
        share, rows = np.empty(x.shape, x.dtype), x.size // x.shape[-1]
        args = x.reshape(rows, -1), out.reshape(rows), share.reshape(rows, -1)
        share_rows("ties", rows, SUM_GRAIN // (2 * x.shape[-1]) + 1, args)
        return share
    if not keepdim:
        out = np.reshape(out, [1 if d in dim else s for d, s in enumerate(x.shape)])
    hit = x == out
    if x.dtype.kind != "c" and np.isnan(out).any():
        hit |= np.isnan(x) & np.isnan(out)
    share = hit.astype(x.dtype if x.dtype.itemsize > 2 else FLOAT32)
    n = cpu.sum(share, dim, True)
    if not _and(n == 1, None):  # else nothing ties
        share = share / n
    return share.astype(x.dtype, copy=False)


# -- values picked by index --------------------------------------------------------------------------------------------


def value_gather(x: Any, dim: int, index: Any, keepdim: bool) -> Any:
    """The elements of x at `index` along `dim` (which `index`, without keepdim, lacks)."""
    if x.ndim == 0:
        return x.copy()
    if keepdim:
        return cpu.gather(x, dim, index)
    return cpu.gather(x, dim, np.expand_dims(index, dim)).reshape(index.shape)


def value_scatter(g: Any, x_shape: tuple, dim: int, index: Any, keepdim: bool) -> Any:
    """Zeros of shape x_shape with g at `index` along `dim`, which repeats no index: the transpose of value_gather."""
    if not x_shape:
        return g.reshape(())
    out = np.zeros(x_shape, g.dtype)
    if len(x_shape) == 2 and index.size == x_shape[1 - dim]:  # one number in every row or column
        places = np.arange(index.size)
        index = index.reshape(-1)
        out[(places, index) if dim else (index, places)] = g.reshape(-1)
        return out
    if not keepdim:
        g, index = np.expand_dims(g, dim), np.expand_dims(index, dim)
    return scatter_(out, dim, index, g)


# -- logic -------------------------------------------------------------------------------------------------------------


def all(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Whether all elements over the dimensions `dim` are non-zero."""
    return _and(x, dim, None, None, keepdim)


def any(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Whether any element over the dimensions `dim` is non-zero."""
    return _or(x, dim, None, None, keepdim)


def count_nonzero(x: Any, dim: tuple) -> Any:
    """How many elements over the dimensions `dim` are non-zero."""
    if len(dim) == x.ndim and x.dtype.kind in "fiub":  # of a few numbers NumPy does not make booleans first
        return np.array(np.count_nonzero(x if x.size < SMALL or x.dtype.kind == "b" else x != 0), np.int64)
    return np.array(np.count_nonzero(x, axis=dim), np.int64)
