"""Compiled gradient of convolution by the weight: see Note [Sums of shifted images] in jit_conv.py.

Note [Channels along registers]
    In Σ_q g[o, q] x[offset[t] + q] what is summed over must not lie along a register, or each sum has to be added up over
    the register in the end. So what a tile sees is laid out as (place, channel), and the blocks are those of a sum of
    shifted images, with g for the weight, places for the taps, and channels for the places.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_blocks import ROWS, aligned, dots, fitting, tallest, turn
from ferro.cpu.kernels.jit_conv import copy_row, fill, last_place, longest, look, same_place, u64
from ferro.cpu.kernels.jit_rows import copy
from ferro.cpu.kernels.jit_vectors import BYTES, MANY
from ferro.native.jit import device, kernel

_DOT_ROWS, _DOT_TAPS = (4, 6) if MANY else (4, 2)
_PLACES = 2048  # that a block of `_dots` runs along, for the same reason
_products = dots(_DOT_ROWS, _DOT_TAPS)
_products_of_one = dots(1, _DOT_TAPS)  # where each row has its own channels
_high = tallest(packed=False)


@device
def _lay_out(source, shape, first, outputs, tile, room, pitch, target):
    """The part of g in a tile as (row, place), from channel `first` on; zeros elsewhere stand there already."""
    _, depth, height, width = shape
    count = u64(tile[7] - tile[6])
    for n in range(tile[1] - tile[0]):
        for o in range(outputs):
            for z in range(tile[3] - tile[2]):
                plane = ((tile[0] + n) * shape[0] + first + o) * depth + tile[2] + z
                at = u64((plane * height + tile[4]) * width + tile[6])
                to = u64(o * pitch + (n * room[0] + z) * room[1] * room[2])
                for _ in range(tile[5] - tile[4]):
                    copy_row(target, to, source, at, count)
                    at += u64(width)
                    to += u64(room[2])


@kernel
def correlate_taps(x, shape, phases, stride, start, images, room, reach, tiles, offsets, g, gshape, groups, total):
    """Adds Σ_q g[o, q] x[offset[t] + q] over the tiles to `total` (group, row, tap)."""
    lanes = BYTES // x.itemsize
    source, grads = x.reshape(-1), g.reshape(-1)
    channels, outputs = shape[0] // groups, total.shape[1]
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = (longest(tiles, room) + lanes - 1) // lanes * lanes
    strip, seen = aligned(channels * pitch + room[1] * room[2] + most, x), np.empty((len(phases), 3, 3), np.int64)
    high = 1 if outputs == 1 else _DOT_ROWS
    each = (outputs + high - 1) // high * high  # whole blocks
    taps = (total.shape[2] + _DOT_TAPS - 1) // _DOT_TAPS * _DOT_TAPS
    shifts = np.zeros(taps, np.int64)
    copy(offsets, shifts[: len(offsets)])
    rows = aligned(each * most, x)
    whole = each == outputs and taps == total.shape[2]
    sums = total if whole else np.zeros((groups, each, taps), x.dtype)
    for u in range(len(tiles)):
        tile = tiles[u]
        if u == 0 or not same_place(tiles, u):
            strip[:] = 0
            rows[:] = 0
            look(shape, phases, stride, start, reach, tile, seen)
        length = (last_place(tile, room) + lanes - 1) // lanes * lanes
        for group in range(groups):
            fill(source, shape, group * channels, channels, seen, stride, images, room, tile, strip)
            _lay_out(grads, gshape, group * outputs, outputs, tile, room, most, rows)
            for q in range(0, length, _PLACES):
                count = min(_PLACES, length - q)
                for o in range(0, each, high):
                    begin = o * most + q
                    for t in range(0, taps, _DOT_TAPS):
                        to = (group * each + o) * taps + t
                        if high == 1:
                            _products_of_one(rows, begin, most, strip, q, shifts, t, count, sums, to, taps)
                        else:
                            _products(rows, begin, most, strip, q, shifts, t, count, sums, to, taps)
    if not whole:
        total += sums[:, :outputs, : total.shape[2]]


# --- channels along registers ------------------------------------------------------------------------------------------

_DEEP = 256  # places at most that a block sums before the next block


@device
def lay_out(source, n, channel, channels, shape, start, room, lanes, pitch, places, strip, to):
    """Some channels, from the first one on, of the part of image n that begins at `start` and has the size `room`, as
    (place, channel). What is outside of the image is left as it is."""
    _, height, width = shape
    above, below = max(0, start[0]), min(height, start[0] + room[0])
    left, right = max(0, start[1]), min(width, start[1] + room[1])
    if below <= above or right <= left:
        return
    whole = below - above > 1  # rows are read with what is outside of the room: one place of it takes that
    first, last = (0, width) if whole else (left, right)
    k = 0
    for row in range(above, below):
        for column in range(first, last):
            inside = left <= column < right
            places[k] = (row - start[0]) * room[1] + column - start[1] if inside else room[0] * room[1]
            k += 1
    at = ((n * shape[0] + channel) * height + above) * width + first
    plane = height * width
    for c in range(0, channels, lanes):
        begin = at + c * plane
        if k < lanes:
            for m in range(min(lanes, channels - c)):
                for q in range(k):
                    strip[to + places[q] * pitch + c + m] = source[begin + m * plane + q]
        else:
            for q in range(0, k, lanes):
                q = min(q, k - lanes)
                turn(source, begin + q, plane, channels - 1 - c, strip, to + c, pitch, places, q)


@device
def _most(tiles, stride, dilation, taps):
    """The most rows and columns of a tile, and how much of an image these see."""
    rows, columns = 1, 1
    for t in range(len(tiles)):
        rows, columns = max(rows, tiles[t, 2] - tiles[t, 1]), max(columns, tiles[t, 4] - tiles[t, 3])
    down = (rows - 1) * stride[0] + (taps[0] - 1) * dilation[0] + 1
    return rows, columns, (down, (columns - 1) * stride[1] + (taps[1] - 1) * dilation[1] + 1)


@kernel
def correlate_channels(x, shape, start, stride, dilation, taps, tiles, g, g_shape, total):
    """Adds the gradient by the weight over the tiles to `total` (tap, row, channel): see Note [Channels along registers].

    A tile is (image, first row of results, last, first column, last), all columns or one row. Shapes are (channel, height,
    width). There are at least as many rows as a block has; the last block ends with the last of them.
    """
    count, high, wide = total.shape
    outputs, plane = g_shape[0], g_shape[1] * g_shape[2]
    register = BYTES // x.itemsize
    lanes = max(ROWS, register)
    rows, columns, room = _most(tiles, stride, dilation, taps)
    strip = aligned((room[0] * room[1] + 1) * wide, x)
    places = np.empty(room[0] * max(room[1], shape[2]) + lanes, np.int64)
    offsets = np.empty(rows * columns, np.int64)
    zeros = np.zeros(ROWS, x.dtype)
    source, grads, sums = x.reshape(-1), g.reshape(-1), total.reshape(-1)
    for t in range(len(tiles)):
        n, above, below, left, right = tiles[t, 0], tiles[t, 1], tiles[t, 2], tiles[t, 3], tiles[t, 4]
        if t == 0 or (tiles[t, 1:] != tiles[t - 1, 1:]).any():
            strip[:] = 0
        begin = (above * stride[0] + start[0], left * stride[1] + start[1])
        lay_out(source, n, 0, shape[0], shape, begin, room, lanes, wide, places, strip, 0)
        for i in range(below - above):
            for j in range(right - left):
                offsets[i * (right - left) + j] = (i * stride[0] * room[1] + j * stride[1]) * wide
        length = (below - above) * (right - left)
        some = (length - 1) // ((length + _DEEP - 1) // _DEEP) + 1
        gat = n * outputs * plane + above * g_shape[2] + left
        for first in range(0, length, some):
            last = min(length, first + some)
            for k in range(count):
                at = (k // taps[1] * dilation[0] * room[1] + k % taps[1] * dilation[1]) * wide
                c = 0
                while c < wide:
                    vectors, here = fitting((wide - c) // register), at + c
                    for row in range(0, high, ROWS):
                        to, o = (k * high + row) * wide + c, gat + min(row, outputs - ROWS) * plane
                        _high(
                            strip, here, offsets, first, last, grads, o, plane, zeros, 0, sums, to, wide, False, vectors
                        )
                    c += vectors * register


@kernel
def from_channels(sums, total):
    """What `correlate_channels` summed, as (row, channel, tap)."""
    rows, channels, count = total.shape
    high = (rows + ROWS - 1) // ROWS * ROWS
    for o in range(rows):
        row = o if o < high - ROWS else high - rows + o
        for k in range(count):
            for c in range(channels):
                total[o, c, k] = sums[k, row, c]
