"""Compiled kernels of convolution: patches as columns and back, and convolution of each channel by itself.

Images are (image, channel, depth, height, width). A line is one row of the result; they are numbered through its depth.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import device, kernel, reduction

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which keeps LLVM from vectorising


@device
def _copy8(target, to, source, at):
    """Eight numbers, all read before any is written: LLVM makes one instruction of them."""
    a, b, c, d = source[at], source[at + u64(1)], source[at + u64(2)], source[at + u64(3)]
    e, f, g, h = source[at + u64(4)], source[at + u64(5)], source[at + u64(6)], source[at + u64(7)]
    target[to], target[to + u64(1)], target[to + u64(2)], target[to + u64(3)] = a, b, c, d
    target[to + u64(4)], target[to + u64(5)], target[to + u64(6)], target[to + u64(7)] = e, f, g, h


# Patches are made by way of a strip: the padded rows that a run of lines sees at one depth. With a stride s in the width,
# a row of the strip is sorted into s parts, places 0, s, 2s ..., then 1, s + 1, ...; so every tap reads neighbours.


@device
def _strip(size, stride, padding, dilation, width, run):
    """Rows of the strip that a run of lines sees, and the length of a part of a row."""
    rows = (run - 1) * stride[1] + (size[1] - 1) * dilation[1] + 1
    return rows, (width + 2 * padding[2] + stride[2] - 1) // stride[2]


@device
def _phase(phase, stride, padding, width):
    """Of the part of a row with this phase: places of padding in front, the first place in the image, their number."""
    skipped = max(0, (padding - phase + stride - 1) // stride)
    first = skipped * stride + phase - padding
    return u64(skipped), u64(first), u64(max(0, (width - 1 - first) // stride + 1))


@device
def _to_strip(image, base, height, width, top, rows, inside, stride, padding, part, strip):
    """Rows from `top` on of the plane that begins at `base`, zeros where there are none."""
    for phase in range(stride):
        skipped, first, count = _phase(phase, stride, padding, width)
        for r in range(rows):
            at = u64((r * stride + phase) * part)
            for k in range(u64(part)):
                strip[at + k] = 0
            if inside and top + r >= 0 and top + r < height:
                at += skipped
                start = base + u64((top + r) * width) + first
                if stride == 1:
                    for k in range(count):
                        strip[at + k] = image[start + k]
                else:
                    for k in range(count):
                        strip[at + k] = image[start + k * u64(stride)]


@device
def _from_strip(strip, base, height, width, top, rows, stride, padding, part, image):
    """Adds the strip to the rows that `_to_strip` reads."""
    for phase in range(stride):
        skipped, first, count = _phase(phase, stride, padding, width)
        for r in range(max(0, -top), min(rows, height - top)):
            at = u64((r * stride + phase) * part) + skipped
            start = base + u64((top + r) * width) + first
            if stride == 1:
                for k in range(count):
                    image[start + k] += strip[at + k]
            else:
                for k in range(count):
                    image[start + k * u64(stride)] += strip[at + k]


@kernel
def im2col(x, size, stride, padding, dilation, shape, first_line, lines, columns):
    """columns[(channel, tap), (image, line, place)] is what the tap meets there, 0 in the padding."""
    batch, channels, depth, height, width = x.shape
    source, target = x.reshape(-1), columns.reshape(-1)
    count = u64(shape[2])
    places = u64(batch * lines) * count
    most, part = _strip(size, stride, padding, dilation, width, min(lines, shape[1]))
    strip = np.zeros(most * stride[2] * part + 8, x.dtype)  # a tap may read 7 numbers more than it needs
    for b in range(batch):
        for c in range(channels):
            line = first_line
            while line < first_line + lines:
                z, y = line // shape[1], line % shape[1]
                run = min(shape[1] - y, first_line + lines - line)
                rows, _ = _strip(size, stride, padding, dilation, width, run)
                for kz in range(size[0]):
                    iz = z * stride[0] - padding[0] + kz * dilation[0]
                    inside = iz >= 0 and iz < depth
                    base = u64(((b * channels + c) * depth + (iz if inside else 0)) * height * width)
                    top = y * stride[1] - padding[1]
                    _to_strip(source, base, height, width, top, rows, inside, stride[2], padding[2], part, strip)
                    for ky in range(size[1]):
                        for kx in range(size[2]):
                            row = ((c * size[0] + kz) * size[1] + ky) * size[2] + kx
                            to = u64(row) * places + u64(b * lines + line - first_line) * count
                            end = to + u64(run) * count
                            at = u64((ky * dilation[1] * stride[2] + kx * dilation[2] % stride[2]) * part)
                            at += u64(kx * dilation[2] // stride[2])
                            for _ in range(run):
                                k = u64(0)
                                while k < count and to + k + u64(8) <= end:  # what is too much is overwritten next
                                    _copy8(target, to + k, strip, at + k)
                                    k += u64(8)
                                while k < count:
                                    target[to + k] = strip[at + k]
                                    k += u64(1)
                                to += count
                                at += u64(stride[1] * stride[2] * part)
                line += run


@kernel
def col2im(columns, size, stride, padding, dilation, shape, first_line, lines, out):
    """Adds every number of `columns` to the place of `out` that im2col would have read it from."""
    batch, channels, depth, height, width = out.shape
    source, target = columns.reshape(-1), out.reshape(-1)
    count = u64(shape[2])
    places = u64(batch * lines) * count
    most, part = _strip(size, stride, padding, dilation, width, min(lines, shape[1]))
    strip = np.zeros(most * stride[2] * part + 8, out.dtype)
    for b in range(batch):
        for c in range(channels):
            line = first_line
            while line < first_line + lines:
                z, y = line // shape[1], line % shape[1]
                run = min(shape[1] - y, first_line + lines - line)
                rows, _ = _strip(size, stride, padding, dilation, width, run)
                for kz in range(size[0]):
                    iz = z * stride[0] - padding[0] + kz * dilation[0]
                    if iz < 0 or iz >= depth:
                        continue
                    strip[:] = 0
                    for ky in range(size[1]):
                        for kx in range(size[2]):
                            row = ((c * size[0] + kz) * size[1] + ky) * size[2] + kx
                            at = u64(row) * places + u64(b * lines + line - first_line) * count
                            to = u64((ky * dilation[1] * stride[2] + kx * dilation[2] % stride[2]) * part)
                            to += u64(kx * dilation[2] // stride[2])
                            for _ in range(run):
                                for k in range(count):
                                    strip[to + k] += source[at + k]
                                at += count
                                to += u64(stride[1] * stride[2] * part)
                    base = u64(((b * channels + c) * depth + iz) * height * width)
                    top = y * stride[1] - padding[1]
                    _from_strip(strip, base, height, width, top, rows, stride[2], padding[2], part, target)
                line += run


# --- each channel by itself (depthwise) ------------------------------------------------------------------------------

# x is (plane, depth, height, width) and w has one plane for each channel of the result; plane p of the result belongs to
# plane p // ratio of x. A whole plane of one depth is one strip.


@device
def _line9(out, to, strip, at, pitch, w, count):
    """A line of the result of 3 × 3 taps that are neighbours."""
    a, b, c = w[u64(0)], w[u64(1)], w[u64(2)]
    d, e, f = w[u64(3)], w[u64(4)], w[u64(5)]
    g, h, i = w[u64(6)], w[u64(7)], w[u64(8)]
    second, third = at + pitch, at + pitch + pitch
    one, two = u64(1), u64(2)
    for k in range(count):
        upper = a * strip[at + k] + b * strip[at + k + one] + c * strip[at + k + two]
        middle = d * strip[second + k] + e * strip[second + k + one] + f * strip[second + k + two]
        lower = g * strip[third + k] + h * strip[third + k + one] + i * strip[third + k + two]
        out[to + k] += upper + middle + lower


@kernel
def depthwise(x, w, stride, padding, dilation, out):
    """Adds the convolution of x with w to `out`."""
    ratio = out.shape[0] // x.shape[0]
    depth, height, width = x.shape[1:]
    source, target, taps = x.reshape(-1), out.reshape(-1), w.reshape(-1)
    size = w.shape[1:]
    count = u64(out.shape[3])
    rows, part = _strip(size, stride, padding, dilation, width, out.shape[2])
    pitch = u64(stride[2] * part)
    strip = np.zeros(rows * stride[2] * part, x.dtype)
    nine = size[1] == 3 and size[2] == 3 and stride[2] == 1 and dilation[1] == 1 and dilation[2] == 1
    for p in range(out.shape[0]):
        channel = (p % w.shape[0]) * size[0] * size[1] * size[2]
        for z in range(out.shape[1]):
            for kz in range(size[0]):
                iz = z * stride[0] - padding[0] + kz * dilation[0]
                if iz < 0 or iz >= depth:
                    continue
                base = u64((p // ratio * depth + iz) * height * width)
                _to_strip(source, base, height, width, -padding[1], rows, True, stride[2], padding[2], part, strip)
                for y in range(out.shape[2]):
                    to = u64((p * out.shape[1] + z) * out.shape[2] + y) * count
                    if nine:
                        _line9(target, to, strip, u64(y * stride[1]) * pitch, pitch, taps[channel + kz * 9 :], count)
                        continue
                    for ky in range(size[1]):
                        for kx in range(size[2]):
                            tap = taps[channel + (kz * size[1] + ky) * size[2] + kx]
                            at = u64(y * stride[1] + ky * dilation[1]) * pitch
                            at += u64(kx * dilation[2] % stride[2] * part + kx * dilation[2] // stride[2])
                            for k in range(count):
                                target[to + k] += tap * strip[at + k]


@kernel
def depthwise_dx(g, w, stride, padding, dilation, out):
    """The transpose of `depthwise` in x: adds to out, which has the planes of x."""
    ratio = g.shape[0] // out.shape[0]
    depth, height, width = out.shape[1:]
    source, target, taps = g.reshape(-1), out.reshape(-1), w.reshape(-1)
    size = w.shape[1:]
    count = u64(g.shape[3])
    rows, part = _strip(size, stride, padding, dilation, width, g.shape[2])
    pitch = u64(stride[2] * part)
    strip = np.zeros(rows * stride[2] * part, g.dtype)
    for p in range(g.shape[0]):
        channel = (p % w.shape[0]) * size[0] * size[1] * size[2]
        for z in range(g.shape[1]):
            for kz in range(size[0]):
                iz = z * stride[0] - padding[0] + kz * dilation[0]
                if iz < 0 or iz >= depth:
                    continue
                strip[:] = 0
                for y in range(g.shape[2]):
                    at = u64((p * g.shape[1] + z) * g.shape[2] + y) * count
                    for ky in range(size[1]):
                        for kx in range(size[2]):
                            tap = taps[channel + (kz * size[1] + ky) * size[2] + kx]
                            to = u64(y * stride[1] + ky * dilation[1]) * pitch
                            to += u64(kx * dilation[2] % stride[2] * part + kx * dilation[2] // stride[2])
                            for k in range(count):
                                strip[to + k] += tap * source[at + k]
                base = u64((p // ratio * depth + iz) * height * width)
                _from_strip(strip, base, height, width, -padding[1], rows, stride[2], padding[2], part, target)


@reduction
def _dot(a, i, b, j, count):
    total = a.dtype.type(0)
    for k in range(count):
        total += a[i + k] * b[j + k]
    return total


@reduction
def _three_dots(a, i, b, j, count):
    """The products of a with b and with b moved on by one and by two."""
    first = second = third = a.dtype.type(0)
    for k in range(count):
        first += a[i + k] * b[j + k]
        second += a[i + k] * b[j + k + u64(1)]
        third += a[i + k] * b[j + k + u64(2)]
    return first, second, third


@kernel
def depthwise_dw(g, x, stride, padding, dilation, out):
    """The transpose of `depthwise` in w: adds to out, which has a plane of float64 for each channel of g."""
    ratio = g.shape[0] // x.shape[0]
    depth, height, width = x.shape[1:]
    source, grads = x.reshape(-1), g.reshape(-1)
    size = out.shape[1:]
    count = u64(g.shape[3])
    rows, part = _strip(size, stride, padding, dilation, width, g.shape[2])
    pitch = u64(stride[2] * part)
    strip = np.zeros(rows * stride[2] * part, x.dtype)
    three = size[2] == 3 and stride[2] == 1 and dilation[2] == 1
    for p in range(g.shape[0]):
        target = out[p % out.shape[0]]
        for z in range(g.shape[1]):
            for kz in range(size[0]):
                iz = z * stride[0] - padding[0] + kz * dilation[0]
                if iz < 0 or iz >= depth:
                    continue
                base = u64((p // ratio * depth + iz) * height * width)
                _to_strip(source, base, height, width, -padding[1], rows, True, stride[2], padding[2], part, strip)
                for y in range(g.shape[2]):
                    i = u64((p * g.shape[1] + z) * g.shape[2] + y) * count
                    for ky in range(size[1]):
                        at = u64(y * stride[1] + ky * dilation[1]) * pitch
                        if three:
                            one, two, third = _three_dots(grads, i, strip, at, count)
                            target[kz, ky, 0] += one
                            target[kz, ky, 1] += two
                            target[kz, ky, 2] += third
                            continue
                        for kx in range(size[2]):
                            j = at + u64(kx * dilation[2] % stride[2] * part + kx * dilation[2] // stride[2])
                            target[kz, ky, kx] += _dot(grads, i, strip, j, count)
