"""Compiled kernels of convolution: patches as columns and back, and convolution of each channel by itself.

Images are (channel, depth, height, width). A line is one row of the result: its number is depth × height + row.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import device, kernel, reduction


@device
def _inside(tap, stride, padding, dilation, size, count):
    """For output places 0 to count - 1: the first and one past the last that see the input through this tap, and the
    input place of output place 0."""
    offset = tap * dilation - padding
    first = 0
    if offset < 0:
        first = (-offset + stride - 1) // stride
    last = (size - 1 - offset) // stride + 1 if size > offset else 0
    last = min(max(last, 0), count)
    return min(first, last), last, offset


@kernel
def im2col(x, size, stride, padding, dilation, shape, first_line, columns):
    """columns[(c, tap), (line, place)] is the input that the tap meets there, 0 in the padding; from line first_line on."""
    depth, height, width = x.shape[1:]
    lines = columns.shape[1] // shape[2]
    row = 0
    for c in range(x.shape[0]):
        for kz in range(size[0]):
            for ky in range(size[1]):
                for kx in range(size[2]):
                    first, last, offset = _inside(kx, stride[2], padding[2], dilation[2], width, shape[2])
                    for i in range(lines):
                        line = first_line + i
                        z = (line // shape[1]) * stride[0] - padding[0] + kz * dilation[0]
                        y = (line % shape[1]) * stride[1] - padding[1] + ky * dilation[1]
                        out = columns[row, i * shape[2] : (i + 1) * shape[2]]
                        if z < 0 or z >= depth or y < 0 or y >= height or first >= last:
                            out[:] = 0
                            continue
                        out[:first] = 0
                        out[last:] = 0
                        inner = out[first:last]
                        start = first * stride[2] + offset
                        if stride[2] == 1:
                            source = x[c, z, y, start : start + inner.size]
                            for k in range(inner.size):
                                inner[k] = source[k]
                        else:
                            source = x[c, z, y, start:]
                            step = np.uint64(stride[2])
                            for k in range(inner.size):
                                inner[k] = source[np.uint64(k) * step]
                    row += 1


@kernel
def col2im(columns, size, stride, padding, dilation, shape, first_line, out):
    """Adds every number of `columns` to the place of `out` that im2col would have read it from."""
    depth, height, width = out.shape[1:]
    lines = columns.shape[1] // shape[2]
    row = 0
    for c in range(out.shape[0]):
        for kz in range(size[0]):
            for ky in range(size[1]):
                for kx in range(size[2]):
                    first, last, offset = _inside(kx, stride[2], padding[2], dilation[2], width, shape[2])
                    for i in range(lines):
                        line = first_line + i
                        z = (line // shape[1]) * stride[0] - padding[0] + kz * dilation[0]
                        y = (line % shape[1]) * stride[1] - padding[1] + ky * dilation[1]
                        if z < 0 or z >= depth or y < 0 or y >= height or first >= last:
                            continue
                        inner = columns[row, i * shape[2] + first : i * shape[2] + last]
                        start = first * stride[2] + offset
                        if stride[2] == 1:
                            target = out[c, z, y, start : start + inner.size]
                            for k in range(inner.size):
                                target[k] += inner[k]
                        else:
                            target = out[c, z, y, start:]
                            step = np.uint64(stride[2])
                            for k in range(inner.size):
                                target[np.uint64(k) * step] += inner[k]
                    row += 1


# --- each channel by itself (depthwise) ------------------------------------------------------------------------------

# Planes are (depth, height, width); w is the (depth, height, width) of the taps.


@kernel
def depthwise(x, w, stride, padding, dilation, out):
    """out = x * w for each of the planes; x[p // (planes of out / planes of x)] belongs to out[p]."""
    ratio = out.shape[0] // x.shape[0]
    depth, height, width = x.shape[1:]
    for p in range(out.shape[0]):
        for z in range(out.shape[1]):
            for y in range(out.shape[2]):
                line = out[p, z, y]
                line[:] = 0
                for kz in range(w.shape[1]):
                    iz = z * stride[0] - padding[0] + kz * dilation[0]
                    for ky in range(w.shape[2]):
                        iy = y * stride[1] - padding[1] + ky * dilation[1]
                        if iz < 0 or iz >= depth or iy < 0 or iy >= height:
                            continue
                        for kx in range(w.shape[3]):
                            first, last, offset = _inside(kx, stride[2], padding[2], dilation[2], width, out.shape[3])
                            inner = line[first:last]
                            tap = w[p % w.shape[0], kz, ky, kx]
                            source = x[p // ratio, iz, iy, first * stride[2] + offset :]
                            if stride[2] == 1:
                                for k in range(inner.size):
                                    inner[k] += tap * source[k]
                            else:
                                step = np.uint64(stride[2])
                                for k in range(inner.size):
                                    inner[k] += tap * source[np.uint64(k) * step]


@kernel
def depthwise_dx(g, w, stride, padding, dilation, out):
    """The transpose of `depthwise` in x: adds to out, which has the planes of x."""
    ratio = g.shape[0] // out.shape[0]
    depth, height, width = out.shape[1:]
    for p in range(g.shape[0]):
        for z in range(g.shape[1]):
            for y in range(g.shape[2]):
                line = g[p, z, y]
                for kz in range(w.shape[1]):
                    iz = z * stride[0] - padding[0] + kz * dilation[0]
                    for ky in range(w.shape[2]):
                        iy = y * stride[1] - padding[1] + ky * dilation[1]
                        if iz < 0 or iz >= depth or iy < 0 or iy >= height:
                            continue
                        for kx in range(w.shape[3]):
                            first, last, offset = _inside(kx, stride[2], padding[2], dilation[2], width, g.shape[3])
                            inner = line[first:last]
                            tap = w[p % w.shape[0], kz, ky, kx]
                            target = out[p // ratio, iz, iy, first * stride[2] + offset :]
                            if stride[2] == 1:
                                for k in range(inner.size):
                                    target[k] += tap * inner[k]
                            else:
                                step = np.uint64(stride[2])
                                for k in range(inner.size):
                                    target[np.uint64(k) * step] += tap * inner[k]


@reduction
def _dot(a, b, step):
    total = a.dtype.type(0)
    if step == 1:
        for k in range(a.size):
            total += a[k] * b[k]
    else:
        for k in range(a.size):
            total += a[k] * b[np.uint64(k) * np.uint64(step)]
    return total


@kernel
def depthwise_dw(g, x, stride, padding, dilation, out):
    """The transpose of `depthwise` in w: adds to out, which has one plane for each of the channels of g."""
    ratio = g.shape[0] // x.shape[0]
    depth, height, width = x.shape[1:]
    for p in range(g.shape[0]):
        for kz in range(out.shape[1]):
            for ky in range(out.shape[2]):
                for kx in range(out.shape[3]):
                    first, last, offset = _inside(kx, stride[2], padding[2], dilation[2], width, g.shape[3])
                    total = np.float64(0)
                    for z in range(g.shape[1]):
                        iz = z * stride[0] - padding[0] + kz * dilation[0]
                        if iz < 0 or iz >= depth:
                            continue
                        for y in range(g.shape[2]):
                            iy = y * stride[1] - padding[1] + ky * dilation[1]
                            if iy < 0 or iy >= height:
                                continue
                            source = x[p // ratio, iz, iy, first * stride[2] + offset :]
                            total += _dot(g[p, z, y, first:last], source, stride[2])
                    out[p % out.shape[0], kz, ky, kx] += out.dtype.type(total)
