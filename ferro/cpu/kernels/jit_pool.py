"""Compiled kernels of pooling. Images are (plane, depth, height, width); a row of results is computed at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ferro.cpu.kernels.jit_rows import copy, multiples
from ferro.cpu.kernels.jit_vectors import BYTES, i64, integer, word, written
from ferro.native.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which costs time


@device
def _first(place, stride, padding, dilation):
    """The first input place of a window that is inside."""
    start = place * stride - padding
    return start if start >= 0 else start + (-start + dilation - 1) // dilation * dilation


@device
def _met(offset, stride, length, count):
    """Of `count` windows, the first whose element at `offset` is inside, and one past the last."""
    low = 0 if offset >= 0 else (-offset + stride - 1) // stride
    high = 0 if offset >= length else (length - 1 - offset) // stride + 1
    return u64(min(low, count)), u64(max(min(low, count), min(high, count)))


# The comparisons below are written with | and conditional expressions: nothing jumps, and half of all jumps that depend
# on the numbers would be guessed wrong.


@device
def _pairs(x, out, index):
    """Windows of 2 × 2 that do not overlap."""
    width, count = x.shape[3], u64(out.shape[3])
    source, best, at = x.reshape(-1), out.reshape(-1), index.reshape(-1)
    two, one = u64(2), u64(1)
    for p in range(x.shape[0]):
        for z in range(x.shape[1]):
            base = (p * x.shape[1] + z) * x.shape[2]
            for y in range(out.shape[2]):
                upper = u64((base + 2 * y) * width)
                lower = upper + u64(width)
                to = u64(((p * x.shape[1] + z) * out.shape[2] + y) * out.shape[3])
                place = (z * x.shape[2] + 2 * y) * width
                for k in range(count):
                    a, b = source[upper + k * two], source[upper + k * two + one]
                    c, d = source[lower + k * two], source[lower + k * two + one]
                    better = (b > a) | math.isnan(b)
                    offset = 1 if better else 0
                    a = b if better else a
                    better = (c > a) | math.isnan(c)
                    offset = width if better else offset
                    a = c if better else a
                    better = (d > a) | math.isnan(d)
                    best[to + k] = d if better else a
                    at[to + k] = place + 2 * k + (width + 1 if better else offset)


def _window_maxima(known: int) -> Any:
    """The maxima of a register of neighbouring windows and their places, for windows `known` numbers apart, or with 0 any.

    Element t of window k is source[start + (to + k) stride + offsets[t]], and its place first + steps[to + k] + places[t].
    Until something is larger than minus infinity, the place is corners[to + k] + corner.
    """

    @written()
    def work(code, source, start, stride, offsets, places, first, steps, corner, corners, to, best, at, target):
        b, lanes, width = code.builder, code.lanes, ir.IntType(8 * code.size)
        many = ir.VectorType(integer, lanes)

        def narrow(number):  # places are compared along with numbers, and so have their size
            kind = ir.VectorType(width, lanes) if isinstance(number.type, ir.VectorType) else width
            return number if code.size == 8 else b.trunc(number, kind)

        def row(array, more):
            held = b.load(b.bitcast(b.gep(array, [to]), many.as_pointer()), align=8)
            return b.add(narrow(held), code.spread(narrow(more)))

        kept = cgutils.alloca_once_value(b, ir.Constant(code.vector, [float("-inf")] * lanes))
        where, beside = cgutils.alloca_once_value(b, row(corners, corner)), row(steps, first)
        begin = b.gep(source, [b.add(start, b.mul(to, stride))])
        taps = b.load(offsets)
        with cgutils.for_range_slice(b, i64(1), b.add(taps, i64(1)), i64(1), integer) as (t, _):
            here = b.gep(begin, [b.load(b.gep(offsets, [t]))])
            met, held = _neighbours(code, here, stride, known), b.load(kept)
            better = b.or_(b.fcmp_ordered(">", met, held), b.fcmp_unordered("uno", met, met))
            place = b.add(beside, code.spread(narrow(b.load(b.gep(places, [t])))))
            b.store(b.select(better, met, held), kept)
            b.store(b.select(better, place, b.load(where)), where)
        code.store(b.load(kept), best, target)
        found = b.load(where) if code.size == 8 else b.sext(b.load(where), many)
        b.store(found, b.bitcast(b.gep(at, [target]), many.as_pointer()), align=8)

    return work


def _neighbours(code: Any, here: Any, stride: Any, known: int) -> Any:
    """A register of numbers that lie `stride` apart."""
    if known == 1:
        return code.load(here)
    if known == 2:
        halves = [code.load(here, i64(v * code.lanes)) for v in range(2)]
        return code.shuffled(*halves, list(range(0, 2 * code.lanes, 2)))
    found, b = ir.Constant(code.vector, ir.Undefined), code.builder
    for k in range(code.lanes):
        found = b.insert_element(found, b.load(b.gep(here, [b.mul(stride, i64(k))])), word(k))
    return found


_maxima_1, _maxima_2, _maxima = _window_maxima(1), _window_maxima(2), _window_maxima(0)


@device
def _elements(size, dilation, high, wide):
    """By how much the elements of a window lie behind its first one in a plane of such rows; before them, how many they are."""
    taps = size[0] * size[1] * size[2]
    found = np.empty(taps + 1, np.int64)
    found[0] = taps
    for t in range(taps):
        z, y, k = t // (size[1] * size[2]), t // size[2] % size[1], t % size[2]
        found[t + 1] = (z * dilation[0] * high + y * dilation[1]) * wide + k * dilation[2]
    return found


@device
def _needed(length, count, size, stride, padding, dilation):
    """The numbers that windows see in a direction, with the padding, and one more."""
    return max(length + 2 * padding, (count - 1) * stride + (size - 1) * dilation + 2)


@device
def _row_maxima(source, start, stride, offsets, places, first, steps, corner, corners, to, best, at, target):
    if stride == 1:
        _maxima_1(source, start, stride, offsets, places, first, steps, corner, corners, to, best, at, target)
    elif stride == 2:
        _maxima_2(source, start, stride, offsets, places, first, steps, corner, corners, to, best, at, target)
    else:
        _maxima(source, start, stride, offsets, places, first, steps, corner, corners, to, best, at, target)


@device
def _plane_maxima(plane, shape, offsets, places, steps, corners, stride, padding, dilation, out, index):
    """The windows of one plane."""
    height, width = shape
    count, lanes, source = out.shape[2], BYTES // plane.itemsize, plane.reshape(-1)
    some, some_at, all_out, all_at = (
        np.empty(lanes, plane.dtype),
        np.empty(lanes, np.int64),
        out.reshape(-1),
        index.reshape(-1),
    )
    for oz in range(out.shape[0]):
        z = _first(oz, stride[0], padding[0], dilation[0])
        for oy in range(out.shape[1]):
            start = (oz * stride[0] * plane.shape[1] + oy * stride[1]) * plane.shape[2]
            first = ((oz * stride[0] - padding[0]) * height + oy * stride[1] - padding[1]) * width - padding[2]
            corner = (z * height + _first(oy, stride[1], padding[1], dilation[1])) * width
            row = (oz * out.shape[1] + oy) * count
            if count < lanes:
                _row_maxima(
                    source, start, stride[2], offsets, places, first, steps, corner, corners, 0, some, some_at, 0
                )
                copy(some, all_out[row : row + count])
                copy(some_at, all_at[row : row + count])
                continue
            for k in range(0, count, lanes):
                to = min(k, count - lanes)
                _row_maxima(
                    source,
                    start,
                    stride[2],
                    offsets,
                    places,
                    first,
                    steps,
                    corner,
                    corners,
                    to,
                    all_out,
                    all_at,
                    row + to,
                )


@kernel
def max_pool(x, size, stride, padding, dilation, out, index):
    """The largest number of each window, and its place in the plane; the last nan, else the first of equals.

    A plane is copied into one with padding, in which no number is smaller. For a register of windows at a time one element
    after the other is compared; the last register of a row may repeat some windows.
    """
    depth, height, width = x.shape[1:]
    inside = 2 * out.shape[2] <= height and 2 * out.shape[3] <= width
    inside = inside and dilation[1] == dilation[2] == 1
    if size == (1, 2, 2) and stride == (1, 2, 2) and padding == (0, 0, 0) and inside:
        _pairs(x, out, index)
        return
    lanes, count = BYTES // x.itemsize, out.shape[3]
    whole = max(count, lanes)
    high = _needed(height, out.shape[2], size[1], stride[1], padding[1], dilation[1])
    wide = _needed(width, whole, size[2], stride[2], padding[2], dilation[2])
    deep = _needed(depth, out.shape[1], size[0], stride[0], padding[0], dilation[0])
    plane = np.empty((deep, high, wide), x.dtype)
    plane[:] = -math.inf
    offsets, places = _elements(size, dilation, high, wide), _elements(size, dilation, height, width)
    steps, corners = multiples(stride[2], whole), np.empty(whole, np.int64)
    for k in range(whole):
        corners[k] = _first(k, stride[2], padding[2], dilation[2])
    for p in range(x.shape[0]):
        for z in range(depth):
            for y in range(height):
                copy(x[p, z, y], plane[z + padding[0], y + padding[1], padding[2] : padding[2] + width])
        _plane_maxima(
            plane, (height, width), offsets, places, steps, corners, stride, padding, dilation, out[p], index[p]
        )


@kernel
def max_pool_vjp(g, index, out):
    """Adds each number of g to the place of `out` that it came from; all are (plane, place)."""
    for p in range(g.shape[0]):
        target = out[p]
        for k in range(g.shape[1]):
            target[u64(index[p, k])] += g[p, k]


def _adder(known: int) -> Any:
    @device
    def work(total, low, high, line, start, stride):
        for k in range(low, high):
            total[k] += line[start + (k - low) * u64(known if known > 0 else stride)]

    return work


def _spreader(known: int) -> Any:
    @device
    def work(given, low, high, line, start, stride):
        for k in range(low, high):
            line[start + (k - low) * u64(known if known > 0 else stride)] += given[k]

    return work


_add_1, _add_2, _add = _adder(1), _adder(2), _adder(0)
_spread_1, _spread_2, _spread = _spreader(1), _spreader(2), _spreader(0)


@kernel
def avg_pool(x, size, stride, padding, divisors, out):
    """The sum of each window over the product of the divisors for its place in each direction."""
    depth, height, width = x.shape[1:]
    total = np.empty(out.shape[3], x.dtype)
    spans = [_met(k - padding[2], stride[2], width, len(total)) for k in range(size[2])]
    for p in range(x.shape[0]):
        plane = x[p].reshape(-1)
        for oz in range(out.shape[1]):
            for oy in range(out.shape[2]):
                total[:] = 0
                for z in range(max(0, oz * stride[0] - padding[0]), min(depth, oz * stride[0] - padding[0] + size[0])):
                    y0 = oy * stride[1] - padding[1]
                    for y in range(max(0, y0), min(height, y0 + size[1])):
                        for kx in range(size[2]):
                            low, high = spans[kx]
                            start = u64((z * height + y) * width + kx - padding[2] + int(low) * stride[2])
                            if stride[2] == 1:
                                _add_1(total, low, high, plane, start, 1)
                            elif stride[2] == 2:
                                _add_2(total, low, high, plane, start, 2)
                            else:
                                _add(total, low, high, plane, start, stride[2])
                by = divisors[0][oz] * divisors[1][oy]
                for k in range(u64(len(total))):
                    out[p, oz, oy, k] = total[k] / (by * divisors[2][k])


@kernel
def avg_pool_vjp(g, size, stride, padding, divisors, out):
    """Adds each number of g, divided likewise, to the whole of its window."""
    depth, height, width = out.shape[1:]
    given = np.empty(g.shape[3], g.dtype)
    spans = [_met(k - padding[2], stride[2], width, len(given)) for k in range(size[2])]
    for p in range(g.shape[0]):
        plane = out[p].reshape(-1)
        for oz in range(g.shape[1]):
            for oy in range(g.shape[2]):
                by = divisors[0][oz] * divisors[1][oy]
                for k in range(u64(len(given))):
                    given[k] = g[p, oz, oy, k] / (by * divisors[2][k])
                for z in range(max(0, oz * stride[0] - padding[0]), min(depth, oz * stride[0] - padding[0] + size[0])):
                    y0 = oy * stride[1] - padding[1]
                    for y in range(max(0, y0), min(height, y0 + size[1])):
                        for kx in range(size[2]):
                            low, high = spans[kx]
                            start = u64((z * height + y) * width + kx - padding[2] + int(low) * stride[2])
                            if stride[2] == 1:
                                _spread_1(given, low, high, plane, start, 1)
                            elif stride[2] == 2:
                                _spread_2(given, low, high, plane, start, 2)
                            else:
                                _spread(given, low, high, plane, start, stride[2])
