"""Pooling of NumPy arrays: maxima over windows of the last dimensions, and what lies where they were; for means see mean_pooling.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, places, sides
from ferro.cpu.half import rounded_once
from ferro.cpu.kernels.common import SMALL, contiguous, has_kernel, share_rows, widened
from ferro.cpu.layouts import channels_last_order, empty, has_channels_last, strides_in
from ferro.cpu.thresholds import GRAIN, POOL_CACHED
from ferro.cpu.windows import taps

__all__ = ["adaptive_max", "fractional_max", "max_pool", "pool_gather", "pool_scatter", "unpool"]


def planes(x: Any, n: int) -> Any:
    """x as (plane, depth, height, width), its last n dimensions being the image."""
    return contiguous(x).reshape(math.prod(x.shape[: x.ndim - n]), *three(x.shape[x.ndim - n :], 1))


def three(values: tuple, fill: int) -> tuple:
    """What belongs to the last of three dimensions."""
    return (fill,) * (3 - len(values)) + tuple(values)


@lru_cache(maxsize=512)
def in_planes(shape: tuple, kernel: tuple, size: tuple, *others: tuple) -> tuple[tuple, int, tuple]:
    """Of images and windows: the shapes of `planes`, of their results, and of these without planes; the grain of the work;
    and the numbers of a window (stride, pad and perhaps dilation are the others) for three dimensions.
    """
    n = len(kernel)
    lead = shape[: len(shape) - n]
    many = math.prod(lead)
    given, made = (many, *three(shape[len(lead) :], 1)), (many, *three(size, 1))
    fixed = tuple([three(v, fill) for v, fill in zip((kernel, *others), (1, 1, 0, 1), strict=False)])
    return (given, made, (*lead, *size)), 2 * GRAIN // max(math.prod(size) * math.prod(kernel), 1) + 1, fixed


# -- maxima ------------------------------------------------------------------------------------------------------------


def window_examples(make: Make) -> Iterator[tuple]:
    """Images, and windows apart, side by side, and of two and three steps: (x, kernel, size, stride, pad)."""
    for images in (*sides(math.ceil(SMALL / 120)), GRAIN // 120):
        x = np.round(make(images, 10, 12), 1)
        for kernel, stride, pad in (
            ((2, 2), (2, 2), (0, 0)),
            ((3, 3), (1, 1), (1, 1)),
            ((3, 2), (2, 2), (1, 0)),
            ((2, 4), (1, 3), (0, 2)),
        ):
            size = tuple(
                [(s + 2 * p - k) // t + 1 for s, k, t, p in zip(x.shape[1:], kernel, stride, pad, strict=True)]
            )
            yield x, kernel, size, stride, pad


@rounded_once
@by_kernels("jit_pool.max_pool", lambda make: ((*given, (1, 1)) for given in window_examples(make)))
def max_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple[Any, Any]:
    """The maximum of every window, and where it is in the flattened image: the first one, or the last nan."""
    n = len(kernel)
    shape = x.shape[-n:]
    geometry = (shape, kernel, size, stride, pad, dilation)
    if has_kernel(x, "max_pool", small=True) and math.prod(shape) < 1 << 31:
        (given, made, found), grain, fixed = in_planes(x.shape, kernel, size, stride, pad, dilation)
        best, index = np.empty(made, x.dtype), np.empty(made, np.int64)
        share_rows("max_pool", given[0], grain, (contiguous(x).reshape(given), *fixed, best, index))
        return best.reshape(found), index.reshape(found)
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
    images = widened(x).reshape(math.prod(lead), math.prod(shape))
    samples = samples.reshape(-1, n)[: len(images)]
    if n == 2:
        samples = samples[:, ::-1]  # PyTorch's order: width first in two dimensions, but depth first in three
    flat: Any = np.zeros((len(images), *(1,) * (2 * n)), np.int64)
    for d in range(n):
        elements = _starts(samples[:, d], shape[d], size[d], kernel[d])[:, :, None] + np.arange(kernel[d])
        axes = [1] * (2 * n)
        axes[d], axes[n + d] = size[d], kernel[d]
        flat = flat * shape[d] + elements.reshape(len(images), *axes)
    count = math.prod(size) * math.prod(kernel)
    flat = flat.reshape(len(images), math.prod(size), math.prod(kernel))
    window = np.take_along_axis(images, flat.reshape(len(images), count), 1).reshape(flat.shape)
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
    count, area = math.prod(x.shape[: x.ndim - dims]), math.prod(x.shape[x.ndim - dims :])
    places = math.prod(index.shape[x.ndim - dims :])
    return np.take_along_axis(x.reshape(count, area), index.reshape(count, places), 1).reshape(index.shape)


def _scattered(make: Make) -> Iterator[tuple]:
    for images in (*sides(math.ceil(SMALL / 30)), GRAIN // 30):
        yield make(images, 5, 6), places(make, 120, images, 5, 6), (10, 12)


@by_kernels("jit_pool.max_pool_vjp", _scattered)
def pool_scatter(x: Any, index: Any, size: tuple) -> Any:
    """Images of shape `size` with the elements of x added at flat indices."""
    lead, area = x.shape[: x.ndim - len(size)], math.prod(size)
    count, places = math.prod(lead), math.prod(index.shape[len(lead) :])
    out = np.zeros((count, area), x.dtype)
    if not out.size:
        return out.reshape(*lead, *size)
    x, index = x.reshape(count, places), index.reshape(count, places)
    if has_kernel(x, "max_pool_vjp"):
        share_rows("max_pool_vjp", count, GRAIN // places + 1, (contiguous(x), contiguous(index, np.int64), out))
        return out.reshape(*lead, *size)
    many = max(1, POOL_CACHED // area)  # planes at a time
    corners = (np.arange(many) * area)[:, None]
    for start in range(0, count, many):
        part, g = out[start : start + many].reshape(-1), x[start : start + many].reshape(-1)
        flat = (index[start : start + many] + corners[: count - start]).reshape(-1)
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
    count, places = math.prod(lead), math.prod(x.shape[len(lead) :])
    out = np.zeros((count, math.prod(size)), x.dtype)
    np.put_along_axis(out, index.reshape(count, places), x.reshape(count, places), 1)
    return out.reshape(*lead, *size)
