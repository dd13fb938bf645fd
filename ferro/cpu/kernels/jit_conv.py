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
    BYTES,
    HALF_LINE,
    MANY,
    ROWS,
    aligned,
    by_turns,
    dots,
    every_second,
    move,
    prefetch,
    shifted,
    turn,
)
from ferro.native.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which keeps LLVM from vectorising

# --- blocks in registers ---------------------------------------------------------------------------------------------

_HALF = 3  # vectors of the tallest block; the others have twice as many
_DOT_ROWS, _DOT_TAPS = (4, 6) if MANY else (4, 2)
_TAPS = 512  # that a block sums before the next block: their images stay in the first cache
_ROWS_APART = 128  # rows of an image, from which on what a block needs of them is copied into one place
_NEAR = 1 << 18  # numbers of an image and its result that stay in the second cache
_PLACES = 2048  # that a block of `_dots` runs along, for the same reason

_three, _pair, _single = [shifted(ROWS, vectors) for vectors in (3, 2, 1)]
_four = shifted(4, 2 * _HALF)
_two = shifted(2, 2 * _HALF)
_one = shifted(1, 2 * _HALF)
_three_rows, _pair_rows, _single_rows = [shifted(ROWS, vectors, packed=False) for vectors in (3, 2, 1)]
_products = dots(_DOT_ROWS, _DOT_TAPS)
_products_of_one = dots(1, _DOT_TAPS)  # where each row has its own channels


# --- sums of shifted images ------------------------------------------------------------------------------------------

# A tile is (first image, last, first depth, last, first row, last, first column, last) of the result; the ends are not
# part of it. What it sees of the images lies in a strip: for each channel and each phase, `images` times `room`.


@device
def _copy_row(target, to, source, at, count):
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
        for f in range(seen.shape[0]):
            deep, planes, z = seen[f, 0, 0], seen[f, 0, 1], seen[f, 0, 2]
            down, rows, y = seen[f, 1, 0], seen[f, 1, 1], seen[f, 1, 2]
            right, count, x = seen[f, 2, 0], seen[f, 2, 1], seen[f, 2, 2]
            length = count
            if count == width == room[2] and stride[1] == stride[2] == 1:  # rows without a gap
                rows, length = min(rows, 1), rows * width
            for c in range(channels):
                for i in range(planes):
                    above = ((c * seen.shape[0] + f) * images + n) * room[0] + deep + i
                    plane = ((tile[0] + n) * shape[0] + first + c) * depth + z + i * stride[0]
                    to = u64((above * room[1] + down) * room[2] + right)
                    at = u64((plane * height + y) * width + x)
                    for _ in range(rows):
                        if stride[2] == 1:
                            _copy_row(strip, to, source, at, u64(length))
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
def _length(tile, room):
    """The number of the last place of a tile that means something, and one."""
    planes = (tile[1] - tile[0] - 1) * room[0] + tile[3] - tile[2] - 1
    return (planes * room[1] + tile[5] - tile[4] - 1) * room[2] + tile[7] - tile[6]


@device
def fitting(left):
    """How many of the vectors that are left a block takes: a block of one is slower than two of two."""
    return min(left, 2 if left == 4 else 3)


@device
def _sum_run(strip, w, wat, offsets, bias, row, outputs, begin, end, lanes, y, yat, pitch):
    """All results from one place to another, those that mean nothing included: y is (output, place).

    The weight begins at `wat`, the bias with `row`, and y at `yat`.
    """
    taps = len(offsets)
    some = (taps - 1) // ((taps + _TAPS - 1) // _TAPS) + 1
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
                        _high(
                            strip,
                            q + k * lanes,
                            offsets,
                            first,
                            last,
                            w,
                            at,
                            bias,
                            b,
                            y,
                            to + k * lanes,
                            pitch,
                            fresh,
                            left - k,
                        )
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
def _high(strip, at, offsets, first, last, w, wat, bias, row, y, to, ypitch, fresh, vectors):
    """The tallest block, with as many vectors as are wanted."""
    if vectors >= 3:
        _three(strip, at, offsets, first, last, w, wat, 0, bias, row, y, to, ypitch, fresh)
    elif vectors == 2:
        _pair(strip, at, offsets, first, last, w, wat, 0, bias, row, y, to, ypitch, fresh)
    else:
        _single(strip, at, offsets, first, last, w, wat, 0, bias, row, y, to, ypitch, fresh)


