"""Variances of NumPy arrays, their square roots, and sums of squares that stay in the range of their dtype; see reductions.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.by_kernels import by_kernels
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.limits import SMALL_SQUARES
from ferro.cpu.kernels.reduce import has_sum_kernel, total
from ferro.cpu.namespace import cpu
from ferro.cpu.reductions import FLOAT32, count, kept_or_not, matrices, number, whole, wide

__all__ = ["std", "std_mean", "var", "var_mean"]

_add: Any = np.add.reduce
_SMALL = {FLOAT32: 1e-30, np.dtype(np.float64): SMALL_SQUARES}
SMALL_NORM = SMALL_SQUARES**0.5


@entry("x dims number keep -> r ?", "jit_small.var")
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


@entry("x dims number keep -> r ?", "jit_small.std")
def std(x: Any, dim: tuple, correction: float, keepdim: bool) -> Any:
    """Square root of the variance."""
    return std_mean(x, dim, correction, keepdim)[0]


@entry("x dims number keep -> r r ?", "jit_small.var_mean")
@by_kernels(
    "sum_rows sum_columns square_rows square_columns",
    lambda make: ((x, dim, 1.0, keep) for x, dim, keep in matrices(make)),
)
def var_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`."""
    v, m, scale = _spread(x, dim, correction, keepdim)
    if scale is not None:
        v = np.ldexp(v, 2 * scale)
    return whole(v).astype(x.real.dtype, copy=False), whole(m).astype(x.dtype, copy=False)


def _spread(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`, in double precision, and None.

    Where x is of double precision, and too large or small for its squares: the variance of x over a power of two, the mean of
    x, and the exponents of the powers.
    """
    v, m = _variance(x, dim, correction, keepdim)
    if x.dtype.itemsize < (16 if x.dtype.kind == "c" else 8) or x.size == 0 or in_range(v):
        return v, m, None
    largest = cpu.amax(np.maximum(np.abs(x.real), np.abs(x.imag)) if x.dtype.kind == "c" else np.abs(x), dim, True)
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
            else cpu.mean(x, dim, True)
        )
        diff = x - m
        squares = cpu.sum(diff.real**2 + diff.imag**2 if x.dtype.kind == "c" else diff * diff, dim, keepdim)
    return m if keepdim else m.reshape(np.shape(squares)), squares


def _variance(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`, in double precision."""
    n = count(x.shape, dim)
    if dim and has_sum_kernel(x):
        m, squares = _moments(x, dim, n)
        m, squares = kept_or_not(m, x.shape, dim, keepdim), kept_or_not(squares, x.shape, dim, keepdim)
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


@entry("x dims number keep -> r r ?", "jit_small.std_mean")
def std_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Standard deviation and mean over the dimensions `dim`."""
    v, m, scale = _spread(x, dim, correction, keepdim)
    s = np.sqrt(v)
    if scale is not None:
        s = np.ldexp(s, scale)
    return whole(s).astype(x.real.dtype, copy=False), whole(m).astype(x.dtype, copy=False)
