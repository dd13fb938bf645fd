"""Compiled kernels of convolution: sums of shifted images.

Images are (image, channel, depth, height, width).

Note [Sums of shifted images]
    Let the images lie in memory with their padding, and number the places of a plane through, padding included. Then
    what a tap of the kernel meets at place q of the result lies at q plus a number that does not depend on q, and a
    convolution is result[o, q] = Σ_t w[o, t] x[offset[t] + q], t running over channels and taps: a product of matrices
    whose right factor need not be written down. The results where a row ends and the next one begins mean nothing and
    are left out when they are copied. With a stride s the padded image is sorted into s × s phases, every s-th row and
    column, one after the other; the rest is the same. The gradient by x is such a sum too, and that by w is
    Σ_q g[o, q] x[offset[t] + q], g being 0 where it means nothing.

    The innermost loops are those of jit_blocks.py: M rows of the weight times V vectors of places.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_blocks import (
    HALF_LINE,
    ROWS,
    aligned,
    by_turns,
    every_second,
    shifted,
    tallest,
)
from ferro.cpu.kernels.jit_vectors import BYTES
from ferro.native.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which keeps LLVM from vectorising

# --- blocks in registers ---------------------------------------------------------------------------------------------

_HALF = 3  # vectors of the tallest block; the others have twice as many

_four = shifted(4, 2 * _HALF)
_two = shifted(2, 2 * _HALF)
_one = shifted(1, 2 * _HALF)
_row, _end = shifted(1, 4), shifted(1, 1)
_high = tallest()


# --- sums of shifted images ------------------------------------------------------------------------------------------

# A tile is (first image, last, first depth, last, first row, last, first column, last) of the result; the ends are not
# part of it. What it sees of the images lies in a strip: for each channel and each phase, `images` times `room`.


@device
def copy_row(target, to, source, at, count):
    """Numbers in a row, eight at a time: LLVM makes one instruction of them."""
    k = u64(0)
    while k + u64(8) <= count:
        i, j = at + k, to + k
        a, b, c, d = source[i], source[i + u64(1)], source[i + u64(2)], source[i + u64(3)]
        e, f, g, h = source[i + u64(4)], source[i + u64(5)], source[i + u64(6)], source[i + u64(7)]
        target[j], target[j + u64(1)], target[j + u64(2)], target[j + u64(3)] = a, b, c, d
        target[j + u64(4)], target[j + u64(5)], target[j + u64(6)], target[j + u64(7)] = e, f, g, h
        k += u64(8)
    while k < count:
        target[to + k] = source[at + k]
        k += u64(1)


@device
def _inside(begin, count, stride, start, length):
    """Of `count` places, every stride-th from begin stride + start on: those before the image, those in it, the first."""
    first = begin * stride + start
    low = min(count, (-first + stride - 1) // stride) if first < 0 else 0
    high = min(count, (length - first + stride - 1) // stride) if first < length else low
    return low, max(0, high - low), first + low * stride


@device
def look(shape, phases, stride, start, reach, tile, seen):
    """For each phase and direction, how much of what a tile sees lies before the image and in it, and where it begins."""
    for f in range(phases.shape[0]):
        for k in range(3):
            count = tile[3 + 2 * k] - tile[2 + 2 * k] + reach[k]
            first = phases[f, k] + start[k]
            seen[f, k, 0], seen[f, k, 1], seen[f, k, 2] = _inside(
                tile[2 + 2 * k], count, stride[k], first, shape[1 + k]
            )


@device
def fill(source, shape, first, channels, seen, stride, images, room, tile, strip):
    """What a tile sees of some channels, from the first one on, as `look` has found it.

    Where there is no image, the strip holds zeros already.
    """
    _, depth, height, width = shape
    for n in range(tile[1] - tile[0]):
        for c in range(channels):  # a plane stays in the first cache while its phases are taken
            for f in range(seen.shape[0]):
                deep, planes, z = seen[f, 0, 0], seen[f, 0, 1], seen[f, 0, 2]
                down, rows, y = seen[f, 1, 0], seen[f, 1, 1], seen[f, 1, 2]
                right, count, x = seen[f, 2, 0], seen[f, 2, 1], seen[f, 2, 2]
                length = count
                if count == width == room[2] and stride[1] == stride[2] == 1:  # rows without a gap
                    rows, length = min(rows, 1), rows * width
                for i in range(planes):
                    above = ((c * seen.shape[0] + f) * images + n) * room[0] + deep + i
                    plane = ((tile[0] + n) * shape[0] + first + c) * depth + z + i * stride[0]
                    to = u64((above * room[1] + down) * room[2] + right)
                    at = u64((plane * height + y) * width + x)
                    for _ in range(rows):
                        if stride[2] == 1:
                            copy_row(strip, to, source, at, u64(length))
                        elif stride[2] == 2 and count >= HALF_LINE and at + u64(2 * count) <= u64(len(source)):
                            for k in range(0, count, HALF_LINE):
                                k = min(k, count - HALF_LINE)
                                every_second(source, at + u64(2 * k), strip, to + u64(k))
                        else:
                            for k in range(u64(count)):
                                strip[to + k] = source[at + k * u64(stride[2])]
                        to += u64(room[2])
                        at += u64(stride[1] * width)


@device
def same_place(tiles, u):
    """Whether a tile has its predecessor's shape and place in the images, and so the same padding."""
    same = tiles[u, 1] - tiles[u, 0] == tiles[u - 1, 1] - tiles[u - 1, 0]
    for k in range(2, 8):
        same = same and tiles[u, k] == tiles[u - 1, k]
    return same


