"""Max and average pooling of NumPy arrays over the last one to three dimensions, and their derivatives.

x is (..., place...); kernel, stride, padding and dilation are tuples with one number per dimension of place.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, has_kernel, in_float32, is_half, split, widened

Ints = tuple[int, ...]


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Places of the result along one dimension."""
    spare = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-spare // stride) if ceil_mode else spare // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # no window begins in the padding behind
    return count


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


def _windows(
    x: np.ndarray, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, fill: float
) -> np.ndarray:
    """The windows of every place, all in one last dimension, `fill` standing in the padding."""
    n = len(kernel)
    lead, size = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    places = shape[len(lead) :]
    needed = [
        max(s + 2 * p, (o - 1) * t + (k - 1) * d + 1)
        for s, p, o, t, k, d in zip(size, padding, places, stride, kernel, dilation)
    ]
    padded = np.full((*lead, *needed), fill, x.dtype)
    padded[(..., *[slice(p, p + s) for p, s in zip(padding, size)])] = x
    steps = padded.strides[len(lead) :]
    strides = [s * t for s, t in zip(steps, stride)] + [s * d for s, d in zip(steps, dilation)]
    windows = np.lib.stride_tricks.as_strided(
        padded, (*shape, *kernel), (*padded.strides[: len(lead)], *strides), writeable=False
    )
    return windows.reshape(*shape, math.prod(kernel))


