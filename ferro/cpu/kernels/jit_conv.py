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

    The innermost loops, `_shifted` and `_dots`, keep a block of results in vector registers. LLVM finds no such code by
    itself, so it is written out for it: M rows of the weight times V vectors of places, as many as fill the registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.cpu.kernels.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which keeps LLVM from vectorising

# --- blocks in registers ---------------------------------------------------------------------------------------------


def _registers() -> tuple[int, bool]:
    """Bytes of a vector register, and whether there are 32 of them."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, True
    if features.get("avx2"):
        return 32, False
    return 16, bool(features.get("neon"))


_BYTES, _MANY = _registers()
_ROWS = 8 if _MANY else 4  # rows of the tallest block
_HALF = 3  # vectors of the tallest block; the others have twice as many
_DOT_ROWS, _DOT_TAPS = (4, 6) if _MANY else (4, 2)
_TAPS = 512  # that a block sums before the next block: their images stay in the first cache
_PLACES = 2048  # that a block of `_dots` runs along, for the same reason


class _Code:
    """What both kinds of block say to LLVM."""

    def __init__(self, context: Any, builder: Any, array: Any):
        self.context, self.builder = context, builder
        self.number = context.get_data_type(array.dtype)
        self.size = array.dtype.bitwidth // 8
        self.lanes = _BYTES // self.size
        self.vector = ir.VectorType(self.number, self.lanes)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        self.fma = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.fma.v{self.lanes}f{array.dtype.bitwidth}"
        )
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def data(self, array: Any, value: Any) -> Any:
        """The address of an array's numbers."""
        return self.context.make_array(array)(self.context, self.builder, value).data

    def load(self, address: Any, *indices: Any) -> Any:
        """A vector from an address plus indices."""
        return self.builder.load(self.at(address, *indices), align=self.size)

    def at(self, address: Any, *indices: Any) -> Any:
        """The address of a vector."""
        for index in indices:
            address = self.builder.gep(address, [index])
        return self.builder.bitcast(address, self.vector.as_pointer())

    def spread(self, number: Any) -> Any:
        """A vector of one number."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.IntType(32)(0))
        return self.shuffled(first, nothing, [0] * self.lanes)

    def shuffled(self, a: Any, b: Any, indices: list[int]) -> Any:
        """The elements of a and b, numbered through, at these indices."""
        kind = ir.VectorType(ir.IntType(32), len(indices))
        return self.builder.shuffle_vector(a, b, ir.Constant(kind, indices))

    def add_totals(self, vectors: list[Any], address: Any) -> None:
        """Adds the sum of the numbers of each vector to the numbers at an address. All are halved together."""
        count = 1
        while count < min(len(vectors), self.lanes):
            count *= 2
        some, rest = vectors[:count], vectors[count:]
        level = some + [self.zero] * (count - len(some))
        segment, per = self.lanes, 1  # numbers left of each vector, and vectors in one of this level
        while segment > 1:
            segment //= 2
            if len(level) > 1:
                pairs = list(zip(level[::2], level[1::2], strict=True))
                per *= 2
            else:
                pairs = [(level[0], level[0])]
            first = [2 * segment * k + i for k in range(per) for i in range(segment)]
            level = [
                self.builder.fadd(self.shuffled(a, b, first), self.shuffled(a, b, [i + segment for i in first]))
                for a, b in pairs
            ]
        found = self.shuffled(level[0], level[0], list(range(len(some))))
        place = self.builder.bitcast(address, ir.VectorType(self.number, len(some)).as_pointer())
        held = self.builder.load(place, align=self.size)
        self.builder.store(self.builder.fadd(held, found), place, align=self.size)
        if rest:
            self.add_totals(rest, self.builder.gep(address, [_i64(count)]))


def _i64(value: int) -> Any:
    return ir.IntType(64)(value)


def _shifted(rows: int, vectors: int) -> Any:
    """y[yat + m pitch + q] (+)= Σ_t w[wat + t rows + m] x[at + offsets[t] + q] for a block of m and q."""

    def block(_typing, x, at, offsets, first, last, w, wat, y, yat, pitch, fresh):
        n = types.intp
        signature = types.void(x, n, offsets, n, n, w, n, y, n, n, types.boolean)

        def generate(context, builder, signature, args):
            code = _Code(context, builder, signature.args[0])
            kinds = signature.args
            source, shifts, weight, target = [code.data(kinds[i], args[i]) for i in (0, 2, 5, 7)]
            at, first, last, wat, yat, pitch, fresh = [args[i] for i in (1, 3, 4, 6, 8, 9, 10)]
            sums = [[cgutils.alloca_once(builder, code.vector) for _ in range(vectors)] for _ in range(rows)]
            places = [
                [(builder.mul(pitch, _i64(m)), _i64(v * code.lanes)) for v in range(vectors)] for m in range(rows)
            ]
            source, target = builder.gep(source, [at]), builder.gep(target, [yat])
            with builder.if_else(fresh) as (yes, no):
                with yes:
                    for line in sums:
                        for one in line:
                            builder.store(code.zero, one)
                with no:
                    for line, where in zip(sums, places, strict=True):
                        for one, place in zip(line, where, strict=True):
                            builder.store(code.load(target, *place), one)
            with cgutils.for_range_slice(builder, first, last, _i64(1), ir.IntType(64)) as (t, _):
                seen = builder.gep(source, [builder.load(builder.gep(shifts, [t]))])
                met = [code.load(seen, _i64(v * code.lanes)) for v in range(vectors)]
                column = builder.gep(weight, [builder.add(wat, builder.mul(t, _i64(rows)))])
                for m, line in enumerate(sums):
                    factor = code.spread(builder.load(builder.gep(column, [_i64(m)])))
                    for one, vector in zip(line, met, strict=True):
                        builder.store(builder.call(code.fma, [vector, factor, builder.load(one)]), one)
            for line, where in zip(sums, places, strict=True):
                for one, place in zip(line, where, strict=True):
                    builder.store(builder.load(one), code.at(target, *place), align=code.size)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(block)


def _dots(rows: int, columns: int) -> Any:
    """total[tat + m pitch + n] += Σ_q g[gat + m gpitch + q] x[at + offsets[t + n] + q] over `count` places."""

    def block(_typing, g, gat, gpitch, x, at, offsets, t, count, total, tat, pitch):
        n = types.intp
        signature = types.void(g, n, n, x, n, offsets, n, n, total, n, n)

        def generate(context, builder, signature, args):
            code = _Code(context, builder, signature.args[0])
            kinds = signature.args
            grads, source, shifts, target = [code.data(kinds[i], args[i]) for i in (0, 3, 5, 8)]
            gat, gpitch, at, t, count, tat, pitch = [args[i] for i in (1, 2, 4, 6, 7, 9, 10)]
            sums = [[cgutils.alloca_once(builder, code.vector) for _ in range(columns)] for _ in range(rows)]
            for line in sums:
                for one in line:
                    builder.store(code.zero, one)
            lines = [builder.gep(grads, [builder.add(gat, builder.mul(gpitch, _i64(m)))]) for m in range(rows)]
            shift = [builder.load(builder.gep(shifts, [builder.add(t, _i64(i))])) for i in range(columns)]
            seen = [builder.gep(source, [builder.add(at, offset)]) for offset in shift]
            with cgutils.for_range_slice(builder, _i64(0), count, _i64(code.lanes), ir.IntType(64)) as (q, _):
                given = [code.load(line, q) for line in lines]
                for i in range(columns):
                    met = code.load(seen[i], q)
                    for m in range(rows):
                        one = sums[m][i]
                        builder.store(builder.call(code.fma, [met, given[m], builder.load(one)]), one)
            for m, line in enumerate(sums):
                place = builder.gep(target, [builder.add(tat, builder.mul(pitch, _i64(m)))])
                code.add_totals([builder.load(one) for one in line], place)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(block)


_high = _shifted(_ROWS, _HALF)
_four = _shifted(4, 2 * _HALF)
_two = _shifted(2, 2 * _HALF)
_one = _shifted(1, 2 * _HALF)
_products = _dots(_DOT_ROWS, _DOT_TAPS)
_products_of_one = _dots(1, _DOT_TAPS)  # where each row has its own channels


# --- sums of shifted images ------------------------------------------------------------------------------------------

# A tile is (first image, last, first depth, last, first row, last, first column, last) of the result; the ends are not
# part of it. What it sees of the images lies in a strip: for each channel and each phase, `images` times `room`.


@device
def _copy_row(target, to, source, at, count, shift):
    """Numbers in a row plus `shift`, eight at a time: LLVM makes one instruction of them."""
    k = u64(0)
    while k + u64(8) <= count:
        i, j = at + k, to + k
        a, b, c, d = source[i], source[i + u64(1)], source[i + u64(2)], source[i + u64(3)]
        e, f, g, h = source[i + u64(4)], source[i + u64(5)], source[i + u64(6)], source[i + u64(7)]
        target[j], target[j + u64(1)], target[j + u64(2)] = a + shift, b + shift, c + shift
        target[j + u64(3)], target[j + u64(4)], target[j + u64(5)] = d + shift, e + shift, f + shift
        target[j + u64(6)], target[j + u64(7)] = g + shift, h + shift
        k += u64(8)
    while k < count:
        target[to + k] = source[at + k] + shift
        k += u64(1)


@device
def _inside(begin, count, stride, start, length):
    """Of `count` places, every stride-th from begin stride + start on: those before the image, those in it, the first."""
    first = begin * stride + start
    low = min(count, (-first + stride - 1) // stride) if first < 0 else 0
    high = min(count, (length - first + stride - 1) // stride) if first < length else low
    return low, max(0, high - low), first + low * stride


@device
def _fill(source, shape, phases, stride, start, images, room, reach, tile, strip):
    """What a tile sees of the images; where there is no image, the strip holds zeros already."""
    channels, depth, height, width = shape
    nothing = source.dtype.type(0)
    for n in range(tile[1] - tile[0]):
        for f in range(phases.shape[0]):
            deep, planes, z = _inside(tile[2], tile[3] - tile[2] + reach[0], stride[0], phases[f, 0] + start[0], depth)
            down, rows, y = _inside(tile[4], tile[5] - tile[4] + reach[1], stride[1], phases[f, 1] + start[1], height)
            right, count, x = _inside(tile[6], tile[7] - tile[6] + reach[2], stride[2], phases[f, 2] + start[2], width)
            length = count
            if count == width == room[2] and stride[1] == stride[2] == 1:  # rows without a gap
                rows, length = min(rows, 1), rows * width
            for c in range(channels):
                for i in range(planes):
                    above = ((c * phases.shape[0] + f) * images + n) * room[0] + deep + i
                    plane = ((tile[0] + n) * channels + c) * depth + z + i * stride[0]
                    to = u64((above * room[1] + down) * room[2] + right)
                    at = u64((plane * height + y) * width + x)
                    for _ in range(rows):
                        if stride[2] == 1:
                            _copy_row(strip, to, source, at, u64(length), nothing)
                        elif stride[2] == 2:
                            for k in range(u64(count)):
                                strip[to + k] = source[at + k * u64(2)]
                        else:
                            for k in range(u64(count)):
                                strip[to + k] = source[at + k * u64(stride[2])]
                        to += u64(room[2])
                        at += u64(stride[1] * width)


@device
def _same_place(tiles, u):
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
def _sum_tile(strip, pitch, w, offsets, groups, outputs, length, lanes, y, ypitch):
    """All results of a tile, those that mean nothing included: y is (output, place)."""
    taps = len(offsets)
    each = outputs // groups
    step = 2 * _HALF * lanes
    half = _HALF * lanes
    for q in range(0, length, step):
        for g in range(groups):
            at = g * pitch + q
            for first in range(0, taps, _TAPS):
                last = min(taps, first + _TAPS)
                o = 0
                while o < each:
                    to = (g * each + o) * ypitch + q
                    wat = (g * each + o) * taps
                    rest = each - o
                    if rest >= _ROWS:
                        _high(strip, at, offsets, first, last, w, wat, y, to, ypitch, first == 0)
                        if q + half < length:
                            _high(strip, at + half, offsets, first, last, w, wat, y, to + half, ypitch, first == 0)
                        o += _ROWS
                    elif rest >= 4:
                        _four(strip, at, offsets, first, last, w, wat, y, to, ypitch, first == 0)
                        o += 4
                    elif rest >= 2:
                        _two(strip, at, offsets, first, last, w, wat, y, to, ypitch, first == 0)
                        o += 2
                    else:
                        _one(strip, at, offsets, first, last, w, wat, y, to, ypitch, first == 0)
                        o += 1


@device
def _write(y, pitch, tile, room, bias, out, shape, start, step):
    """The results of a tile that mean something to their places in `out`."""
    outputs, depth, height, width = shape
    count = u64(tile[7] - tile[6])
    for n in range(tile[1] - tile[0]):
        for o in range(outputs):
            shift = bias[o]
            for z in range(tile[3] - tile[2]):
                plane = ((tile[0] + n) * outputs + o) * depth + start[0] + (tile[2] + z) * step[0]
                line = plane * height + start[1] + tile[4] * step[1]
                at = u64(o * pitch + (n * room[0] + z) * room[1] * room[2])
                to = u64(line * width + start[2] + tile[6] * step[2])
                for _ in range(tile[5] - tile[4]):
                    if step[2] == 1:
                        _copy_row(out, to, y, at, count, shift)
                    elif step[2] == 2:
                        for k in range(count):
                            out[to + k * u64(2)] = y[at + k] + shift
                    else:
                        for k in range(count):
                            out[to + k * u64(step[2])] = y[at + k] + shift
                    at += u64(room[2])
                    to += u64(step[1] * width)


@device
def _longest(tiles, room):
    """The largest number of places of a tile."""
    most = 0
    for u in range(len(tiles)):
        most = max(most, _length(tiles[u], room))
    return most


@kernel
def correlate(x, shape, phases, stride, start, images, room, reach, tiles, offsets, w, bias, groups, out, places):
    """The tiles of Σ_t w[o, t] x[...]: see Note [Sums of shifted images].

    Place i of a phase is element i stride + phase + start of the image. `w` holds blocks of rows, (taps, rows) each.
    `places` is (shape of out with its channels, first place, step).
    """
    lanes = _BYTES // x.itemsize
    source, target = x.reshape(-1), out.reshape(-1)
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = _longest(tiles, room) + 2 * _HALF * lanes
    strip = np.zeros(shape[0] * pitch + room[1] * room[2] + most, x.dtype)
    y = np.empty(places[0][0] * most, x.dtype)
    for u in range(len(tiles)):
        tile = tiles[u]
        if u > 0 and not _same_place(tiles, u):
            strip[:] = 0
        _fill(source, shape, phases, stride, start, images, room, reach, tile, strip)
        length = _length(tile, room)
        _sum_tile(strip, shape[0] // groups * pitch, w, offsets, groups, places[0][0], length, lanes, y, most)
        _write(y, most, tile, room, bias, target, places[0], places[1], places[2])


@device
def _lay_out(source, shape, groups, each, tile, room, pitch, target):
    """The part of g in a tile as (group, row, place); zeros elsewhere stand there already."""
    outputs, depth, height, width = shape
    own = outputs // groups
    nothing = source.dtype.type(0)
    count = u64(tile[7] - tile[6])
    for n in range(tile[1] - tile[0]):
        for o in range(outputs):
            row = o // own * each + o % own
            for z in range(tile[3] - tile[2]):
                plane = ((tile[0] + n) * outputs + o) * depth + tile[2] + z
                at = u64((plane * height + tile[4]) * width + tile[6])
                to = u64(row * pitch + (n * room[0] + z) * room[1] * room[2])
                for _ in range(tile[5] - tile[4]):
                    _copy_row(target, to, source, at, count, nothing)
                    at += u64(width)
                    to += u64(room[2])


@kernel
def correlate_taps(x, shape, phases, stride, start, images, room, reach, tiles, offsets, g, gshape, groups, total):
    """Adds Σ_q g[o, q] x[offset[t] + q] over the tiles to `total` (group, row, tap)."""
    lanes = _BYTES // x.itemsize
    source, grads = x.reshape(-1), g.reshape(-1)
    pitch = phases.shape[0] * images * room[0] * room[1] * room[2]
    most = (_longest(tiles, room) + lanes - 1) // lanes * lanes
    strip = np.zeros(shape[0] * pitch + room[1] * room[2] + most, x.dtype)
    high = 1 if total.shape[1] == 1 else _DOT_ROWS
    each = (total.shape[1] + high - 1) // high * high  # whole blocks
    taps = (total.shape[2] + _DOT_TAPS - 1) // _DOT_TAPS * _DOT_TAPS
    shifts = np.zeros(taps, np.int64)
    shifts[: len(offsets)] = offsets
    rows = np.zeros(groups * each * most, x.dtype)
    whole = each == total.shape[1] and taps == total.shape[2]
    sums = total if whole else np.zeros((groups, each, taps), x.dtype)
    for u in range(len(tiles)):
        tile = tiles[u]
        if u > 0 and not _same_place(tiles, u):
            strip[:] = 0
            rows[:] = 0
        _fill(source, shape, phases, stride, start, images, room, reach, tile, strip)
        _lay_out(grads, gshape, groups, each, tile, room, most, rows)
        length = (_length(tile, room) + lanes - 1) // lanes * lanes
        for q in range(0, length, _PLACES):
            count = min(_PLACES, length - q)
            for group in range(groups):
                at = group * (shape[0] // groups) * pitch + q
                for o in range(group * each, (group + 1) * each, high):
                    begin = o * most + q
                    for t in range(0, taps, _DOT_TAPS):
                        to = o * taps + t
                        if high == 1:
                            _products_of_one(rows, begin, most, strip, at, shifts, t, count, sums, to, taps)
                        else:
                            _products(rows, begin, most, strip, at, shifts, t, count, sums, to, taps)
    if not whole:
        total += sums[:, : total.shape[1], : total.shape[2]]


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
            size = _ROWS if rest >= _ROWS else 4 if rest >= 4 else 2 if rest >= 2 else 1
            for column in range(columns):
                at = g * strides[0] + first * strides[1] + column * strides[2]
                for k in range(len(chosen)):
                    for m in range(size):
                        target[to] = source[u64(at + m * strides[1] + chosen[k])]
                        to += u64(1)
            first += size