@device
def last_place(tile, room):
    """The number of the last place of a tile that means something, and one."""
    planes = (tile[1] - tile[0] - 1) * room[0] + tile[3] - tile[2] - 1
    return (planes * room[1] + tile[5] - tile[4] - 1) * room[2] + tile[7] - tile[6]


@device
def _sum_run(strip, w, wat, offsets, near, bias, row, outputs, begin, end, lanes, y, yat, pitch):
    """All results from one place to another, those that mean nothing included: y is (output, place).

    The weight begins at `wat`, the bias with `row`, and y at `yat`. Up to `near` taps are summed before the next block.
    """
    taps = len(offsets)
    some = (taps - 1) // ((taps + near - 1) // near) + 1
    for q in range(begin, end, 2 * _HALF * lanes):
        for first in range(0, taps, some):
            last, fresh = min(taps, first + some), first == 0
            o = 0
            while o < outputs:
                to, at, b = yat + o * pitch + q, wat + o * taps, row + o
                rest = outputs - o
                if rest >= ROWS:
                    left = (end - q + lanes - 1) // lanes
                    for k in range(0, min(left, 2 * _HALF), _HALF):
                        here, there = q + k * lanes, to + k * lanes
                        _high(strip, here, offsets, first, last, w, at, 0, bias, b, y, there, pitch, fresh, left - k)
                    o += ROWS
                elif rest >= 4:
                    _four(strip, q, offsets, first, last, w, at, 0, bias, b, y, to, pitch, fresh)
                    o += 4
                elif rest >= 2:
                    _two(strip, q, offsets, first, last, w, at, 0, bias, b, y, to, pitch, fresh)
                    o += 2
                else:
                    _one(strip, q, offsets, first, last, w, at, 0, bias, b, y, to, pitch, fresh)
                    o += 1


