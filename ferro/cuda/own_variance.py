"""Variances and deviations of a GPU: of float64 by numbers over a power of two, so that no square leaves the range.

The power is that of the largest number of each result. A number times a power of two keeps its digits, so the bits are those of the plain formula
where that stays in range, and nobody looks at the numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.reductions import count
from ferro.cpu.variance import times_power
from ferro.cuda.by_hand.reductions import reduced
from ferro.cuda.driver import cupy
from ferro.cuda.twins import twin

__all__ = ["std", "std_mean", "var", "var_mean"]


def total(x: Any, dim: tuple, keepdim: bool) -> Any:
    """The sum in double precision."""
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    return cupy().sum(x.astype(kind) if x.dtype.kind == "V" else x, dim, kind, None, keepdim)


def _exponents(x: Any, dim: tuple) -> Any:
    """Of numbers in double precision: the exponents of the largest along `dim`, kept, 0 for no finite one; None of others."""
    if x.dtype.name not in ("float64", "complex128") or not x.size or not dim:
        return None
    parts = [x] if x.dtype.kind == "f" else [cupy().ascontiguousarray(part) for part in (x.real, x.imag)]
    largest = [reduced("largest_size", part, dim, True) for part in parts]
    size = largest[0] if len(largest) == 1 else cupy().maximum(*largest)
    return cupy().where(cupy().isfinite(size), cupy().frexp(size)[1], 0)


def _times(x: Any, exponents: Any) -> Any:
    return twin(times_power)(x, exponents)


def _spread(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over `dim` in double precision of x over powers of two, and their exponents (None: of x itself)."""
    n, exponents = count(x.shape, dim), _exponents(x, dim)
    x = x if exponents is None else _times(x, -exponents)
    m = total(x, dim, True) / (n or math.nan)
    d = x.astype(m.dtype) - m
    squares = cupy().sum(d.real * d.real + d.imag * d.imag if d.dtype.kind == "c" else d * d, dim, None, None, keepdim)
    v = squares / (n - correction) if n > correction else squares / cupy().zeros_like(squares)
    m = m.reshape(v.shape)
    return (v, m, None) if exponents is None else (v, _times(m, exponents.reshape(v.shape)), exponents.reshape(v.shape))


def var_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Variance and mean over the dimensions `dim`."""
    v, m, exponents = _spread(x, dim, correction, keepdim)
    v = v if exponents is None else _times(v, 2 * exponents)
    return v.astype(x.real.dtype), m.astype(x.dtype)


def var(x: Any, dim: tuple, correction: float, keepdim: bool) -> Any:
    """Variance over the dimensions `dim`: the sum of |x - mean|^2 over n - correction (at least 0)."""
    return var_mean(x, dim, correction, keepdim)[0]


def std_mean(x: Any, dim: tuple, correction: float, keepdim: bool) -> tuple:
    """Standard deviation and mean over the dimensions `dim`."""
    v, m, exponents = _spread(x, dim, correction, keepdim)
    s = cupy().sqrt(v)
    s = s if exponents is None else _times(s, exponents)
    return s.astype(x.real.dtype), m.astype(x.dtype)


def std(x: Any, dim: tuple, correction: float, keepdim: bool) -> Any:
    """Square root of the variance."""
    return std_mean(x, dim, correction, keepdim)[0]
