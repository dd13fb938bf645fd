"""Reductions of NumPy arrays; `dim` is a tuple of non-negative dimensions unless said otherwise.

Note [Accurate sums].  NumPy adds pairwise along the dimension that lies closest in memory and one after the other along
any other, so the sum of the rows of a tall float32 matrix would lose digits in proportion to its height.  Long sums are
cut into blocks here, whose sums are added in turn, or done by a kernel that adds blocks in float64.  16-bit floats are
summed as float32 and rounded once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ferro.cpu.indexing import gather, scatter_
from ferro.cpu.kernels.common import SMALL, has_kernel
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.limits import SMALL_SQUARES
from ferro.cpu.kernels.reduce import (
    extreme,
    first_extreme,
    has_extreme_kernel,
    has_sum_kernel,
    product,
    quotients,
    total,
)
from ferro.cpu.thresholds import SUM_RUN

__all__ = ["all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "max_dim", "mean",
           "min_dim", "nansum", "prod", "prod_others", "std", "std_mean", "sum", "tie_weights", "value_gather",
           "value_scatter", "var", "var_mean"]  # fmt: skip

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)
_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_and: Any = np.logical_and.reduce
_or: Any = np.logical_or.reduce
_SMALL = {FLOAT32: 1e-30, np.dtype(np.float64): SMALL_SQUARES}
SMALL_NORM = SMALL_SQUARES**0.5


def wide(x: Any) -> Any:
    """x, as float32 if it holds 16-bit floats."""
    d = x.dtype
    return x.astype(FLOAT32) if d is FLOAT16 or d is BFLOAT16 else x


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


@entry
def sum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`, in the dtype of x.  See Note [Accurate sums]."""
    d = x.dtype
    if d is FLOAT16 or d is BFLOAT16:
        return sum(x.astype(FLOAT32), dim, keepdim).astype(d)
    if x.size <= SMALL or d.kind in "biu" or not dim:
        return _add(x, dim, d, None, keepdim)
    if has_sum_kernel(x):
        return total(x, dim, keepdim, d)
    return _long_sum(x, dim, keepdim)


def _kept_or_not(out: Any, shape: tuple, dim: tuple, keepdim: bool) -> Any:
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
    return _kept_or_not(x, x.shape, dim, keepdim)


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