def max_pool(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each window, and its position in the flattened place of `x` (int64); nan wins."""
    if is_half(x):
        out, index = max_pool(widened(x), kernel, stride, padding, dilation, ceil_mode)
        return out.astype(x.dtype), index
    shape = _shape(x, kernel, stride, padding, dilation, ceil_mode)
    if not has_kernel(x):
        return _max_pool_numpy(x, shape, kernel, stride, padding, dilation)
    n = len(kernel)
    planes = _planes(x, n)
    out, index = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    outs, indices = _planes(out, n), _planes(index, n)
    run = get("max_pool")
    fixed = _three(kernel, 1), _three(stride, 1), _three(padding, 0), _three(dilation, 1)
    cost = math.prod(shape[x.ndim - n :]) * math.prod(kernel)
    split(len(planes), GRAIN // cost + 1, lambda i, j: run(planes[i:j], *fixed, outs[i:j], indices[i:j]))
    return out, index


def _max_pool_numpy(
    x: np.ndarray, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = _windows(x, shape, kernel, stride, padding, dilation, lowest)
    inside = _windows(np.ones(x.shape[x.ndim - len(kernel) :], np.bool_), shape[x.ndim - len(kernel) :], *(
        kernel, stride, padding, dilation, 0))  # fmt: skip
    # A window of nothing but -inf has its maximum inside, not in the padding.
    first = np.where(inside & (windows == windows.max(-1, keepdims=True, initial=lowest)), 1, 0)
    nan = np.isnan(windows)
    tap = np.where(nan.any(-1), windows.shape[-1] - 1 - nan[..., ::-1].argmax(-1), first.argmax(-1))
    out = np.take_along_axis(windows, tap[..., None], -1)[..., 0]
    index = np.zeros(shape, np.int64)
    size = x.shape[x.ndim - len(kernel) :]
    for axis, t in enumerate(np.unravel_index(tap, kernel)):
        place = np.arange(shape[x.ndim - len(kernel) + axis]) * stride[axis] - padding[axis]
        place = place.reshape(-1, *[1] * (len(kernel) - 1 - axis))
        index = index * size[axis] + place + t * dilation[axis]
    return out, index


def max_pool_vjp(g: np.ndarray, index: np.ndarray, x_shape: Ints, n: int) -> np.ndarray:
    """The gradient of max_pool over n dimensions: g added where the maxima came from."""
    if is_half(g):
        return in_float32(max_pool_vjp, g, index, x_shape, n)
    lead = x_shape[: len(x_shape) - n]
    out = np.zeros((math.prod(lead), math.prod(x_shape[len(x_shape) - n :])), g.dtype)
    places = math.prod(g.shape[g.ndim - n :])
    gs, indices = contiguous(g).reshape(len(out), places), contiguous(index, np.int64).reshape(len(out), places)
    if not has_kernel(g):
        np.add.at(out, (np.arange(len(out))[:, None], indices), gs)
        return out.reshape(x_shape)
    run = get("max_pool_vjp")
    split(len(out), GRAIN // places + 1, lambda i, j: run(gs[i:j], indices[i:j], out[i:j]))
    return out.reshape(x_shape)


def avg_pool(
    x: np.ndarray,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> np.ndarray:
    """The mean of each window; the padding counts as zeros if `count_include_pad`."""
    if is_half(x):
        return in_float32(avg_pool, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    n = len(kernel)
    shape = _shape(x, kernel, stride, padding, (1,) * n, ceil_mode)
    if not has_kernel(x):
        divisor = _divisors(x.shape, shape, kernel, stride, padding, count_include_pad, divisor_override)
        return _windows(x, shape, kernel, stride, padding, (1,) * n, 0).sum(-1) / divisor.astype(x.dtype)
    planes, out = _planes(x, n), np.empty(shape, x.dtype)
    outs = _planes(out, n)
    run = get("avg_pool")
    fixed = _three(kernel, 1), _three(stride, 1), _three(padding, 0), count_include_pad, divisor_override or 0
    cost = math.prod(shape[x.ndim - n :]) * math.prod(kernel)
    split(len(planes), GRAIN // cost + 1, lambda i, j: run(planes[i:j], *fixed, outs[i:j]))
    return out


def avg_pool_vjp(
    g: np.ndarray,
    x_shape: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    count_include_pad: bool,
    divisor_override: int | None,
) -> np.ndarray:
    """The gradient of avg_pool: every place of a window gets its share of g."""
    if is_half(g):
        return in_float32(avg_pool_vjp, g, x_shape, kernel, stride, padding, count_include_pad, divisor_override)
    n = len(kernel)
    if not has_kernel(g):
        divisor = _divisors(x_shape, g.shape, kernel, stride, padding, count_include_pad, divisor_override)
        return _spread(g / divisor.astype(g.dtype), x_shape, kernel, stride, padding)
    out = np.zeros(x_shape, g.dtype)
    outs, gs = _planes(out, n), _planes(g, n)
    run = get("avg_pool_vjp")
    fixed = _three(kernel, 1), _three(stride, 1), _three(padding, 0), count_include_pad, divisor_override or 0
    cost = math.prod(g.shape[g.ndim - n :]) * math.prod(kernel)
    split(len(gs), GRAIN // cost + 1, lambda i, j: run(gs[i:j], *fixed, outs[i:j]))
    return out


def _divisors(
    x_shape: Ints, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, count_padding: bool, override: int | None
) -> np.ndarray:
    """What the sum of each window is divided by."""
    if override:
        return np.asarray(override)
    total = np.ones((), np.int64)
    for axis, (k, s, p) in enumerate(zip(kernel, stride, padding)):
        size, count = x_shape[len(x_shape) - len(kernel) + axis], shape[len(shape) - len(kernel) + axis]
        start = np.arange(count) * s - p
        stop = np.minimum(start + k, size + p)
        each = stop - start if count_padding else np.minimum(stop, size) - np.maximum(start, 0)
        total = total[..., None] * each
    return total


def _spread(share: np.ndarray, x_shape: Ints, kernel: Ints, stride: Ints, padding: Ints) -> np.ndarray:
    """Every number of `share` added to all the places of its window."""
    n = len(kernel)
    places = share.shape[share.ndim - n :]
    size = x_shape[len(x_shape) - n :]
    needed = [max(s + 2 * p, (o - 1) * t + k) for s, p, o, t, k in zip(size, padding, places, stride, kernel)]
    padded = np.zeros((*x_shape[: len(x_shape) - n], *needed), share.dtype)
    for tap in np.ndindex(*kernel):
        part = [slice(t, t + s * (o - 1) + 1, s) for t, s, o in zip(tap, stride, places)]
        padded[(..., *part)] += share
    return np.ascontiguousarray(padded[(..., *[slice(p, p + s) for p, s in zip(padding, size)])])
