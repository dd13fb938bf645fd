"""Compiled kernels of max pooling. Images are (plane, depth, height, width)."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which costs time


@device
def _window(place, size, stride, padding, dilation, length):
    """The first input place of a window that is inside, and one past the last."""
    start = place * stride - padding
    stop = min(start + (size - 1) * dilation + 1, length)
    if start < 0:
        start += (-start + dilation - 1) // dilation * dilation
    return start, stop


@kernel
def max_pool(x, size, stride, padding, dilation, out, index):
    """The largest number of each window, and its place in the plane; the last nan, else the first of equals."""
    depth, height, width = x.shape[1:]
    for p in range(x.shape[0]):
        plane = x[p].reshape(-1)
        for oz in range(out.shape[1]):
            z0, z1 = _window(oz, size[0], stride[0], padding[0], dilation[0], depth)
            for oy in range(out.shape[2]):
                y0, y1 = _window(oy, size[1], stride[1], padding[1], dilation[1], height)
                for ox in range(out.shape[3]):
                    x0, x1 = _window(ox, size[2], stride[2], padding[2], dilation[2], width)
                    at = (z0 * height + y0) * width + x0
                    best = plane[u64(at)]
                    for z in range(z0, z1, dilation[0]):
                        for y in range(y0, y1, dilation[1]):
                            line = (z * height + y) * width
                            for k in range(line + x0, line + x1, dilation[2]):
                                value = plane[u64(k)]
                                if value > best or math.isnan(value):
                                    best = value
                                    at = k
                    out[p, oz, oy, ox] = best
                    index[p, oz, oy, ox] = at


@kernel
def max_pool_vjp(g, index, out):
    """Adds each number of g to the place of `out` that it came from; all are (plane, place)."""
    for p in range(g.shape[0]):
        target = out[p]
        for k in range(g.shape[1]):
            target[u64(index[p, k])] += g[p, k]