@entry
def mean(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Mean over the dimensions `dim`; nan over none."""
    d = x.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum(wide(x), dim, keepdim)
    n = count(x.shape, dim)
    if n:
        if total.dtype is FLOAT32 and not _and(np.isfinite(total), None):  # a sum may overflow where the mean does not
            total = sum(x.astype(np.float64), dim, keepdim)
        total = total / (n if total.ndim == 0 else number(n, total.dtype))
    else:
        total = np.full_like(total, np.nan)
    return total if d is total.dtype else total.astype(d)


def nansum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`, nan counted as zero."""
    return sum(np.where(np.isnan(x), np.zeros((), x.dtype), x), dim, keepdim)


def prod(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Product of all elements or along the dimension `dim`."""
    d = x.dtype
    if x.ndim == 0:
        return x.copy()
    if has_kernel(x):
        with np.errstate(over="ignore"):
            out = product(x, dim, d)
        return out if keepdim else out.reshape(() if dim is None else x.shape[:dim] + x.shape[dim + 1 :])
    return _multiply(wide(x), dim, None if d.kind == "V" else _product_dtype(d), None, keepdim).astype(d, copy=False)


def _product_dtype(d: Any) -> Any:
    return FLOAT32 if d is FLOAT16 else d


def prod_others(x: Any, dim: int | None) -> Any:
    """At every place the product of the other elements (along `dim`, or all): exact where x has zeros."""
    if dim is None:
        return prod_others(x.reshape(-1), 0).reshape(x.shape)
    if x.ndim == 0:
        return np.ones_like(x)
    d = x.dtype
    if has_kernel(x):
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


# -- spread ------------------------------------------------------------------------------------------------------------


@entry
def var(x: Any, dim: tuple, correction: float, keepdim: bool) -> Any:
    """Variance over the dimensions `dim`: the sum of |x - mean|^2 over n - correction (at least 0)."""
    return var_mean(x, dim, correction, keepdim)[0]


def _about_mean(x: Any, dim: tuple, keepdim: bool) -> tuple:
    """Of a small float64 array: the mean, its dimensions kept, and the sum of squared distances from it."""
    d = x.dtype
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        m = _add(x, dim, d, None, True) / number(count(x.shape, dim), d)
        diff = x - m
        return m, _add(diff * diff, dim, d, None, keepdim)


def std(x: Any, dim: tuple, correction: float, keepdim: bool) -> Any:
    """Square root of the variance."""
    return std_mean(x, dim, correction, keepdim)[0]


def var_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`."""
    v, m, scale = _spread(x, dim, correction, keepdim)
    if scale is not None:
        v = np.ldexp(v, 2 * scale)
    return v.astype(x.real.dtype, copy=False), m.astype(x.dtype, copy=False)


def _spread(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`, in double precision, and None.

    Where x is of double precision, and too large or small for its squares: the variance of x over a power of two, the mean of
    x, and the exponents of the powers.
    """
    v, m = _variance(x, dim, correction, keepdim)
    if x.dtype.itemsize < (16 if x.dtype.kind == "c" else 8) or x.size == 0 or in_range(v):
        return v, m, None
    largest = amax(np.maximum(np.abs(x.real), np.abs(x.imag)) if x.dtype.kind == "c" else np.abs(x), dim, True)
    odd = ~((v > SMALL_SQUARES) & np.isfinite(v)).reshape(largest.shape)
    if not (odd & np.isfinite(largest) & ((largest < SMALL_NORM) | (largest > 1))).any():
        return v, m, None  # the variance of equal numbers is 0
    exponents = np.frexp(largest)[1]
    v, m = _variance(times_power(x, -exponents), dim, correction, keepdim)
    scale = exponents.reshape(v.shape)
    return v, times_power(m, scale), scale


def in_range(squares: Any) -> bool:
    """Whether sums of squares have all lost nothing to the range of their dtype."""
    return bool(((squares > _SMALL[squares.dtype]) & (squares < np.inf)).all())


def times_power(x: Any, exponents: Any) -> Any:
    """x times 2 to the exponents."""
    if x.dtype.kind != "c":
        return np.ldexp(x, exponents)
    out = np.empty(np.broadcast_shapes(x.shape, exponents.shape), x.dtype)
    out.real, out.imag = np.ldexp(x.real, exponents), np.ldexp(x.imag, exponents)
    return out


def doubled(x: Any) -> Any:
    """x in double precision, in which the square of every number of single precision is in range."""
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    return x if x.dtype == kind else x.astype(kind)


def _from_mean(x: Any, dim: tuple, keepdim: bool) -> tuple:
    """The mean, and the sum of squared distances from it."""
    n = count(x.shape, dim)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # added in double precision, in which the sum of equal float32 numbers is exact
        m = (
            (_add(x, dim, np.result_type(x.dtype, np.float64), None, True) / n).astype(x.dtype)
            if n
            else mean(x, dim, True)
        )
        diff = x - m
        squares = sum(diff.real**2 + diff.imag**2 if x.dtype.kind == "c" else diff * diff, dim, keepdim)
    return m if keepdim else m.reshape(np.shape(squares)), squares


def _variance(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`, in double precision."""
    n = count(x.shape, dim)
    if dim and has_sum_kernel(x):
        m, squares = _moments(x, dim, n)
        m, squares = _kept_or_not(m, x.shape, dim, keepdim), _kept_or_not(squares, x.shape, dim, keepdim)
    elif x.size <= SMALL and x.dtype.kind != "c" and n:
        m, squares = _about_mean(doubled(x), dim, keepdim)
        m = m if keepdim else m.reshape(squares.shape)
    else:
        m, squares = _from_mean(wide(x), dim, keepdim)
        if squares.dtype is FLOAT32 and not in_range(squares):
            m, squares = _from_mean(doubled(x), dim, keepdim)
    if n > correction:
        return squares / (n - correction), m
    with np.errstate(divide="ignore", invalid="ignore"):
        return squares / np.zeros_like(squares), m


def _moments(x: Any, dim: tuple, n: int) -> tuple:
    """Mean and sum of squared distances from it, in float64, with the dimensions `dim` kept."""
    first = x[tuple([slice(1) if d in dim else slice(None) for d in range(x.ndim)])]
    with np.errstate(over="ignore", invalid="ignore"):
        m = first + total(x, dim, center=first) / n  # (of equal numbers it is exact)
        if not np.isfinite(m).all():
            m = total(x, dim) / n
        near = m.astype(x.dtype)
        squares = total(x, dim, center=near, power=2) - n * (m - near) ** 2  # `near` is the mean only up to rounding
        return m, np.maximum(squares, 0)


def std_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Standard deviation and mean over the dimensions `dim`."""
    v, m, scale = _spread(x, dim, correction, keepdim)
    s = np.sqrt(v)
    if scale is not None:
        s = np.ldexp(s, scale)
    return s.astype(x.real.dtype, copy=False), m.astype(x.dtype, copy=False)


# -- extrema -----------------------------------------------------------------------------------------------------------


@entry
def amax(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Largest element over the dimensions `dim`; nan if one is nan."""
    return _extreme(np.maximum, x, dim, keepdim)


@entry
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
    return ufunc.reduce(x, dim, None, None, keepdim)


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
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


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


@entry
def max_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """Largest element along one dimension, and its index."""
    return _picked(x, dim, keepdim, argmax)


@entry
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


def tie_weights(x: Any, out: Any, dim: tuple, keepdim: bool) -> Any:
    """The share of the cotangent of an extremum `out` over `dim` that each element of x gets: ties share evenly."""
    if not keepdim:
        out = np.reshape(out, [1 if d in dim else s for d, s in enumerate(x.shape)])
    hit = x == out
    if x.dtype.kind != "c" and np.isnan(out).any():
        hit |= np.isnan(x) & np.isnan(out)
    n = _add(hit, dim, x.dtype if x.dtype.itemsize > 2 else FLOAT32, None, True)
    return (hit / n).astype(x.dtype, copy=False)


# -- values picked by index --------------------------------------------------------------------------------------------


def value_gather(x: Any, dim: int, index: Any, keepdim: bool) -> Any:
    """The elements of x at `index` along `dim` (which `index`, without keepdim, lacks)."""
    if x.ndim == 0:
        return x.copy()
    if keepdim:
        return gather(x, dim, index)
    return gather(x, dim, np.expand_dims(index, dim)).reshape(index.shape)


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
    return np.asarray(np.count_nonzero(x, axis=dim), np.int64)