@device
def _sum_tile(strip, w, wat, offsets, near, bias, row, outputs, tile, room, lanes, y, yat, pitch):
    """All results of a tile: plane by plane, if what lies between planes is worth leaving out."""
    planes, deep = (tile[1] - tile[0]) * (tile[3] - tile[2]), tile[3] - tile[2]
    length, whole = (tile[5] - tile[4] - 1) * room[2] + tile[7] - tile[6], last_place(tile, room)
    if planes * ((length + lanes - 1) // lanes) >= (whole + lanes - 1) // lanes:
        planes, length = 1, whole
    for plane in range(planes):  # what a plane's last vector writes too many, the next plane writes again
        begin = (plane // deep * room[0] + plane % deep) * room[1] * room[2]
        _sum_run(strip, w, wat, offsets, near, bias, row, outputs, begin, begin + length, lanes, y, yat, pitch)


@device
def _sum_rows(strip, w, wat, offsets, bias, channel, tile, room, lanes, out, shape):
    """All results of one channel straight to their places, row by row, each of four vectors or more."""
    taps, width = len(offsets), tile[7] - tile[6]
    for n in range(tile[1] - tile[0]):
        for z in range(tile[3] - tile[2]):
            line = ((tile[0] + n) * shape[0] + channel) * shape[1] + tile[2] + z
            to = (line * shape[2] + tile[4]) * shape[3] + tile[6]
            at = (n * room[0] + z) * room[1] * room[2]
            for _ in range(tile[5] - tile[4]):
                k = 0
                while k + 4 * lanes <= width:
                    _row(strip, at + k, offsets, 0, taps, w, wat, 0, bias, channel, out, to + k, 0, True)
                    k += 4 * lanes
                while k < width:
                    k = min(k, width - lanes)  # some are written again
                    _end(strip, at + k, offsets, 0, taps, w, wat, 0, bias, channel, out, to + k, 0, True)
                    k += lanes
                at += room[2]
                to += shape[3]


@device
def _write(y, pitch, sets, tile, room, out, first, outputs, shape, step):
    """The results of a tile that mean something to their places in `out`, from its channel `first` on: y is (set, output,
    place)."""
    _, depth, height, width = shape
    s = 0
    while s < len(sets):
        both = step[2] == 2 and s + 1 < len(sets) and sets[s, 2] == 0 and sets[s + 1, 2] == 1  # neighbours
        count = min(tile[7], (width - sets[s, 2] + step[2] - 1) // step[2]) - tile[6]
        other = min(tile[7], width // 2) - tile[6] if both else 0
        below = min(tile[5], (height - sets[s, 1] + step[1] - 1) // step[1])
        back = min(tile[3], (depth - sets[s, 0] + step[0] - 1) // step[0])
        for n in range(tile[1] - tile[0]):
            for o in range(outputs):
                for z in range(back - tile[2]):
                    plane = ((tile[0] + n) * shape[0] + first + o) * depth + sets[s, 0] + (tile[2] + z) * step[0]
                    line = plane * height + sets[s, 1] + tile[4] * step[1]
                    at = u64((s * outputs + o) * pitch + (n * room[0] + z) * room[1] * room[2])
                    to = u64(line * width + sets[s, 2] + tile[6] * step[2])
                    for _ in range(below - tile[4]):
                        if both:
                            _take_turns(out, to, y, at, at + u64(outputs * pitch), count, other)
                        elif step[2] == 1:
                            copy_row(out, to, y, at, u64(count))
                        else:
                            for k in range(u64(count)):
                                out[to + k * u64(step[2])] = y[at + k]
                        at += u64(room[2])
                        to += u64(step[1] * width)
        s += 2 if both else 1


@device
def _take_turns(target, to, source, first, second, count, other):
    """Numbers from two rows by turns; the first row may have one more."""
    done = 0
    if other >= HALF_LINE:
        done = other
        for k in range(0, other, HALF_LINE):
            k = u64(min(k, other - HALF_LINE))
            by_turns(source, first + k, second + k, target, to + u64(2) * k)
    for k in range(u64(done), u64(count)):
        target[to + u64(2) * k] = source[first + k]
        if k < u64(other):
            target[to + u64(2) * k + u64(1)] = source[second + k]


@device
def longest(tiles, room):
    """The largest number of places of a tile."""
    most = 0
    for u in range(len(tiles)):
        most = max(most, last_place(tiles[u], room))
    return most


@kernel
def correlate(x, shape, phases, stride, start, images, room, reach, tiles, offsets, sets, w, bias, groups, out, places):
    """The tiles of Σ_t w[o, t] x[...] for each set of taps t: see Note [Sums of shifted images].

    Place i of a phase is element i stride + phase + start of the image. A set is (first place of the results, from where to
    where in `offsets` it has its own, how many of them are near), and its part of `w` is made of blocks of rows, (taps, rows) each.
    `places` is (shape of out with its channels, step of the places).
    """
    lanes = BYTES // x.itemsize
    source, target = x.reshape(-1), out.reshape(-1)
    channels, outputs = shape[0] // groups, places[0][0] // groups
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = longest(tiles, room) + 2 * _HALF * lanes
    strip, seen = aligned(channels * pitch + room[1] * room[2] + most, x), np.empty((len(phases), 3, 3), np.int64)
    y = aligned(len(sets) * outputs * most, x)
    near, step = sets[0, 5], places[1]
    one = outputs == len(sets) == step[0] == step[1] == step[2] == 1 and len(offsets) <= near
    for u in range(len(tiles)):
        tile = tiles[u]
        if u == 0 or not same_place(tiles, u):
            strip[:] = 0
            look(shape, phases, stride, start, reach, tile, seen)
        for g in range(groups):
            fill(source, shape, g * channels, channels, seen, stride, images, room, tile, strip)
            row = g * outputs
            if one and tile[7] - tile[6] >= 4 * lanes:
                _sum_rows(strip, w, row * len(offsets), offsets, bias, row, tile, room, lanes, target, places[0])
                continue
            for s in range(len(sets)):
                some = offsets[sets[s, 3] : sets[s, 4]]
                at = places[0][0] * sets[s, 3] + row * len(some)
                to = s * outputs * most
                _sum_tile(strip, w, at, some, sets[s, 5], bias, row, outputs, tile, room, lanes, y, to, most)
            _write(y, most, sets, tile, room, target, row, outputs, places[0], places[1])


@kernel
def in_blocks(w, strides, chosen, columns, packed):
    """`packed` (group, block of rows, (column, tap), row of the block) from the weight, whose strides for group, row and
    column are given, and of whose taps those chosen are taken."""
    groups, rows = packed.shape[0], packed.shape[1]
    source, target = w.reshape(-1), packed.reshape(-1)
    to = u64(0)
    for g in range(groups):
        first = 0
        while first < rows:
            rest = rows - first
            size = ROWS if rest >= ROWS else 4 if rest >= 4 else 2 if rest >= 2 else 1
            for column in range(columns):
                at = g * strides[0] + first * strides[1] + column * strides[2]
                for k in range(len(chosen)):
                    for m in range(size):
                        target[to] = source[u64(at + m * strides[1] + chosen[k])]
                        to += u64(1)
            first += size
