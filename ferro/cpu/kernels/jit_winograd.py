"""Compiled kernels of 3 × 3 convolution by Winograd's minimal products.

Note [Minimal products]
    Two neighbouring results of a convolution with three taps take four multiplications instead of six (S. Winograd,
    Arithmetic Complexity of Computations, 1980; for images: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural
    Networks, 2015, section 4.1):

        y0 = m0 + m1 + m2       m0 = (x0 - x2) w0       m1 = (x1 + x2) (w0 + w1 + w2) / 2
        y1 = m1 - m2 - m3       m3 = (x1 - x3) w2       m2 = (x2 - x1) (w0 - w1 + w2) / 2

    In both directions, a window of 4 × 4 numbers gives 2 × 2 results by 16 multiplications instead of 36. Channels are
    summed before the sums for y are formed, so each of the 16 is a product of matrices: weight (result channel,
    channel) by windows (channel, window). Nothing but halves is multiplied by, so that rounding is as small as ever.

    Four windows side by side are a piece: they see rows of 10 numbers, and fill rows of 8 results. The last piece of a
    row, and the last row of pieces, are moved back to end where the image ends, and so compute some results once more.
    A register takes a few pieces, whichever they are. Where the image is narrower than a piece, the results go through
    `narrow` first.

    An infinity or nan in a window reaches results that do not depend on it, but it reaches all that do; so does one in
    the weight. `seen` tells whether there was any, for the caller to compute otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir

from ferro.cpu.kernels.jit_blocks import ROWS, aligned, fitting, tallest
from ferro.cpu.kernels.jit_conv import fill, look, same_place, u64
from ferro.cpu.kernels.jit_rows import multiples
from ferro.cpu.kernels.jit_vectors import BYTES, Code, i64, word, written
from ferro.native.jit import device, kernel, whole_registers

_PIECE = 4  # windows of a piece
_LINE = 2 * _PIECE  # results in a row of a piece

_high = tallest()


# --- between images and windows --------------------------------------------------------------------------------------


def differences(code: Code, d: list[Any]) -> list[Any]:
    """What the weight is multiplied by: see Note [Minimal products]."""
    sub, add = code.builder.fsub, code.builder.fadd
    return [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])]


def _results(code: Code, m: list[Any]) -> list[Any]:
    """The two results."""
    sub, add = code.builder.fsub, code.builder.fadd
    return [add(m[0], add(m[1], m[2])), sub(sub(m[1], m[2]), m[3])]


def _taps(code: Code, w: list[Any]) -> list[Any]:
    """What windows are multiplied by."""
    sub, add, mul = code.builder.fsub, code.builder.fadd, code.builder.fmul
    half = ir.Constant(w[0].type, [0.5] * w[0].type.count)
    ends, middle = mul(add(w[0], w[2]), half), mul(w[1], half)
    return [w[0], add(ends, middle), sub(ends, middle), w[2]]


def both_ways(code: Code, transform: Callable, rows: list[list[Any]]) -> Iterator[tuple[int, int, Any]]:
    """(row, column, vector) of what a transform of the rows, and then of the columns, gives."""
    across = [transform(code, row) for row in rows]
    for b in range(len(across[0])):
        for a, vector in enumerate(transform(code, [row[b] for row in across])):
            yield a, b, vector


def sixteen(code: Code, source: Any, at: Any, apart: Any) -> list[list[Any]]:
    """Four rows of four vectors at distances `apart`."""
    b = code.builder
    return [[code.load(source, b.add(at, b.mul(apart, i64(4 * i + j)))) for j in range(4)] for i in range(4)]


@written(_PIECE)
def _windows(code, strip, at, pitch, places, p, target, to, apart):
    """A register of windows, those of the pieces p and following, as 16 vectors at distances `apart`.

    The rows of a piece are `pitch` apart from `places` on.
    """
    b, lanes = code.builder, code.lanes
    shifts = [b.load(b.gep(places, [b.add(p, i64(i))])) for i in range(lanes // _PIECE)]
    begins = [b.gep(strip, [b.add(at, shift)]) for shift in shifts]

    def columns(row: int) -> list[Any]:
        """A row of the windows: vectors of the first to the fourth number."""
        found = []
        for shift in (0, 2):
            where = b.add(b.mul(pitch, i64(row)), i64(shift))
            parts = [code.load(begin, where, count=_LINE) for begin in begins]
            middle = max(1, len(parts) // 2)
            first, second = code.joined(parts[:middle]), code.joined(parts[middle:] or parts)
            found += [code.shuffled(first, second, [2 * i + odd for i in range(lanes)]) for odd in (0, 1)]
        return found

    for i, j, vector in both_ways(code, differences, [columns(row) for row in range(4)]):
        code.store(vector, target, b.add(to, b.mul(apart, i64(4 * i + j))))


@written(_PIECE)
def _pieces(code, sums, at, apart, shift, target, to, pitch, places, p, seen):
    """The results of a register of windows plus `shift`, in the two rows of each piece. Adds 0 times them to `seen`."""
    b, lanes = code.builder, code.lanes
    found = {(i, j): vector for i, j, vector in both_ways(code, _results, sixteen(code, sums, at, apart))}
    added, held = code.spread(shift), code.load(seen)
    for i in range(2):
        left, right = [b.fadd(found[i, j], added) for j in range(2)]
        for one in (left, right):
            held = b.call(code.fma, [one, code.zero, held])
        for k in range(lanes // _PIECE):
            order = [n + side for n in range(k * _PIECE, (k + 1) * _PIECE) for side in (0, lanes)]
            place = b.load(b.gep(places, [b.add(p, i64(k))]))
            where = b.add(b.add(to, place), b.mul(pitch, i64(i)))
            code.store(code.shuffled(left, right, order), target, where)
    code.store(held, seen)


@written()
def _block_of_taps(code, w, at, stride, last, flip, target, to, apart):
    """The 16 factors of a block of rows of the weight, `stride` apart, for one channel; rows after `last` repeat it."""
    b = code.builder
    taps = [ir.Constant(ir.VectorType(code.number, ROWS), ir.Undefined)] * 9
    for m in range(ROWS):
        row = b.select(b.icmp_signed("<", i64(m), last), i64(m), last)
        begin = b.gep(w, [b.add(at, b.mul(row, stride))])
        taps = [b.insert_element(taps[k], b.load(b.gep(begin, [i64(k)])), word(m)) for k in range(9)]
    turned = [3, 1, 2, 0]  # where the factors of flipped taps stand
    for i, j, vector in both_ways(code, _taps, [taps[3 * k : 3 * k + 3] for k in range(3)]):
        number = b.select(flip, i64(4 * turned[i] + turned[j]), i64(4 * i + j))
        code.store(vector, target, b.add(to, b.mul(apart, number)))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def winograd_taps(w, strides, flip, first, last, packed):
    """Rows 8 × `first` to 8 × `last` of `packed`, which is (16, block of rows, column, row of the block), from the weight.

    The strides of the weight for row and column are given, and how many rows it has.
    """
    whole_registers()
    across, down, rows = strides
    columns = packed.shape[2]
    apart = packed.shape[1] * columns
    source, target = w.reshape(-1), packed.reshape(-1)
    some = columns if across > down else 16  # columns at a time, so that the weight is read in the order of memory
    for begin in range(0, columns, some):
        for row in range(8 * first, 8 * last, ROWS):
            for c in range(begin, min(begin + some, columns)):
                at, to = row * across + c * down, row * columns + c * ROWS
                _block_of_taps(source, at, across, rows - 1 - row, flip, target, to, apart)


@device
def multiply_windows(v, vat, offsets, last, packed, at, depth, blocks, nothing, sums, to, pitch, count, lanes, fresh):
    """sums[o, q] (+)= Σ_c w[o, c] v[c, q], c running to `last`, and q to `count`. `nothing` holds zeros."""
    q = 0
    while q < count:
        vectors = fitting((count - q) // lanes)
        for block in range(blocks):
            row = to + block * ROWS * pitch + q
            where = at + block * ROWS * depth
            _high(v, vat + q, offsets, 0, last, packed, where, 0, nothing, 0, sums, row, pitch, fresh, vectors)
        q += vectors * lanes


@device
def _list_pieces(tile, room, narrow, shape, read, write):
    """Where the pieces of a tile begin in the strip, and in the results of one channel; their number."""
    _, height, width = shape
    rows = tile[5] - tile[4]
    p = 0
    for n in range(tile[1] - tile[0]):
        for row in range(0, rows, 2):
            y = min(row, rows - 2)
            for column in range(0, width, _LINE):
                x = max(0, min(column, width - _LINE))
                read[p] = (n * room[1] + y) * room[2] + x
                write[p] = p * 2 * _LINE if narrow else (n * shape[0] * height + y) * width + x
                p += 1
    for k in range(p, len(read)):  # to fill the last register
        read[k], write[k] = read[p - 1], p * 2 * _LINE if narrow else write[p - 1]
    return p


@device
def _copy_narrow(source, pitch, pieces, tile, out, shape):
    """The results of a tile whose pieces are wider than the image, of which there is one in a row."""
    outputs, height, width = shape
    rows = tile[5] - tile[4]
    down = (rows + 1) // 2
    for o in range(outputs):
        for p in range(pieces):
            y = tile[4] + min(p % down * 2, rows - 2)
            at = u64(o * pitch + p * 2 * _LINE)
            to = u64((((tile[0] + p // down) * outputs + o) * height + y) * width)
            for _ in range(2):
                for k in range(u64(width)):
                    out[to + k] = source[at + k]
                at += u64(_LINE)
                to += u64(width)


@kernel
def winograd(x, shape, start, room, reach, tiles, size, packed, bias, out, out_shape, seen):
    """The tiles of a 3 × 3 convolution: see Note [Minimal products], and `correlate` in jit_conv.py for the arguments.

    `size` windows are multiplied at a time; `out_shape` is (channel, height, width).
    """
    whole_registers()
    register = BYTES // x.itemsize
    lanes = max(_PIECE, register)
    per = lanes // _PIECE
    channels, (outputs, height, width) = shape[0], out_shape
    blocks = (outputs + 7) // 8 * 8 // ROWS
    source, target = x.reshape(-1), out.reshape(-1)
    images = tiles[0, 1] - tiles[0, 0]
    plane = images * room[1] * room[2]
    strip, inside = aligned(channels * plane, x), np.empty((1, 3, 3), np.int64)
    narrow = width < _LINE
    most = images * (room[1] // 2) * ((width + _LINE - 1) // _LINE) + per
    read, write = np.empty(most, np.int64), np.empty(most, np.int64)
    kept = np.empty(outputs * most * 2 * _LINE if narrow else 0, x.dtype)
    apart, sums_apart = channels * size + lanes, blocks * ROWS * size + lanes  # not all in one set of the cache
    v, sums = aligned(16 * apart, x), aligned(16 * sums_apart, x)
    offsets, nothing = multiples(size, channels), np.zeros(ROWS, x.dtype)
    for t in range(len(tiles)):
        tile = tiles[t]
        if t == 0 or not same_place(tiles, t):
            strip[:] = 0
            look(shape, np.zeros((1, 3), np.int64), (1, 1, 1), start, reach, tile, inside)
        fill(source, shape, 0, channels, inside, (1, 1, 1), images, room, tile, strip)
        count = _list_pieces(tile, room, narrow, out_shape, read, write)
        begin = (tile[0] * outputs * height + tile[4]) * width
        for first in range(0, count, size // _PIECE):
            vectors = (min(size // _PIECE, count - first) + per - 1) // per
            for c in range(channels):
                for i in range(vectors):
                    to = c * size + i * lanes
                    _windows(strip, c * plane, room[2], read, first + i * per, v, to, apart)
            for k in range(16):
                at = k * blocks * ROWS * channels
                multiply_windows(
                    v,
                    k * apart,
                    offsets,
                    channels,
                    packed,
                    at,
                    channels,
                    blocks,
                    nothing,
                    sums,
                    k * sums_apart,
                    size,
                    vectors * lanes,
                    register,
                    True,
                )
            for o in range(outputs):
                for i in range(vectors):
                    at, p = o * size + i * lanes, first + i * per
                    if narrow:
                        to = o * most * 2 * _LINE
                        _pieces(sums, at, sums_apart, bias[o], kept, to, _LINE, write, p, seen)
                    else:
                        to = begin + o * height * width
                        _pieces(sums, at, sums_apart, bias[o], target, to, width, write, p, seen)
        if narrow:
            _copy_narrow(kept, most * 2 * _LINE, count, tile, target, out_shape)
