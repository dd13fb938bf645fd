"""Pooling of large float32 and float64 arrays over the last one to three dimensions, and its derivatives.

x is (..., place...); kernel, stride, padding and dilation are tuples with one number per dimension of place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, has_kernel, share_rows
from ferro.native import readiness

Ints = tuple[int, ...]


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Places of the result along one dimension."""
    spare = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-spare // stride) if ceil_mode else spare // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # no window begins in the padding behind
    return count


def ready(x: np.ndarray, places: int) -> bool:
    """Whether the kernels take x, with so many places in an image, and have machine code already."""
    return has_kernel(x) and places < 1 << 31 and readiness.ready(_KERNELS, x.dtype)


_KERNELS = ("max_pool", "max_pool_vjp", "avg_pool", "avg_pool_vjp")


def _three(values: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(values)) + tuple(values)


def _planes(x: np.ndarray, n: int) -> np.ndarray:
    """`x` as (plane, depth, height, width), its last n dimensions being the place."""
    lead = x.shape[: x.ndim - n]
    return contiguous(x).reshape(math.prod(lead), *_three(x.shape[x.ndim - n :], 1))


def _shape(x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    n = len(kernel)
    each = zip(x.shape[x.ndim - n :], kernel, stride, padding, dilation)
    return (*x.shape[: x.ndim - n], *[out_size(*one, ceil_mode) for one in each])


def max_pool(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each window, and its position in the flattened place of `x` (int64); nan wins."""
    shape = _shape(x, kernel, stride, padding, dilation, ceil_mode)
    n = len(kernel)
    planes = _planes(x, n)
    out, index = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    outs, indices = _planes(out, n), _planes(index, n)
    fixed = _three(kernel, 1), _three(stride, 1), _three(padding, 0), _three(dilation, 1)
    cost = math.prod(shape[x.ndim - n :]) * math.prod(kernel)
    share_rows("max_pool", len(planes), 2 * GRAIN // cost + 1, (planes, *fixed, outs, indices))
    return out, index


def max_pool_vjp(g: np.ndarray, index: np.ndarray, x_shape: Ints, n: int) -> np.ndarray:
    """The gradient of max_pool over n dimensions: g added where the maxima came from."""
    lead = x_shape[: len(x_shape) - n]
    out = np.zeros((math.prod(lead), math.prod(x_shape[len(x_shape) - n :])), g.dtype)
    places = math.prod(g.shape[g.ndim - n :])
    gs, indices = contiguous(g).reshape(len(out), places), contiguous(index, np.int64).reshape(len(out), places)
    share_rows("max_pool_vjp", len(out), GRAIN // places + 1, (gs, indices, out))
    return out.reshape(x_shape)


def _divisors(divisors: Any, size: Ints, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """For the places of the result in each direction: the numbers whose product a sum is divided by."""
    if not isinstance(divisors, tuple):
        divisors = (np.full(size[0], divisors), *[np.ones(n) for n in size[1:]])
    filled = [np.ones(1)] * (3 - len(size)) + list(divisors)
    return tuple([np.asarray(some, dtype) for some in filled])


def avg_pool(x: np.ndarray, kernel: Ints, size: Ints, stride: Ints, padding: Ints, divisors: Any) -> np.ndarray:
    """The sum of each window, of which there are `size`, divided; see ferro.cpu.pooling."""
    out = np.empty((*x.shape[: x.ndim - len(kernel)], *size), x.dtype)
    return _average("avg_pool", x, out, kernel, size, stride, padding, divisors)


def avg_pool_vjp(g: np.ndarray, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, divisors: Any) -> np.ndarray:
    """The adjoint of avg_pool on images of `shape`."""
    n = g.ndim - len(kernel)
    out = np.zeros((*g.shape[:n], *shape), g.dtype)
    return _average("avg_pool_vjp", g, out, kernel, g.shape[n:], stride, padding, divisors)


def _average(
    name: str, x: np.ndarray, out: np.ndarray, kernel: Ints, size: Ints, stride: Ints, padding: Ints, divisors: Any
) -> np.ndarray:
    """A kernel of windows, of which there are `size`, from x to `out`."""
    planes, outs = _planes(x, len(kernel)), _planes(out, len(kernel))
    fixed = _three(kernel, 1), _three(stride, 1), _three(padding, 0), _divisors(divisors, size, x.dtype)
    share_rows(name, len(planes), 2 * GRAIN // (math.prod(size) * math.prod(kernel)) + 1, (planes, *fixed, outs))
    return out
