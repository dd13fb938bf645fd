"""Pooling of NumPy arrays: means over windows of the last dimensions, and their adjoints."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import by_kernels
from ferro.cpu.half import rounded_once
from ferro.cpu.kernels.common import contiguous, has_kernel, share_rows
from ferro.cpu.kernels.strided_copy import contiguous as in_c_order
from ferro.cpu.pooling import in_planes, parts, planes, three, window_examples
from ferro.cpu.products import matmul
from ferro.cpu.thresholds import GRAIN
from ferro.cpu.windows import full, taps

__all__ = ["adaptive_avg", "adaptive_avg_spread", "avg_pool", "avg_spread"]


def _divisor(divisors: Any, dtype: Any) -> Any:
    """The number of elements of every window: a number, or the outer product of the numbers along every dimension."""
    if not isinstance(divisors, tuple):
        return np.asarray(divisors, dtype)
    total: Any = np.ones((), dtype)
    for d in divisors:
        total = total[..., None] * np.asarray(d, dtype)
    return total


def _by_planes(
    name: str, x: Any, out: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any
) -> Any:
    """A kernel of windows, of which there are `size`, from x to `out`."""
    images, outs, n = planes(x, len(kernel)), planes(out, len(kernel)), math.prod(size) * math.prod(kernel)
    args = images, three(kernel, 1), three(stride, 1), three(pad, 0), _along_each(divisors, size, x.dtype), outs
    share_rows(name, len(images), 2 * GRAIN // n + 1, args)
    return out


@lru_cache(maxsize=512)
def _along_each(divisors: Any, size: tuple, dtype: Any) -> tuple:
    """The divisors of `size` windows along each of three dimensions, for kernels."""
    if not isinstance(divisors, tuple):
        divisors = (np.full(size[0], divisors), *[np.ones(n) for n in size[1:]])
    return tuple([np.asarray(some, dtype) for some in (*[np.ones(1)] * (3 - len(size)), *divisors)])


@rounded_once
@by_kernels("jit_pool.avg_pool", lambda make: ((*given, 3) for given in window_examples(make)))
def avg_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The sum of every window divided by `divisors` (see `_divisor`)."""
    n = len(kernel)
    whole = math.prod(size) == 1  # for which a product is quicker
    if not whole and has_kernel(x, "avg_pool", small=True) and math.prod(size) > 0:
        (given, made, found), grain, fixed = in_planes(x.shape, kernel, size, stride, pad)
        out = np.empty(made, x.dtype)
        args = contiguous(x).reshape(given), *fixed, _along_each(divisors, size, x.dtype), out
        share_rows("avg_pool", given[0], grain, args)
        return out.reshape(found)
    y = x
    if whole and kernel == x.shape[x.ndim - n :] and not any(pad) and x.dtype.kind == "f":
        area = math.prod(kernel)
        total = matmul(x.reshape(*x.shape[: x.ndim - n], area), np.ones(area, x.dtype))
        return total.reshape(*x.shape[: x.ndim - n], *size) / _divisor(divisors, x.dtype)
    for d in reversed(range(n)):  # along one dimension after the other
        y = _window_sum(y, y.ndim - n + d, kernel[d], size[d], stride[d], pad[d])
    divisor = _divisor(divisors, x.dtype)
    if x.dtype.kind in "iu":
        return np.sign(y) * (abs(y) // divisor)
    return y / divisor


def _window_sum(x: Any, axis: int, kernel: int, size: int, stride: int, pad: int) -> Any:
    """The sums of the windows along one axis."""
    n = x.shape[axis]
    if kernel >= 8 and stride == kernel and pad == 0 and n == size * kernel:
        return x.reshape(*x.shape[:axis], size, kernel, *x.shape[axis + 1 :]).sum(axis=axis + 1, dtype=x.dtype)
    before = (slice(None),) * axis
    geometry = ((n,), (kernel,), (size,), (stride,), (pad,), (1,))
    found = taps(*geometry)
    if full(*geometry):
        y = x[(*before, *found[0][2])].copy("K")
        found = found[1:]
    else:
        y = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    for _, (windows,), (elements,) in found:
        y[(*before, windows)] += x[(*before, elements)]
    return y


@rounded_once
@by_kernels(
    "jit_pool.avg_pool_vjp",
    lambda make: (
        (make(len(x), *size), x.shape[1:], kernel, stride, pad, 3)
        for x, kernel, size, stride, pad in window_examples(make)
    ),
)
def avg_spread(g: Any, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The adjoint of `avg_pool` on images of `shape`: every element, divided, added to the whole of its window."""
    n = len(kernel)
    size = g.shape[g.ndim - n :]
    if math.prod(size) > 1 and has_kernel(g, "avg_pool_vjp"):
        out = np.zeros((*g.shape[: g.ndim - n], *shape), g.dtype)
        return _by_planes("avg_pool_vjp", g, out, kernel, size, stride, pad, divisors)
    x = g / _divisor(divisors, g.dtype)
    for d in range(n):
        axis = x.ndim - n + d
        x = _window_spread(x, axis, shape[d], kernel[d], stride[d], pad[d])
    return x


def _window_spread(x: Any, axis: int, n: int, kernel: int, stride: int, pad: int) -> Any:
    """The adjoint of `_window_sum` on n elements along one axis."""
    size = x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if stride == kernel and pad == 0 and n == size * kernel and x.flags.c_contiguous:
        spread = np.broadcast_to(x.reshape(*before, size, 1, *after), (*before, size, kernel, *after))
        return in_c_order(spread).reshape(*before, n, *after)
    wider = np.zeros((*before, n, *after), x.dtype)
    if not x.flags.c_contiguous:  # in the order of x
        order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
        wider = np.zeros([wider.shape[d] for d in order], x.dtype).transpose(np.argsort(order))
    every = (slice(None),) * axis
    for _, (windows,), (elements,) in taps((n,), (kernel,), (size,), (stride,), (pad,), (1,)):
        wider[(*every, elements)] += x[(*every, windows)]
    return wider


@rounded_once
def adaptive_avg(x: Any, size: tuple) -> Any:
    """The mean of every part of images divided into `size` (overlapping) parts."""
    n, y = len(size), x
    if not x.size:
        return np.zeros((*x.shape[: x.ndim - n], *size), x.dtype)
    cuts = [parts(s, o) for s, o in zip(x.shape[x.ndim - n :], size, strict=True)]
    for d in reversed(range(n)):
        axis = y.ndim - n + d
        before = (slice(None),) * axis
        if 2 * max(map(len, cuts[d]), default=0) < size[d]:
            y = _sums_by_place(y, axis, cuts[d])
            continue
        smaller = np.empty((*y.shape[:axis], size[d], *y.shape[axis + 1 :]), y.dtype)
        for i, part in enumerate(cuts[d]):
            smaller[(*before, i)] = y[(*before, slice(part.start, part.stop))].sum(axis=axis)
        y = smaller
    return y / _divisor(tuple([tuple([len(part) for part in cut]) for cut in cuts]), x.dtype)


def _sums_by_place(x: Any, axis: int, cut: list[range]) -> Any:
    """The sums of many short parts along one axis: the first elements of all, plus the second ones, ..."""
    starts, counts = np.array([part.start for part in cut]), np.array([len(part) for part in cut])
    total = np.take(x, starts, axis)
    for t in range(1, int(counts.max())):
        longer = np.flatnonzero(counts > t)
        total[((slice(None),) * axis + (longer,))] += np.take(x, starts[longer] + t, axis)
    return total


@rounded_once
def adaptive_avg_spread(g: Any, shape: tuple) -> Any:
    """The adjoint of `adaptive_avg` on images of `shape`."""
    n = len(shape)
    cuts = [parts(s, o) for s, o in zip(shape, g.shape[g.ndim - n :], strict=True)]
    x = g / _divisor(tuple([tuple([len(part) for part in cut]) for cut in cuts]), g.dtype)
    for d in range(n):
        axis = x.ndim - n + d
        before = (slice(None),) * axis
        wider = np.zeros((*x.shape[:axis], shape[d], *x.shape[axis + 1 :]), x.dtype)
        for i, part in enumerate(cuts[d]):
            wider[(*before, slice(part.start, part.stop))] += x[(*before, slice(i, i + 1))]
        x = wider
    return x
