"""Pooling of NumPy arrays: maxima and means over windows of the last dimensions, and their adjoints."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ferro.cpu.half import rounded_once
from ferro.cpu.kernels import pool as _kernels
from ferro.cpu.kernels.common import has_kernel, widened
from ferro.cpu.kernels.strided_copy import contiguous
from ferro.cpu.layouts import channels_last_order, empty, has_channels_last, strides_in
from ferro.cpu.products import matmul
from ferro.cpu.thresholds import POOL_CACHED
from ferro.cpu.windows import full, taps

__all__ = ["adaptive_avg", "adaptive_avg_spread", "adaptive_max", "avg_pool", "avg_spread", "fractional_max",
           "max_pool", "pool_gather", "pool_scatter", "unpool"]  # fmt: skip


# -- maxima ------------------------------------------------------------------------------------------------------------


@rounded_once
def max_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple[Any, Any]:
    """The maximum of every window, and where it is in the flattened image: the first one, or the last nan."""
    n = len(kernel)
    shape = x.shape[-n:]
    geometry = (shape, kernel, size, stride, pad, dilation)
    if _kernels.ready(x, math.prod(shape)):
        for ceil_mode in (False, True):
            fits = [_kernels.out_size(s, k, st, p, d, ceil_mode) for s, k, _, st, p, d in zip(*geometry, strict=True)]
            if tuple(fits) == size:
                return _kernels.max_pool(x, kernel, stride, pad, dilation, ceil_mode)
    if math.prod(size) < math.prod(kernel):
        return _max_of_ranges(x, [_ranges(*g) for g in zip(*geometry, strict=True)])
    best, tap = _running_maximum(x, geometry, False)
    if x.dtype.kind == "f" and np.isnan(best).any():
        best, tap = _running_maximum(x, geometry, True)
    corner = _flat([np.arange(count) * s - p for count, s, p in zip(size, stride, pad, strict=True)], shape)
    offset = _flat([np.arange(count) * d for count, d in zip(kernel, dilation, strict=True)], shape)
    return best, offset.reshape(-1)[tap] + corner


def _running_maximum(x: Any, geometry: tuple, nans: bool) -> tuple[Any, Any]:
    """The maximum of every window and the number of the kernel element where it is; right for nan only with `nans`."""
    _, kernel, size, stride, pad, dilation = geometry
    n = len(kernel)
    number = np.uint8 if math.prod(kernel) <= 256 else np.int32
    best, tap = _beside(x, (*x.shape[:-n], *size), x.dtype), _beside(x, (*x.shape[:-n], *size), np.dtype(number))
    best[...] = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    first = [
        np.maximum(0, -((np.arange(o) * s - p) // d)) for o, s, p, d in zip(size, stride, pad, dilation, strict=True)
    ]
    tap[...] = _flat(first, kernel)
    for k, windows, elements in taps(*geometry):
        candidate, held = x[(..., *elements)], best[(..., *windows)]
        better = candidate > held
        if nans:
            better |= np.isnan(candidate)
            np.copyto(held, candidate, where=better)
        else:
            np.maximum(held, candidate, out=held)
        np.copyto(tap[(..., *windows)], number(k), where=better)
    return best, tap


def _beside(x: Any, shape: tuple, dtype: Any) -> Any:
    """A new array whose channels are last in memory if those of x are: what walks through both walks straight."""
    if x.ndim in (4, 5) and not x.flags.c_contiguous and has_channels_last(x):
        return empty(shape, dtype, strides_in(channels_last_order(x.ndim), shape, dtype.itemsize))
    return np.empty(shape, dtype)


def adaptive_max(x: Any, size: tuple) -> tuple[Any, Any]:
    """The maximum of every part of images divided into `size` (overlapping) parts, and where it is."""
    if not x.size:
        whole = (*x.shape[: x.ndim - len(size)], *size)
        return np.zeros(whole, x.dtype), np.zeros(whole, np.int64)
    return _max_of_ranges(x, [parts(s, o) for s, o in zip(x.shape[-len(size) :], size, strict=True)])


def parts(n: int, count: int) -> list[range]:
    """n elements divided into `count` parts that overlap where the division leaves a remainder."""
    return [range(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def _ranges(n: int, kernel: int, size: int, stride: int, pad: int, dilation: int) -> list[range]:
    """The elements of every window along one dimension."""
    found = []
    for o in range(size):
        start = o * stride - pad
        stop = min(n, start + (kernel - 1) * dilation + 1)
        found.append(range(start + max(0, -(start // dilation)) * dilation, stop, dilation))
    return found


def _max_of_many(x: Any, ranges: list[list[range]]) -> tuple[Any, Any]:
    """The same for many windows, one dimension after the other: the first of equals is still that of the window."""
    shape, best = x.shape[x.ndim - len(ranges) :], x
    index: Any = None  # in an image of the dimensions that are done
    for d in reversed(range(len(ranges))):
        axis, inside = x.ndim - len(ranges) + d, math.prod(shape[d + 1 :])
        if 2 * max(map(len, ranges[d]), default=0) < len(ranges[d]):
            best, at = _max_by_place(best, axis, ranges[d])
            index = at if index is None else at * inside + np.take_along_axis(index, at, axis)
            continue
        before = (slice(None),) * axis
        whole = (*best.shape[:axis], len(ranges[d]), *best.shape[axis + 1 :])
        most, where = np.empty(whole, x.dtype), np.empty(whole, np.int64)
        for i, r in enumerate(ranges[d]):
            most[(*before, i)], at = _max_last(np.moveaxis(best[(*before, slice(r.start, r.stop, r.step))], axis, -1))
            at = np.asarray(at, np.int64) * r.step + r.start
            if index is None:
                where[(*before, i)] = at
            else:
                behind = np.take_along_axis(index, np.expand_dims(at, axis), axis)
                where[(*before, i)] = at * inside + behind.squeeze(axis)
        best, index = most, where
    return best, index


def _max_by_place(x: Any, axis: int, ranges: list[range]) -> tuple[Any, Any]:
    """The maxima of many short windows along one axis and where they are: the first elements of all, then the second ones, ..."""
    many = (slice(None),) * axis
    starts, counts = np.array([r.start for r in ranges]), np.array([len(r) for r in ranges])
    best = np.take(x, starts, axis)
    at = np.zeros(best.shape, np.int64)
    for t in range(1, int(counts.max())):
        longer = np.flatnonzero(counts > t)
        candidate, held = np.take(x, starts[longer] + t * ranges[0].step, axis), best[(*many, longer)]
        better = (candidate > held) | np.isnan(candidate) if x.dtype.kind == "f" else candidate > held
        best[(*many, longer)] = np.where(better, candidate, held)
        at[(*many, longer)] = np.where(better, t, at[(*many, longer)])
    at *= ranges[0].step
    at += starts.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return best, at


def _flat(positions: list, shape: tuple) -> Any:
    """The flat indices in an image of `shape` of the grid of `positions`, one sequence per dimension."""
    grid: Any = 0
    for p, s in zip(positions, shape, strict=True):
        grid = np.expand_dims(np.asarray(grid) * s, -1) + np.asarray(p, np.int64)
    return grid


@rounded_once
def _max_of_ranges(x: Any, ranges: list[list[range]]) -> tuple[Any, Any]:
    """The maximum of every window given by one range per dimension: for windows fewer than their elements."""
    n = len(ranges)
    shape = x.shape[-n:]
    lead, size = x.shape[:-n], tuple([len(r) for r in ranges])
    if math.prod(size) > 4 * sum(size):
        return _max_of_many(x, ranges)
    best, index = np.empty((*lead, *size), x.dtype), np.empty((*lead, *size), np.int64)
    for place in product(*[range(s) for s in size]):
        chosen = [ranges[d][i] for d, i in enumerate(place)]
        window = x[(..., *[slice(r.start, r.stop, r.step) for r in chosen])]
        window = window.reshape(*lead, math.prod([len(r) for r in chosen]))
        best[(..., *place)], at = _max_last(window)
        index[(..., *place)] = _flat(chosen, shape).reshape(-1)[at]
    return best, index


def _max_last(window: Any) -> tuple[Any, Any]:
    """The maximum along the last dimension and its place: the first one, or the last nan."""
    at = window.argmax(axis=-1)
    best = np.take_along_axis(window, at[..., None], -1)[..., 0]
    if window.dtype.kind == "f":
        bad = np.isnan(best)
        if bad.any():
            last = window.shape[-1] - 1 - np.isnan(window[..., ::-1]).argmax(axis=-1)
            at = np.where(bad, last, at)
    return best, at


def fractional_max(x: Any, samples: Any, kernel: tuple, size: tuple) -> tuple[Any, Any]:
    """The maxima of windows placed by the random `samples` (images, channels, dimensions) in [0, 1), and where."""
    n = len(kernel)
    lead, shape = x.shape[:-n], x.shape[-n:]
    if 0 in size or not x.size:
        return np.empty((*lead, *size), x.dtype), np.empty((*lead, *size), np.int64)
    planes = widened(x).reshape(math.prod(lead), math.prod(shape))
    samples = samples.reshape(-1, n)[: len(planes)]
    if n == 2:
        samples = samples[:, ::-1]  # PyTorch's order: width first in two dimensions, but depth first in three
    flat: Any = np.zeros((len(planes), *(1,) * (2 * n)), np.int64)
    for d in range(n):
        elements = _starts(samples[:, d], shape[d], size[d], kernel[d])[:, :, None] + np.arange(kernel[d])
        axes = [1] * (2 * n)
        axes[d], axes[n + d] = size[d], kernel[d]
        flat = flat * shape[d] + elements.reshape(len(planes), *axes)
    count = math.prod(size) * math.prod(kernel)
    flat = flat.reshape(len(planes), math.prod(size), math.prod(kernel))
    window = np.take_along_axis(planes, flat.reshape(len(planes), count), 1).reshape(flat.shape)
    best, at = _max_last(window)
    index = np.take_along_axis(flat, at[..., None], -1)[..., 0]
    return best.astype(x.dtype, copy=False).reshape(*lead, *size), index.reshape(*lead, *size)


def _starts(samples: Any, n: int, count: int, kernel: int) -> Any:
    """Where the windows begin along one dimension: steps of the mean width, rounded from a random offset on."""
    found = np.empty((len(samples), count), np.int64)
    if count > 1:
        alpha = samples.dtype.type((n - kernel) / (count - 1))
        steps = np.arange(count - 1, dtype=samples.dtype)
        offset = (samples * alpha).astype(np.int64)
        found[:, :-1] = ((steps + samples[:, None]) * alpha).astype(np.int64) - offset[:, None]
    found[:, -1] = n - kernel
    return found


# -- by index ----------------------------------------------------------------------------------------------------------


def pool_gather(x: Any, index: Any, dims: int) -> Any:
    """The elements of the images in the last `dims` dimensions of x at flat indices."""
    lead, shape = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
    planes, places = math.prod(lead), math.prod(index.shape[x.ndim - dims :])
    flat = x.reshape(planes, math.prod(shape))
    return np.take_along_axis(flat, index.reshape(planes, places), 1).reshape(index.shape)


def pool_scatter(x: Any, index: Any, size: tuple) -> Any:
    """Images of shape `size` with the elements of x added at flat indices."""
    lead, area = x.shape[: x.ndim - len(size)], math.prod(size)
    planes = math.prod(lead)
    if has_kernel(x):
        return _kernels.max_pool_vjp(x, index, (*lead, *size), len(size))
    if planes * area == 0:
        return np.zeros((*lead, *size), x.dtype)
    places = math.prod(index.shape[len(lead) :])
    x, index = x.reshape(planes, places), index.reshape(planes, places)
    out = np.zeros((planes, area), x.dtype)
    many = max(1, POOL_CACHED // area)  # planes at a time
    corners = (np.arange(many) * area)[:, None]
    for start in range(0, planes, many):
        part, g = out[start : start + many].reshape(-1), x[start : start + many].reshape(-1)
        flat = (index[start : start + many] + corners[: len(index) - start]).reshape(-1)
        if _distinct(flat, part.size):
            part[flat] = g
        else:
            part[...] = np.bincount(flat, g, part.size)
    return out.reshape(*lead, *size)


def _distinct(places: Any, n: int) -> bool:
    """Whether no place of 0 ... n - 1 is named twice: the last to write its number into each reads it there."""
    numbers, last = np.arange(places.size), np.empty(n, np.int64)
    last[places] = numbers
    return bool((last[places] == numbers).all())


def unpool(x: Any, index: Any, size: tuple) -> Any:
    """Images of shape `size`, zero but for the elements of x put at flat indices."""
    lead = x.shape[: x.ndim - len(size)]
    planes, places = math.prod(lead), math.prod(x.shape[len(lead) :])
    out = np.zeros((planes, math.prod(size)), x.dtype)
    np.put_along_axis(out, index.reshape(planes, places), x.reshape(planes, places), 1)
    return out.reshape(*lead, *size)


# -- means -------------------------------------------------------------------------------------------------------------


def _divisor(divisors: Any, dtype: Any) -> Any:
    """The number of elements of every window: a number, or the outer product of the numbers along every dimension."""
    if not isinstance(divisors, tuple):
        return np.asarray(divisors, dtype)
    total: Any = np.ones((), dtype)
    for d in divisors:
        total = total[..., None] * np.asarray(d, dtype)
    return total


@rounded_once
def avg_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The sum of every window divided by `divisors` (see `_divisor`)."""
    n = len(kernel)
    whole = math.prod(size) == 1  # for which a product is quicker
    if not whole and math.prod(size) > 0 and _kernels.ready(x, 0):
        return _kernels.avg_pool(x, kernel, size, stride, pad, divisors)
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
def avg_spread(g: Any, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The adjoint of `avg_pool` on images of `shape`: every element, divided, added to the whole of its window."""
    n = len(kernel)
    if math.prod(g.shape[g.ndim - n :]) > 1 and _kernels.ready(g, 0):
        return _kernels.avg_pool_vjp(g, shape, kernel, stride, pad, divisors)
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
        return contiguous(spread).reshape(*before, n, *after)
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
