"""Blocks of results in vector registers: the innermost loops of products, written as LLVM code.

LLVM finds no such code by itself: M rows times V vectors of sums, as many as fill the registers, stay there while a loop
runs over what is summed. A broadcast number meets V vectors and a vector M numbers, so that few loads feed many sums.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ferro.cpu.kernels.jit_vectors import BYTES, MANY, Code, i64, integer, written
from ferro.native.jit import device

ROWS = 8 if MANY else 4  # of the tallest block


@device
def aligned(count, like):
    """Room for so many numbers of the array's dtype, beginning where a register of them is loaded quickest."""
    room = np.empty(count + BYTES // like.itemsize, like.dtype)
    skipped = (-room.ctypes.data) % BYTES // like.itemsize
    return room[skipped : skipped + count]


def _add_totals(code: Code, vectors: list[Any], address: Any) -> None:
    """Adds the sum of the numbers of each vector to the numbers at an address. All are halved together."""
    count = 1
    while count < min(len(vectors), code.lanes):
        count *= 2
    some, rest = vectors[:count], vectors[count:]
    level = some + [code.zero] * (count - len(some))
    segment, per = code.lanes, 1  # numbers left of each vector, and vectors in one of this level
    while segment > 1:
        segment //= 2
        if len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=True))
            per *= 2
        else:
            pairs = [(level[0], level[0])]
        first = [2 * segment * k + i for k in range(per) for i in range(segment)]
        level = [
            code.builder.fadd(code.shuffled(a, b, first), code.shuffled(a, b, [i + segment for i in first]))
            for a, b in pairs
        ]
    found = code.shuffled(level[0], level[0], list(range(len(some))))
    place = code.builder.bitcast(address, ir.VectorType(code.number, len(some)).as_pointer())
    held = code.builder.load(place, align=code.size)
    code.builder.store(code.builder.fadd(held, found), place, align=code.size)
    if rest:
        _add_totals(code, rest, code.builder.gep(address, [i64(count)]))


def shifted(rows: int, vectors: int, packed: bool = True) -> Any:
    """y[yat + m pitch + q] (+)= Σ_t w[wat + t rows + m] x[at + offsets[t] + q] for a block of m and q.

    Without `fresh` it is added to what stands there; else to bias[bat + m]. If the weight is not packed,
    w[wat + m apart + t] takes the place of w[wat + t rows + m].
    """

    @written()
    def block(code, x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh):
        b = code.builder
        source, target, weight = b.gep(x, [at]), b.gep(y, [yat]), b.gep(w, [wat])
        sums = code.sums(rows, vectors)
        places = [[(b.mul(pitch, i64(m)), i64(v * code.lanes)) for v in range(vectors)] for m in range(rows)]
        lines = [b.gep(weight, [b.mul(apart, i64(m))]) for m in range(rows)]
        with cgutils.for_range_slice(b, first, last, i64(1), integer) as (t, _):
            seen = b.gep(source, [b.load(b.gep(offsets, [t]))])
            met = [code.load(seen, i64(v * code.lanes)) for v in range(vectors)]
            column = b.gep(weight, [b.mul(t, i64(rows))])
            for m, line in enumerate(sums):
                factor = code.spread(b.load(b.gep(column, [i64(m)]) if packed else b.gep(lines[m], [t])))
                for one, vector in zip(line, met, strict=True):
                    code.add(one, vector, factor)
        with b.if_else(fresh) as (yes, no):
            with yes:
                for m, (line, where) in enumerate(zip(sums, places, strict=True)):
                    added = code.spread(b.load(b.gep(bias, [b.add(bat, i64(m))])))
                    for one, place in zip(line, where, strict=True):
                        code.store(b.fadd(b.load(one), added), target, *place)
            with no:  # sums of parts round less than one long sum
                for one, place in zip(chain.from_iterable(sums), chain.from_iterable(places), strict=True):
                    code.store(b.fadd(code.load(target, *place), b.load(one)), target, *place)

    return block


def tallest(packed: bool = True) -> Any:
    """A device function: `shifted` for the tallest block and up to three vectors, as many as are wanted."""
    three, two, one = [shifted(ROWS, vectors, packed) for vectors in (3, 2, 1)]

    @device
    def block(x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh, vectors):
        if vectors >= 3:
            three(x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh)
        elif vectors == 2:
            two(x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh)
        else:
            one(x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh)

    return block


@device
def fitting(left):
    """How many of the vectors that are left a block takes: a block of one is slower than two of two."""
    return min(left, 2 if left == 4 else 3)


def dots(rows: int, columns: int) -> Any:
    """total[tat + m pitch + n] += Σ_q g[gat + m gpitch + q] x[at + offsets[t + n] + q] over `count` places."""

    @written()
    def block(code, g, gat, gpitch, x, at, offsets, t, count, total, tat, pitch):
        b = code.builder
        sums = code.sums(rows, columns)
        lines = [b.gep(g, [b.add(gat, b.mul(gpitch, i64(m)))]) for m in range(rows)]
        shift = [b.load(b.gep(offsets, [b.add(t, i64(i))])) for i in range(columns)]
        seen = [b.gep(x, [b.add(at, offset)]) for offset in shift]
        with cgutils.for_range_slice(b, i64(0), count, i64(code.lanes), integer) as (q, _):
            given = [code.load(line, q) for line in lines]
            for i in range(columns):
                met = code.load(seen[i], q)
                for m in range(rows):
                    code.add(sums[m][i], met, given[m])
        for m, line in enumerate(sums):
            _add_totals(code, [b.load(one) for one in line], b.gep(total, [b.add(tat, b.mul(pitch, i64(m)))]))

    return block


@written(ROWS)
def turn(code, source, at, stride, last, target, to, pitch, places, q):
    """A register of places of a register of channels, those after `last` repeating it, as (place, channel)."""
    b, vectors = code.builder, []
    for m in range(code.lanes):
        row = b.select(b.icmp_signed("<", i64(m), last), i64(m), last)
        vectors.append(code.load(source, b.add(at, b.mul(row, stride))))
    step = code.lanes
    while step > 1:  # each step exchanges halves of vectors that are so far apart
        step //= 2
        low = [k + (code.lanes if k & step else 0) - (step if k & step else 0) for k in range(code.lanes)]
        high = [k + step for k in low]
        for m in range(code.lanes):
            if not m & step:
                pair = vectors[m], vectors[m + step]
                vectors[m], vectors[m + step] = code.shuffled(*pair, low), code.shuffled(*pair, high)
    for m, vector in enumerate(vectors):
        place = b.load(b.gep(places, [b.add(q, i64(m))]))
        code.store(vector, target, b.add(to, b.mul(place, pitch)))


HALF_LINE = 8  # numbers that these two functions take from each of two rows, or give to each


@written()
def every_second(code, source, at, target, to):
    """Of a line of numbers every second one, from the first on."""
    line = code.load(source, at, count=2 * HALF_LINE)
    code.store(code.shuffled(line, line, list(range(0, 2 * HALF_LINE, 2))), target, to)


@written()
def by_turns(code, source, first, second, target, to):
    """A line of numbers from two places, by turns."""
    halves = [code.load(source, at, count=HALF_LINE) for at in (first, second)]
    order = [k + side for k in range(HALF_LINE) for side in (0, HALF_LINE)]
    code.store(code.shuffled(halves[0], halves[1], order), target, to)


@written()
def move(code, source, at, target, to):
    """Copies three vectors."""
    for place in [i64(v * code.lanes) for v in range(3)]:
        code.store(code.load(source, at, place), target, to, place)
