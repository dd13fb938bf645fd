"""Vector norms and distances of NumPy arrays; `dim` is a tuple of non-negative dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.front import front
from ferro.cpu.kernels.reduce import has_sum_kernel, total
from ferro.cpu.reductions import FLOAT32, SMALL, amax, amin, sum, wide

__all__ = ["euclidean", "vector_norm"]


@front
def vector_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    """(sum |x|^ord)^(1/ord) over the dimensions `dim`; 0 counts the non-zeros, inf and -inf take the extreme |x|."""
    if ord == 2 and x.size <= SMALL and len(dim) == x.ndim and not keepdim and x.dtype is FLOAT32:
        return np.sqrt(np.vdot(x, x))
    d = x.real.dtype
    x = wide(x)
    return np.asarray(_vector_norm(x, ord, dim, keepdim)).astype(d, copy=False)


def _vector_norm(x: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    if ord == 2:
        if dim and has_sum_kernel(x):
            return np.sqrt(total(x, dim, keepdim, mean=0))
        return np.sqrt(sum(x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x, dim, keepdim))
    if ord == 0:
        return sum((x != 0).astype(x.real.dtype), dim, keepdim)
    size = np.abs(x)
    if ord == 1:
        return sum(size, dim, keepdim)
    if math.isinf(ord):
        return amax(size, dim, keepdim) if ord > 0 else amin(size, dim, keepdim)
    with np.errstate(divide="ignore", over="ignore"):
        return sum(size**ord, dim, keepdim) ** (1 / ord)


def euclidean(x: Any, y: Any) -> Any:
    """Distances between the rows of x (..., P, M) and of y (..., R, M), as |x|^2 + |y|^2 - 2 x.y: by one product."""
    a, b = wide(x), wide(y)
    squares = sum(a * a, (a.ndim - 1,), True) + np.swapaxes(sum(b * b, (b.ndim - 1,), True), -1, -2)
    squares -= 2 * (a @ np.swapaxes(b, -1, -2))
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares).astype(x.dtype, copy=False)
