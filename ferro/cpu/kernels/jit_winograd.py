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

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ferro.cpu.kernels.jit_blocks import BYTES, ROWS, Code, aligned, i64, in_llvm, shifted
from ferro.cpu.kernels.jit_conv import fill, fitting, lay_out, look, same_place, u64
from ferro.native.jit import device, kernel, whole_registers

_PIECE = 4  # windows of a piece
_LINE = 2 * _PIECE  # results in a row of a piece

_three, _two, _one = [shifted(ROWS, vectors) for vectors in (3, 2, 1)]


# --- between images and windows --------------------------------------------------------------------------------------


def _differences(code: Code, d: list[Any]) -> list[Any]:
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


@in_llvm
def _windows(_typing, strip, at, pitch, places, p, target, to, apart):
    """A register of windows, those of the pieces p and following, as 16 vectors at distances `apart`.

    The rows of a piece are `pitch` apart from `places` on.
    """
    n = types.intp
    signature = types.void(strip, n, n, places, n, target, n, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], _PIECE)
        source, table, out = [code.data(signature.args[i], args[i]) for i in (0, 3, 5)]
        at, pitch, p, to, apart = [args[i] for i in (1, 2, 4, 6, 7)]
        lanes = code.lanes
        shifts = [builder.load(builder.gep(table, [builder.add(p, i64(i))])) for i in range(lanes // _PIECE)]
        begins = [builder.gep(source, [builder.add(at, shift)]) for shift in shifts]

        def columns(a: int) -> list[Any]:
            """Row a of the windows: vectors of the first to the fourth number."""
            found = []
            for shift in (0, 2):
                where = builder.add(builder.mul(pitch, i64(a)), i64(shift))
                parts = [code.load(begin, where, count=_LINE) for begin in begins]
                middle = max(1, len(parts) // 2)
                first, second = code.joined(parts[:middle]), code.joined(parts[middle:] or parts)
                found += [code.shuffled(first, second, [2 * i + odd for i in range(lanes)]) for odd in (0, 1)]
            return found

        across = [_differences(code, columns(a)) for a in range(4)]
        for b in range(4):
            for a, vector in enumerate(_differences(code, [row[b] for row in across])):
                code.store(vector, out, builder.add(to, builder.mul(apart, i64(4 * a + b))))
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def _pieces(_typing, sums, at, apart, shift, target, to, pitch, places, p, seen):
    """The results of a register of windows plus `shift`, in the two rows of each piece. Adds 0 times them to `seen`."""
    n = types.intp
    signature = types.void(sums, n, n, sums.dtype, target, n, n, places, n, seen)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], _PIECE)
        kinds = signature.args
        source, out, table, flags = [code.data(kinds[i], args[i]) for i in (0, 4, 7, 9)]
        at, apart, to, pitch, p = [args[i] for i in (1, 2, 5, 6, 8)]
        lanes = code.lanes
        across = []
        for a in range(4):
            met = [code.load(source, builder.add(at, builder.mul(apart, i64(4 * a + b)))) for b in range(4)]
            across.append(_results(code, met))
        columns = [_results(code, [row[b] for row in across]) for b in range(2)]
        added = code.spread(args[3])
        held = code.load(flags)
        for a in range(2):
            left, right = [builder.fadd(column[a], added) for column in columns]
            for one in (left, right):
                held = builder.call(code.fma, [one, code.zero, held])
            for i in range(lanes // _PIECE):
                order = [k + side for k in range(i * _PIECE, (i + 1) * _PIECE) for side in (0, lanes)]
                place = builder.load(builder.gep(table, [builder.add(p, i64(i))]))
                where = builder.add(builder.add(to, place), builder.mul(pitch, i64(a)))
                code.store(code.shuffled(left, right, order), out, where)
        code.store(held, flags)
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def _block_of_taps(_typing, w, at, stride, last, flip, target, to, apart):
    """The 16 factors of a block of rows of the weight, `stride` apart, for one channel; rows after `last` repeat it."""
    n = types.intp
    signature = types.void(w, n, n, n, types.boolean, target, n, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0])
        source, out = code.data(signature.args[0], args[0]), code.data(signature.args[5], args[5])
        at, stride, last, flip, to, apart = [args[i] for i in (1, 2, 3, 4, 6, 7)]
        begins = []
        for m in range(ROWS):
            row = builder.select(builder.icmp_signed("<", i64(m), last), i64(m), last)
            begins.append(builder.gep(source, [builder.add(at, builder.mul(row, stride))]))
        kind = ir.VectorType(code.number, ROWS)
        taps = [ir.Constant(kind, ir.Undefined)] * 9
        for m, begin in enumerate(begins):
            for k in range(9):
                number = builder.load(builder.gep(begin, [i64(k)]))
                taps[k] = builder.insert_element(taps[k], number, ir.IntType(32)(m))
        across = [_taps(code, taps[3 * a : 3 * a + 3]) for a in range(3)]
        turned = [3, 1, 2, 0]  # where the factors of flipped taps stand
        for b in range(4):
            for a, vector in enumerate(_taps(code, [row[b] for row in across])):
                number = builder.select(flip, i64(4 * turned[a] + turned[b]), i64(4 * a + b))
                code.store(vector, out, builder.add(to, builder.mul(apart, number)))
        return context.get_dummy_value()

    return signature, generate


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
def _multiply(v, vat, offsets, last, packed, at, depth, blocks, nothing, sums, to, pitch, count, lanes, fresh):
    """sums[o, q] (+)= Σ_c w[o, c] v[c, q], c running to `last`, and q to `count`. `nothing` holds zeros."""
    q = 0
    while q < count:
        vectors = fitting((count - q) // lanes)
        for block in range(blocks):
            row = to + block * ROWS * pitch + q
            where = at + block * ROWS * depth
            if vectors == 3:
                _three(v, vat + q, offsets, 0, last, packed, where, 0, nothing, 0, sums, row, pitch, fresh)
            elif vectors == 2:
                _two(v, vat + q, offsets, 0, last, packed, where, 0, nothing, 0, sums, row, pitch, fresh)
            else:
                _one(v, vat + q, offsets, 0, last, packed, where, 0, nothing, 0, sums, row, pitch, fresh)
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
    offsets, nothing = np.arange(channels) * size, np.zeros(ROWS, x.dtype)
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
                _multiply(
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


# --- the gradient by the weight --------------------------------------------------------------------------------------

# Note [Minimal products of a gradient]
#   The products of the note above are a bilinear form of images and taps, whose sum with a cotangent has the gradient by
#   the taps in it: windows of images as above, times windows of the cotangent, (g0, g0 + g1, g0 - g1, -g1), summed over
#   all windows; then what was done to the taps, transposed. What is summed over must not lie along a register, so here
#   channels do: tiles are laid out as (place, channel).


def _spread(code: Code, g: list[Any]) -> list[Any]:
    """A window of the cotangent."""
    return [g[0], code.builder.fadd(*g), code.builder.fsub(*g), code.builder.fneg(g[1])]


def _gathered(code: Code, u: list[Any]) -> list[Any]:
    """`_taps` transposed."""
    sub, add, mul = code.builder.fsub, code.builder.fadd, code.builder.fmul
    half = ir.Constant(u[0].type, [0.5] * u[0].type.count)
    both = mul(add(u[1], u[2]), half)
    return [add(u[0], both), mul(sub(u[1], u[2]), half), add(both, u[3])]


@in_llvm
def _window_of_images(_typing, strip, at, down, across, target, to, apart):
    """A window of a register of channels, as 16 vectors."""
    n = types.intp
    signature = types.void(strip, n, n, n, target, n, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], ROWS)
        source, out = code.data(signature.args[0], args[0]), code.data(signature.args[4], args[4])
        at, down, across, to, apart = [args[i] for i in (1, 2, 3, 5, 6)]

        def number(a: int, b: int) -> Any:
            return code.load(source, at, builder.mul(down, i64(a)), builder.mul(across, i64(b)))

        rows = [_differences(code, [number(a, b) for b in range(4)]) for a in range(4)]
        for b in range(4):
            for a, vector in enumerate(_differences(code, [row[b] for row in rows])):
                code.store(vector, out, builder.add(to, builder.mul(apart, i64(4 * a + b))))
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def _window_of_cotangents(_typing, strip, at, down, across, target, to, depth, apart):
    """A window of a register of results' channels, as 16 vectors of so many blocks, which are `depth` apart."""
    n = types.intp
    signature = types.void(strip, n, n, n, target, n, n, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], ROWS)
        source, out = code.data(signature.args[0], args[0]), code.data(signature.args[4], args[4])
        at, down, across, to, depth, apart = [args[i] for i in (1, 2, 3, 5, 6, 7)]
        given = [[code.load(source, at), code.load(source, at, across)]]
        given.append([code.load(source, at, down), code.load(source, at, down, across)])
        rows = [_spread(code, line) for line in given]
        for b in range(4):
            for a, vector in enumerate(_spread(code, [row[b] for row in rows])):
                for i in range(code.lanes // ROWS):
                    part = code.shuffled(vector, vector, list(range(i * ROWS, (i + 1) * ROWS)))
                    where = builder.add(builder.mul(apart, i64(4 * a + b)), builder.mul(depth, i64(i)))
                    code.store(part, out, to, where)
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def _nine(_typing, sums, at, apart, target, to, pitch):
    """Nine vectors of taps, `pitch` apart, from 16."""
    n = types.intp
    signature = types.void(sums, n, n, target, n, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], ROWS)
        source, out = code.data(signature.args[0], args[0]), code.data(signature.args[3], args[3])
        at, apart, to, pitch = [args[i] for i in (1, 2, 4, 5)]
        rows = []
        for a in range(4):
            met = [code.load(source, builder.add(at, builder.mul(apart, i64(4 * a + b)))) for b in range(4)]
            rows.append(_gathered(code, met))
        for b in range(3):
            for a, vector in enumerate(_gathered(code, [row[b] for row in rows])):
                code.store(vector, out, builder.add(to, builder.mul(pitch, i64(3 * a + b))))
        return context.get_dummy_value()

    return signature, generate


@kernel
def winograd_by_taps(x, shape, start, g, g_shape, row, tiles, size, total):
    """Adds the gradient by the weight over the tiles to `total`, whose first row is `row` of the weight: see
    Note [Minimal products of a gradient].

    `size` windows are multiplied at a time; the shapes are (channel, height, width).
    """
    whole_registers()
    register = BYTES // x.itemsize
    lanes = max(ROWS, register)
    channels, outputs = shape[0], total.shape[0]
    wide, high = (channels + lanes - 1) // lanes * lanes, (outputs + lanes - 1) // lanes * lanes
    images, rows = tiles[0, 1] - tiles[0, 0], 0
    for t in range(len(tiles)):
        rows = max(rows, (tiles[t, 5] - tiles[t, 4] + 1) // 2 * 2)
    columns = (g_shape[2] + 1) // 2 * 2
    room = (rows + 2, columns + 2)
    strip, g_strip = aligned(images * room[0] * room[1] * wide, x), aligned(images * rows * columns * high, x)
    places = np.empty(max(shape[1], rows + 2) * max(shape[2], columns + 2) + lanes, np.int64)
    apart, g_apart, sums_apart = size * wide + lanes, size * high + lanes, high * wide + lanes
    v, packed, sums = aligned(16 * apart, x), aligned(16 * g_apart, x), aligned(16 * sums_apart, x)
    offsets, nothing = np.arange(size) * wide, np.zeros(ROWS, x.dtype)
    source, grads = x.reshape(-1), g.reshape(-1)
    for t in range(len(tiles)):
        tile = tiles[t]
        if t == 0 or not same_place(tiles, t):
            strip[:] = 0
            g_strip[:] = 0
        for n in range(tile[0], tile[1]):
            at = (n - tile[0]) * room[0] * room[1] * wide
            lay_out(source, n, 0, channels, shape, (tile[4] + start[0], start[1]), room, lanes, wide, places, strip, at)
            at = (n - tile[0]) * rows * columns * high
            some = (tile[5] - tile[4], columns)
            lay_out(grads, n, row, outputs, g_shape, (tile[4], 0), some, lanes, high, places, g_strip, at)
        down, across = (tile[5] - tile[4] + 1) // 2, columns // 2
        count = (tile[1] - tile[0]) * down * across
        for first in range(0, count, size):
            some = min(size, count - first)
            for i in range(some):
                p = first + i
                n, y, z = p // across // down, p // across % down * 2, p % across * 2
                at = ((n * room[0] + y) * room[1] + z) * wide
                for c in range(0, wide, lanes):
                    _window_of_images(strip, at + c, room[1] * wide, wide, v, i * wide + c, apart)
                at = ((n * rows + y) * columns + z) * high
                for o in range(0, high, lanes):
                    to = o * size + i * ROWS
                    _window_of_cotangents(g_strip, at + o, columns * high, high, packed, to, ROWS * size, g_apart)
            for k in range(16):
                _multiply(
                    v,
                    k * apart,
                    offsets,
                    some,
                    packed,
                    k * g_apart,
                    size,
                    high // ROWS,
                    nothing,
                    sums,
                    k * sums_apart,
                    wide,
                    wide,
                    register,
                    t == 0 and first == 0,
                )
    taps = np.empty(9 * lanes, x.dtype)
    for o in range(outputs):
        for c in range(0, channels, lanes):
            _nine(sums, o * wide + c, sums_apart, taps, 0, lanes)
            for i in range(min(lanes, channels - c)):
                for k in range(9):
                    total[o, c + i, k] += taps[k * lanes + i]
