"""Vector norms and distances of NumPy arrays; `dim` is a tuple of non-negative dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import xp
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.reduce import has_sum_kernel, total
from ferro.cpu.namespace import cpu
from ferro.cpu.reductions import FLOAT32, wide
from ferro.cpu.variance import doubled, in_range

__all__ = ["euclidean", "over_norm", "vector_norm"]


@entry("x number dims keep -> r ?+", "jit_small.vector_norm", large="jit_total.vector_norm")
def vector_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    """(sum |x|^ord)^(1/ord) over the dimensions `dim`; 0 counts the non-zeros, inf and -inf take the extreme |x|."""
    d = x.real.dtype
    return np.asarray(_vector_norm(wide(x), ord, dim, keepdim)).astype(d, copy=False)


def _vector_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    if ord == 2:
        if dim and has_sum_kernel(x):
            squares = total(x, dim, True, power=2)
        else:
            squares = _squares(x, dim)
            if squares.dtype is FLOAT32 and not in_range(squares):
                squares = _squares(doubled(x), dim)
        if x.real.dtype is not FLOAT32 and not in_range(squares):
            return _scaled_norm(x, ord, dim, keepdim)
        return np.sqrt(squares if keepdim else without(squares, dim))
    if ord == 0:
        return cpu.sum((x != 0).astype(x.real.dtype), dim, keepdim)
    size = np.abs(x)
    if ord == 1:
        return cpu.sum(size, dim, keepdim)
    if math.isinf(ord):
        return cpu.amax(size, dim, keepdim) if ord > 0 else cpu.amin(size, dim, keepdim)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        powers = cpu.sum(size**ord, dim, True)
        if not in_range(powers):
            return _scaled_norm(x, ord, dim, keepdim)
        return (powers if keepdim else without(powers, dim)) ** (1 / ord)


def _squares(x: Any, dim: tuple) -> Any:
    """The sum of |x|²."""
    with np.errstate(over="ignore", under="ignore"):
        return cpu.sum(x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x, dim, True)


def without(x: Any, dim: tuple) -> Any:
    """x without dimensions of one element."""
    return x.reshape([s for d, s in enumerate(x.shape) if d not in dim])


def _scaled_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    """The norm by sums of powers of numbers over the one that decides: the largest, or for a negative order the smallest."""
    size = np.abs(x)
    if not size.size:
        return cpu.sum(size, dim, keepdim)
    leading = cpu.amax(size, dim, True) if ord > 0 else cpu.amin(size, dim, True)
    plain = (leading > 0) & (leading < np.inf)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        out = leading * cpu.sum((size / np.where(plain, leading, 1)) ** ord, dim, True) ** (1 / ord)
    out = np.where(plain, out, leading)
    return out if keepdim else without(out, dim)


_FAR = {FLOAT32: 1e12, np.dtype(np.float64): 1e130}


def euclidean(x: Any, y: Any) -> Any:
    """Distances between the rows of x (..., P, M) and of y (..., R, M), as |x|^2 + |y|^2 - 2 x.y: by one product."""
    a, b = wide(x), wide(y)
    largest = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    if 0 < largest < np.inf and not 1 / _FAR[a.dtype] < largest < _FAR[a.dtype]:  # squares would leave the range
        exponent = np.frexp(largest)[1]
        return np.ldexp(euclidean(np.ldexp(a, -exponent), np.ldexp(b, -exponent)), exponent).astype(x.dtype, copy=False)
    squares = cpu.sum(a * a, (a.ndim - 1,), True) + np.swapaxes(cpu.sum(b * b, (b.ndim - 1,), True), -1, -2)
    squares -= 2 * (a @ np.swapaxes(b, -1, -2))
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares).astype(x.dtype, copy=False)


_MODERATE = {FLOAT32: 1e25, np.dtype(np.float64): 1e250}


def over_norm(x: Any, g: Any, norm: Any) -> Any:
    """x g / norm, where |x| is at most some times the norm, and 0 where that is 0; g / norm first if it stays in range."""
    return x * (g / norm) if _moderate(norm) else xp.over_norm(cpu, x, g, norm)


def _moderate(norm: Any) -> bool:
    """Whether all numbers of an array lie where neither they nor their reciprocals are near the end of the range."""
    limit = _MODERATE.get(norm.dtype, 1e3)
    return bool(((norm > 1 / limit) & (norm < limit)).all())