@device
def _sum_tile(strip, w, wat, offsets, bias, row, outputs, tile, room, lanes, y, yat, pitch):
    """All results of a tile: plane by plane, if what lies between planes is worth leaving out."""
    planes, deep = (tile[1] - tile[0]) * (tile[3] - tile[2]), tile[3] - tile[2]
    length, whole = (tile[5] - tile[4] - 1) * room[2] + tile[7] - tile[6], _length(tile, room)
    if planes * ((length + lanes - 1) // lanes) >= (whole + lanes - 1) // lanes:
        planes, length = 1, whole
    for plane in range(planes):  # what a plane's last vector writes too many, the next plane writes again
        begin = (plane // deep * room[0] + plane % deep) * room[1] * room[2]
        _sum_run(strip, w, wat, offsets, bias, row, outputs, begin, begin + length, lanes, y, yat, pitch)


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
                            _copy_row(out, to, y, at, u64(count))
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
def _longest(tiles, room):
    """The largest number of places of a tile."""
    most = 0
    for u in range(len(tiles)):
        most = max(most, _length(tiles[u], room))
    return most


@kernel
def correlate(x, shape, phases, stride, start, images, room, reach, tiles, offsets, sets, w, bias, groups, out, places):
    """The tiles of Σ_t w[o, t] x[...] for each set of taps t: see Note [Sums of shifted images].

    Place i of a phase is element i stride + phase + start of the image. A set is (first place of the results, from where to
    where in `offsets` it has its own), and its part of `w` is made of blocks of rows, (taps, rows) each. `places` is (shape
    of out with its channels, step of the places).
    """
    lanes = BYTES // x.itemsize
    source, target = x.reshape(-1), out.reshape(-1)
    channels, outputs = shape[0] // groups, places[0][0] // groups
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = _longest(tiles, room) + 2 * _HALF * lanes
    strip, seen = aligned(channels * pitch + room[1] * room[2] + most, x), np.empty((len(phases), 3, 3), np.int64)
    y = aligned(len(sets) * outputs * most, x)
    for u in range(len(tiles)):
        tile = tiles[u]
        if u == 0 or not same_place(tiles, u):
            strip[:] = 0
            look(shape, phases, stride, start, reach, tile, seen)
        for g in range(groups):
            fill(source, shape, g * channels, channels, seen, stride, images, room, tile, strip)
            row = g * outputs
            for s in range(len(sets)):
                some = offsets[sets[s, 3] : sets[s, 4]]
                at = places[0][0] * sets[s, 3] + row * len(some)
                to = s * outputs * most
                _sum_tile(strip, w, at, some, bias, row, outputs, tile, room, lanes, y, to, most)
            _write(y, most, sets, tile, room, target, row, outputs, places[0], places[1])


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
                    _copy_row(target, to, source, at, count)
                    at += u64(width)
                    to += u64(room[2])


@kernel
def correlate_taps(x, shape, phases, stride, start, images, room, reach, tiles, offsets, g, gshape, groups, total):
    """Adds Σ_q g[o, q] x[offset[t] + q] over the tiles to `total` (group, row, tap)."""
    lanes = BYTES // x.itemsize
    source, grads = x.reshape(-1), g.reshape(-1)
    channels, outputs = shape[0] // groups, total.shape[1]
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = (_longest(tiles, room) + lanes - 1) // lanes * lanes
    strip, seen = aligned(channels * pitch + room[1] * room[2] + most, x), np.empty((len(phases), 3, 3), np.int64)
    high = 1 if outputs == 1 else _DOT_ROWS
    each = (outputs + high - 1) // high * high  # whole blocks
    taps = (total.shape[2] + _DOT_TAPS - 1) // _DOT_TAPS * _DOT_TAPS
    shifts = np.zeros(taps, np.int64)
    shifts[: len(offsets)] = offsets
    rows = aligned(each * most, x)
    whole = each == outputs and taps == total.shape[2]
    sums = total if whole else np.zeros((groups, each, taps), x.dtype)
    for u in range(len(tiles)):
        tile = tiles[u]
        if u == 0 or not same_place(tiles, u):
            strip[:] = 0
            rows[:] = 0
            look(shape, phases, stride, start, reach, tile, seen)
        length = (_length(tile, room) + lanes - 1) // lanes * lanes
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


# --- windows of one place --------------------------------------------------------------------------------------------


@kernel
def in_equal_blocks(w, strides, packed):
    """`packed` (group, row, column) as blocks of rows, (column, row of the block) each, from the weight, whose strides for
    group, row and column are given. The last block ends with the last of strides[3] rows: some may stand there twice."""
    source, target = w.reshape(-1), packed.reshape(-1)
    groups, rows, columns = packed.shape
    to = u64(0)
    for g in range(groups):
        for block in range(rows // ROWS):
            at = g * strides[0] + min(block * ROWS, strides[3] - ROWS) * strides[1]
            for c in range(columns):
                for m in range(ROWS):
                    target[to] = source[u64(at + c * strides[2] + m * strides[1])]
                    to += u64(1)


@kernel
def multiply_images(w, x, bias, first, last, parts, out):
    """out[n, g] = w[g] x[n, g] + bias[g] for images as matrices (channel, place), each cut in so many parts, of which
    those from `first` to `last` are computed. `w` comes from `in_equal_blocks`, and results have at least its rows."""
    _, groups, columns, places = x.shape
    rows = out.shape[2]
    lanes = BYTES // x.itemsize
    step, blocks = 3 * lanes, w.shape[1] // ROWS
    far = groups * (columns + rows) * places > _NEAR
    source, target, packed, shift = x.reshape(-1), out.reshape(-1), w.reshape(-1), bias.reshape(-1)
    offsets, near = np.arange(columns) * places, np.arange(columns) * step
    panel = aligned(columns * step, x)
    for u in range(first, last):
        n, part = u // parts, u % parts
        begin, end = places * part // parts // step * step, places * (part + 1) // parts // step * step
        q = begin
        while q < (places if part == parts - 1 else end):
            vectors = min(3, (places - q) // lanes)
            q = q if vectors > 0 else places - lanes  # some places once more: all are summed in one go
            for g in range(groups):
                at = (n * groups + g) * columns * places + q
                copied = vectors == 3 and columns >= _ROWS_APART
                if copied:
                    for c in range(columns):
                        move(source, at + c * places, panel, c * step)
                for block in range(blocks):
                    o = min(block * ROWS, rows - ROWS)
                    wat = (g * w.shape[1] + block * ROWS) * columns
                    to, row = ((n * groups + g) * rows + o) * places + q, g * rows + o
                    for k in range(step, 2 * step, 64 // x.itemsize):  # of the next block
                        for c in range(block * columns // blocks, (block + 1) * columns // blocks):
                            prefetch(source, at + c * places + k)
                        for m in range(ROWS if far else 0):
                            prefetch(target, to + m * places + k)
                    if copied:
                        _three(panel, 0, near, 0, columns, packed, wat, 0, shift, row, target, to, places, True)
                    else:
                        _high(
                            source, at, offsets, 0, columns, packed, wat, shift, row, target, to, places, True, vectors
                        )
            q += max(vectors, 1) * lanes


# --- the gradient by the weight, of many channels --------------------------------------------------------------------

# Note [Channels along registers]
#   In Σ_q g[o, q] x[offset[t] + q] what is summed over must not lie along a register, or each sum has to be added up over
#   the register in the end. So what a tile sees is laid out as (place, channel), and the blocks are those of a sum of
#   shifted images, with g for the weight, places for the taps, and channels for the places.

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
def _add_block(strip, at, offsets, first, last, g, gat, plane, nothing, sums, to, wide, vectors):
    if vectors >= 3:
        _three_rows(strip, at, offsets, first, last, g, gat, plane, nothing, 0, sums, to, wide, False)
    elif vectors == 2:
        _pair_rows(strip, at, offsets, first, last, g, gat, plane, nothing, 0, sums, to, wide, False)
    else:
        _single_rows(strip, at, offsets, first, last, g, gat, plane, nothing, 0, sums, to, wide, False)


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
    rows, columns = 1, 1
    for t in range(len(tiles)):
        rows, columns = max(rows, tiles[t, 2] - tiles[t, 1]), max(columns, tiles[t, 4] - tiles[t, 3])
    room = (
        (rows - 1) * stride[0] + (taps[0] - 1) * dilation[0] + 1,
        (columns - 1) * stride[1] + (taps[1] - 1) * dilation[1] + 1,
    )
    strip = aligned((room[0] * room[1] + 1) * wide, x)
    places = np.empty(room[0] * max(room[1], shape[2]) + lanes, np.int64)
    offsets = np.empty(rows * columns, np.int64)
    nothing = np.zeros(ROWS, x.dtype)
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
                    vectors = fitting((wide - c) // register)
                    for row in range(0, high, ROWS):
                        to, o = (k * high + row) * wide + c, min(row, outputs - ROWS)
                        _add_block(
                            strip,
                            at + c,
                            offsets,
                            first,
                            last,
                            grads,
                            gat + o * plane,
                            plane,
                            nothing,
                            sums,
                            to,
                            wide,
                            vectors,
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
