"""Compiled kernels of pooling. Images are (plane, depth, height, width); a row of results is computed at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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


def _raiser(known: int) -> Any:
    """Takes over the numbers of a line that are larger, or nan, and their places; for one stride, or with 0 for any.

    LLVM makes vector code of a stride only if it is written in the function.
    """

    @device
    def work(best, at, low, high, line, start, stride):
        for k in range(low, high):
            i = start + (k - low) * u64(known if known > 0 else stride)
            value = line[i]
            better = (value > best[k]) | math.isnan(value)
            at[k] = np.int64(i) if better else at[k]
            best[k] = value if better else best[k]

    return work


_raise_1, _raise_2, _raise = _raiser(1), _raiser(2), _raiser(0)


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


@kernel
def max_pool(x, size, stride, padding, dilation, out, index):
    """The largest number of each window, and its place in the plane; the last nan, else the first of equals."""
    depth, height, width = x.shape[1:]
    inside = 2 * out.shape[2] <= height and 2 * out.shape[3] <= width
    if size == (1, 2, 2) and stride == (1, 2, 2) and padding == (0, 0, 0) and inside:
        _pairs(x, out, index)
        return
    best, at = np.empty(out.shape[3], x.dtype), np.empty(out.shape[3], np.int64)
    firsts = np.array([_first(k, stride[2], padding[2], dilation[2]) for k in range(len(best))])
    spans = [_met(k * dilation[2] - padding[2], stride[2], width, len(best)) for k in range(size[2])]
    for p in range(x.shape[0]):
        plane = x[p].reshape(-1)
        for oz in range(out.shape[1]):
            z0 = _first(oz, stride[0], padding[0], dilation[0])
            z1 = min(oz * stride[0] - padding[0] + (size[0] - 1) * dilation[0] + 1, depth)
            for oy in range(out.shape[2]):
                y0 = _first(oy, stride[1], padding[1], dilation[1])
                y1 = min(oy * stride[1] - padding[1] + (size[1] - 1) * dilation[1] + 1, height)
                best[:] = -math.inf
                at[:] = (z0 * height + y0) * width + firsts
                for z in range(z0, z1, dilation[0]):
                    for y in range(y0, y1, dilation[1]):
                        for kx in range(size[2]):
                            low, high = spans[kx]
                            start = (z * height + y) * width + kx * dilation[2] - padding[2] + int(low) * stride[2]
                            if stride[2] == 1:
                                _raise_1(best, at, low, high, plane, u64(start), 1)
                            elif stride[2] == 2:
                                _raise_2(best, at, low, high, plane, u64(start), 2)
                            else:
                                _raise(best, at, low, high, plane, u64(start), stride[2])
                out[p, oz, oy] = best
                index[p, oz, oy] = at


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
