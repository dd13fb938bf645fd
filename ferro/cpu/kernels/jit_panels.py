"""Compiled copies of matrices for the tile of jit_tile.py: rows put together, and matrices turned round.

Addresses and distances are in bytes; `number` is any number of the type of the matrices.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ferro.cpu.kernels.jit_vectors import BYTES, SEGMENT, Code, i64, in_llvm, integer, size_of
from ferro.cpu.kernels.tiles import ROWS, VECTORS
from ferro.native.jit import device

LEFT = (ROWS + 7) // 8 * 8  # numbers between the steps of rows of a that have been copied together
_AT_ONCE = 32  # steps for which rows of a are put together


def _turn_square(code: Code, places: Any, edge: Any) -> None:
    """target[t, j] = source[j, t] for a register's numbers each way, or for an edge (j, t) of fewer.

    The places are source, its distance of rows, target and its distance. Segments of a register are read from some rows
    each, so that numbers need only be moved within segments.
    """
    b, lanes, segment = code.builder, code.lanes, SEGMENT // code.size
    source, source_step, target, target_step = places
    nothing, wanted = ir.Constant(ir.VectorType(ir.IntType(1), lanes), [0] * lanes), edge and code.mask(edge[0])
    firsts = [part + j for part in range(0, lanes, segment) for j in range(segment // 2)]
    low = [i for j in firsts for i in (j, j + lanes)]
    high = [i + segment // 2 for i in low]
    rows = []
    for j in range(lanes):
        row = i64(j)
        if edge is not None:  # what is beyond is not stored, but something must be read
            row = b.select(b.icmp_signed("<", row, edge[0]), row, i64(0))
        rows.append(b.add(source, b.mul(source_step, row)))
    for t in range(0, lanes, segment):
        inside = None if edge is None else code.mask(b.sub(edge[1], i64(t)), lanes=segment)
        level = []
        for j in range(segment):
            parts = [code.load(code.place(row), i64(t), count=segment, mask=inside) for row in rows[j::segment]]
            level.append(code.joined(parts))
        # Interlacing the first half of all rows with the second turns the bits of their places round by one.
        for _ in range(segment.bit_length() - 1):
            pairs = zip(level[: segment // 2], level[segment // 2 :], strict=True)
            level = [code.shuffled(x, y, half) for x, y in pairs for half in (low, high)]
        for i, vector in enumerate(level, t):
            mask = None if edge is None else b.select(b.icmp_signed("<", i64(i), edge[1]), wanted, nothing)
            code.store(vector, code.place(b.add(target, b.mul(target_step, i64(i)))), mask=mask)


@in_llvm
def _turn(_typing, number, source, source_step, target, target_step):
    """A square of a register's numbers each way, turned round."""

    def generate(context, builder, _signature, args):
        _turn_square(Code(context, builder, number), args[1:], None)

    return types.void(number, *[types.intp] * 4), generate


@in_llvm
def _turn_some(_typing, number, source, source_step, target, target_step, count, steps):
    """The same of so many rows and columns of the source."""

    def generate(context, builder, _signature, args):
        _turn_square(Code(context, builder, number), args[1:5], args[5:])

    return types.void(number, *[types.intp] * 6), generate


def _copying(numbers: dict[int, int]) -> Any:
    def copy(_typing, number, source, source_step, target, columns, steps):
        """Rows of up to so many numbers (by their size), put together; what is beyond the columns becomes 0."""

        def generate(context, builder, _signature, args):
            _, source, source_step, target, columns, steps = args
            code = Code(context, builder, number)
            count = -(-numbers[code.size] // code.lanes)
            is_full = builder.icmp_signed("==", columns, i64(count * code.lanes))
            with builder.if_else(is_full) as (full, some):  # (masked loads of AVX2 take twice as long)
                for branch in (full, some):
                    with branch:
                        hidden = branch is some
                        masks = [code.mask(columns, v * code.lanes) if hidden else None for v in range(count)]
                        with cgutils.for_range(builder, steps, intp=integer) as loop:
                            here = code.place(builder.add(source, builder.mul(source_step, loop.index)))
                            there = code.place(target, builder.mul(i64(numbers[code.size]), loop.index))
                            for v, mask in enumerate(masks):
                                beyond = i64(v * code.lanes)
                                code.store(code.load(here, beyond, mask=mask), there, beyond)

        return types.void(number, *[types.intp] * 5), generate

    return in_llvm(copy)


_copy_wide, _copy_high = _copying({size: VECTORS * BYTES // size for size in (4, 8)}), _copying({4: LEFT, 8: LEFT})


@device
def tile_columns(size):
    """Columns of a tile."""
    return VECTORS * BYTES // size


@device
def turned(number, source, source_step, target, target_step, count, steps):
    """target[t, j] = source[j, t] for j < count and t < steps."""
    size = size_of(number)
    lanes = BYTES // size
    for t in range(0, steps, lanes):
        for j in range(0, count, lanes):
            here, there = source + j * source_step + t * size, target + t * target_step + j * size
            if j + lanes <= count and t + lanes <= steps:
                _turn(number, here, source_step, there, target_step)
            else:
                _turn_some(number, here, source_step, there, target_step, min(lanes, count - j), min(lanes, steps - t))


@device
def copy_panels(number, b, target, columns, steps):
    """The columns of b, which is (address, distance of rows, of columns), by panels of the tile's width, as the tile reads them."""
    size = size_of(number)
    start, down, across = b
    wide = tile_columns(size)
    for j in range(0, columns, wide):
        here, there = start + j * across, target + j * steps * size
        if across == size:
            _copy_wide(number, here, down, there, min(wide, columns - j), steps)
        else:
            turned(number, here, across, there, VECTORS * BYTES, min(wide, columns - j), steps)


@device
def copy_group(number, source, source_step, target, height, more, tiles, steps):
    """For each of some tiles, whose rows are `height`, and of the first `more` one more, the rows of a put together.

    Few steps at a time: what one tile reads brings the lines of the next, and the addresses of their pages.
    """
    size = size_of(number)
    for t in range(0, steps, _AT_ONCE):
        here, some = source + t * source_step, min(_AT_ONCE, steps - t)
        for i in range(tiles):
            rows = height + (i < more)
            _copy_high(number, here, source_step, target + (i * steps + t) * LEFT * size, rows, some)
            here += rows * size
