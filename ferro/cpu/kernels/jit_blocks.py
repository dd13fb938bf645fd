"""Blocks of results in vector registers: the innermost loops of products, written as LLVM code.

LLVM finds no such code by itself: M rows times V vectors of sums, as many as fill the registers, stay there while a loop
runs over what is summed. A broadcast number meets V vectors and a vector M numbers, so that few loads feed many sums.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.native import isa
from ferro.native.jit import device

in_llvm: Any = intrinsic  # a function for kernels, whose first parameter is the compiler's

BYTES, MANY = isa.registers()  # of a vector register, and whether there are 32 of them
ROWS = 8 if MANY else 4  # of the tallest block


def i64(value: int) -> Any:
    return ir.IntType(64)(value)


@device
def aligned(count, like):
    """Room for so many numbers of the array's dtype, beginning where a register of them is loaded quickest."""
    room = np.empty(count + BYTES // like.itemsize, like.dtype)
    skipped = (-room.ctypes.data) % BYTES // like.itemsize
    return room[skipped : skipped + count]


class Code:
    """What all these blocks say to LLVM."""

    def __init__(self, context: Any, builder: Any, array: Any, least: int = 1):
        self.context, self.builder = context, builder
        self.number = context.get_data_type(array.dtype)
        self.size = array.dtype.bitwidth // 8
        self.lanes = max(least, BYTES // self.size)  # LLVM divides what is longer than a register
        self.vector = ir.VectorType(self.number, self.lanes)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        # One instruction where the processor has it, else two; llvm.fma would be a call of libm for each number there.
        self.fma = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.fmuladd.v{self.lanes}f{array.dtype.bitwidth}"
        )
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def data(self, array: Any, value: Any) -> Any:
        """The address of an array's numbers."""
        return self.context.make_array(array)(self.context, self.builder, value).data

    def load(self, address: Any, *indices: Any, count: int = 0) -> Any:
        """A vector, of `count` numbers or a register's, from an address plus indices."""
        return self.builder.load(self.at(address, *indices, count=count), align=self.size)

    def store(self, vector: Any, address: Any, *indices: Any) -> None:
        self.builder.store(vector, self.at(address, *indices, count=vector.type.count), align=self.size)

    def at(self, address: Any, *indices: Any, count: int = 0) -> Any:
        """The address of a vector."""
        for index in indices:
            address = self.builder.gep(address, [index])
        return self.builder.bitcast(address, ir.VectorType(self.number, count or self.lanes).as_pointer())

    def spread(self, number: Any) -> Any:
        """A vector of one number."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.IntType(32)(0))
        return self.shuffled(first, nothing, [0] * self.lanes)

    def shuffled(self, a: Any, b: Any, indices: list[int]) -> Any:
        """The elements of a and b, numbered through, at these indices."""
        kind = ir.VectorType(ir.IntType(32), len(indices))
        return self.builder.shuffle_vector(a, b, ir.Constant(kind, indices))

    def joined(self, parts: list[Any]) -> Any:
        """The vectors one after the other, as one."""
        while len(parts) > 1:
            each = range(2 * parts[0].type.count)
            parts = [self.shuffled(a, b, list(each)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

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
            self.add_totals(rest, self.builder.gep(address, [i64(count)]))


def shifted(rows: int, vectors: int, packed: bool = True) -> Any:
    """y[yat + m pitch + q] (+)= Σ_t w[wat + t rows + m] x[at + offsets[t] + q] for a block of m and q.

    Without `fresh` it is added to what stands there; else to bias[bat + m]. If the weight is not packed,
    w[wat + m apart + t] takes the place of w[wat + t rows + m].
    """

    def block(_typing, x, at, offsets, first, last, w, wat, apart, bias, bat, y, yat, pitch, fresh):
        n = types.intp
        signature = types.void(x, n, offsets, n, n, w, n, n, bias, n, y, n, n, types.boolean)

        def generate(context, builder, signature, args):
            code = Code(context, builder, signature.args[0])
            source, shifts, weight, shift, target = [code.data(signature.args[i], args[i]) for i in (0, 2, 5, 8, 10)]
            at, first, last, wat, apart, bat, yat, pitch, fresh = [args[i] for i in (1, 3, 4, 6, 7, 9, 11, 12, 13)]
            source, target, weight = [builder.gep(*each) for each in ((source, [at]), (target, [yat]), (weight, [wat]))]
            sums = [[cgutils.alloca_once(builder, code.vector) for _ in range(vectors)] for _ in range(rows)]
            places = [[(builder.mul(pitch, i64(m)), i64(v * code.lanes)) for v in range(vectors)] for m in range(rows)]
            every = list(zip(chain.from_iterable(sums), chain.from_iterable(places), strict=True))
            lines = [builder.gep(weight, [builder.mul(apart, i64(m))]) for m in range(rows)]
            for one, _ in every:
                builder.store(code.zero, one)
            with cgutils.for_range_slice(builder, first, last, i64(1), ir.IntType(64)) as (t, _):
                seen = builder.gep(source, [builder.load(builder.gep(shifts, [t]))])
                met = [code.load(seen, i64(v * code.lanes)) for v in range(vectors)]
                column = builder.gep(weight, [builder.mul(t, i64(rows))])
                for m, line in enumerate(sums):
                    number = builder.gep(column, [i64(m)]) if packed else builder.gep(lines[m], [t])
                    factor = code.spread(builder.load(number))
                    for one, vector in zip(line, met, strict=True):
                        builder.store(builder.call(code.fma, [vector, factor, builder.load(one)]), one)
            with builder.if_else(fresh) as (yes, no):
                with yes:
                    for m, (line, where) in enumerate(zip(sums, places, strict=True)):
                        added = code.spread(builder.load(builder.gep(shift, [builder.add(bat, i64(m))])))
                        for one, place in zip(line, where, strict=True):
                            code.store(builder.fadd(builder.load(one), added), target, *place)
                with no:  # sums of parts round less than one long sum
                    for one, place in every:
                        code.store(builder.fadd(code.load(target, *place), builder.load(one)), target, *place)
            return context.get_dummy_value()

        return signature, generate

    return in_llvm(block)


def dots(rows: int, columns: int) -> Any:
    """total[tat + m pitch + n] += Σ_q g[gat + m gpitch + q] x[at + offsets[t + n] + q] over `count` places."""

    def block(_typing, g, gat, gpitch, x, at, offsets, t, count, total, tat, pitch):
        n = types.intp
        signature = types.void(g, n, n, x, n, offsets, n, n, total, n, n)

        def generate(context, builder, signature, args):
            code = Code(context, builder, signature.args[0])
            kinds = signature.args
            grads, source, shifts, target = [code.data(kinds[i], args[i]) for i in (0, 3, 5, 8)]
            gat, gpitch, at, t, count, tat, pitch = [args[i] for i in (1, 2, 4, 6, 7, 9, 10)]
            sums = [[cgutils.alloca_once(builder, code.vector) for _ in range(columns)] for _ in range(rows)]
            for line in sums:
                for one in line:
                    builder.store(code.zero, one)
            lines = [builder.gep(grads, [builder.add(gat, builder.mul(gpitch, i64(m)))]) for m in range(rows)]
            shift = [builder.load(builder.gep(shifts, [builder.add(t, i64(i))])) for i in range(columns)]
            seen = [builder.gep(source, [builder.add(at, offset)]) for offset in shift]
            with cgutils.for_range_slice(builder, i64(0), count, i64(code.lanes), ir.IntType(64)) as (q, _):
                given = [code.load(line, q) for line in lines]
                for i in range(columns):
                    met = code.load(seen[i], q)
                    for m in range(rows):
                        one = sums[m][i]
                        builder.store(builder.call(code.fma, [met, given[m], builder.load(one)]), one)
            for m, line in enumerate(sums):
                place = builder.gep(target, [builder.add(tat, builder.mul(pitch, i64(m)))])
                code.add_totals([builder.load(one) for one in line], place)
            return context.get_dummy_value()

        return signature, generate

    return in_llvm(block)


@in_llvm
def turn(_typing, source, at, stride, last, target, to, pitch, places, q):
    """A register of places of a register of channels, those after `last` repeating it, as (place, channel)."""
    n = types.intp
    signature = types.void(source, n, n, n, target, n, n, places, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0], ROWS)
        given, out, table = [code.data(signature.args[i], args[i]) for i in (0, 4, 7)]
        at, stride, last, to, pitch, q = [args[i] for i in (1, 2, 3, 5, 6, 8)]
        vectors = []
        for m in range(code.lanes):
            row = builder.select(builder.icmp_signed("<", i64(m), last), i64(m), last)
            vectors.append(code.load(given, builder.add(at, builder.mul(row, stride))))
        step = code.lanes
        while step > 1:  # each step exchanges halves of vectors that are so far apart
            step //= 2
            low = [k + (code.lanes if k & step else 0) - (step if k & step else 0) for k in range(code.lanes)]
            for m in range(code.lanes):
                if not m & step:
                    a, b = vectors[m], vectors[m + step]
                    vectors[m], vectors[m + step] = (
                        code.shuffled(a, b, low),
                        code.shuffled(a, b, [k + step for k in low]),
                    )
        for m, vector in enumerate(vectors):
            place = builder.load(builder.gep(table, [builder.add(q, i64(m))]))
            code.store(vector, out, builder.add(to, builder.mul(place, pitch)))
        return context.get_dummy_value()

    return signature, generate


HALF_LINE = 8  # numbers that these two functions take from each of two rows, or give to each


@in_llvm
def every_second(_typing, source, at, target, to):
    """Of a line of numbers every second one, from the first on."""
    n = types.intp
    signature = types.void(source, n, target, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0])
        given, out = code.data(signature.args[0], args[0]), code.data(signature.args[2], args[2])
        line = code.load(given, args[1], count=2 * HALF_LINE)
        code.store(code.shuffled(line, line, list(range(0, 2 * HALF_LINE, 2))), out, args[3])
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def by_turns(_typing, source, first, second, target, to):
    """A line of numbers from two places, by turns."""
    n = types.intp
    signature = types.void(source, n, n, target, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0])
        given, out = code.data(signature.args[0], args[0]), code.data(signature.args[3], args[3])
        halves = [code.load(given, at, count=HALF_LINE) for at in args[1:3]]
        order = [k + side for k in range(HALF_LINE) for side in (0, HALF_LINE)]
        code.store(code.shuffled(halves[0], halves[1], order), out, args[4])
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def prefetch(_typing, array, at):
    """Has a line of memory brought into the caches, while something else is computed."""
    signature = types.void(array, types.intp)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.gep(code.data(signature.args[0], args[0]), [args[1]])
        builder.call(function, [builder.bitcast(place, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@in_llvm
def move(_typing, source, at, target, to):
    """Copies three vectors."""
    n = types.intp
    signature = types.void(source, n, target, n)

    def generate(context, builder, signature, args):
        code = Code(context, builder, signature.args[0])
        given, out = code.data(signature.args[0], args[0]), code.data(signature.args[2], args[2])
        for place in [i64(v * code.lanes) for v in range(3)]:
            code.store(code.load(given, args[1], place), out, args[3], place)
        return context.get_dummy_value()

    return signature, generate
