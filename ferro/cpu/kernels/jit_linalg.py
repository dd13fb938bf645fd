"""Compiled kernels of linear algebra: products of two vectors, elimination in stacks, triangular systems.

Note [Substitution by blocks]
    This is for x86 processors with AVX-512. Of the solution of L X = B eight rows and two vectors of columns are found
    at a time: from the rows of B the product of L with the rows of X found before is subtracted, a product of matrices
    that runs in registers, and the triangle of eight that is left is solved there too. BLAS does this at a fifth of the
    speed for matrices of order 128. An upper triangle is a lower one whose rows and columns are counted from the end, and
    a transposed one is read by columns. Every column is computed by itself, so the columns may be cut at will.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.native.jit import device, kernel, reduction, whole_registers

_ROWS, _VECTORS = 8, 2
_BYTES = 64  # of a vector
_word, _int = ir.IntType(32), ir.IntType(64)


class _Code:
    """What a block says to LLVM: addresses are integers, distances count in numbers."""

    def __init__(self, builder: Any, number: Any, size: int):
        self.builder, self.number, self.lanes = builder, number, _BYTES // size
        self.vector = ir.VectorType(number, self.lanes)
        self.suffix = f"v{self.lanes}f{8 * size}"
        self.address = self.vector.as_pointer()
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def at(self, address: Any, *counts: Any) -> Any:
        """The place so many numbers behind an address."""
        place = self.builder.inttoptr(address, self.number.as_pointer())
        for count in counts:
            place = self.builder.gep(place, [count])
        return place

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def load(self, place: Any, mask: Any) -> Any:
        address = self.builder.bitcast(place, self.address)
        name = f"llvm.masked.load.{self.suffix}.p0{self.suffix}"
        return self.call(name, self.vector, address, _word(4), mask, self.zero)

    def store(self, value: Any, place: Any, mask: Any) -> None:
        address = self.builder.bitcast(place, self.address)
        self.call(f"llvm.masked.store.{self.suffix}.p0{self.suffix}", ir.VoidType(), value, address, _word(4), mask)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.call(f"llvm.fma.{self.suffix}", self.vector, x, y, z)

    def spread(self, value: Any) -> Any:
        """A vector of one number."""
        nothing = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, value, _word(0))
        return self.builder.shuffle_vector(
            first, nothing, ir.Constant(ir.VectorType(_word, self.lanes), [0] * self.lanes)
        )

    def mask(self, columns: Any, v: int) -> Any:
        """Which numbers of vector v are among the columns."""
        kind = ir.VectorType(_word, self.lanes)
        here = ir.Constant(kind, list(range(v * self.lanes, (v + 1) * self.lanes)))
        return self.builder.icmp_signed("<", here, self.spread(self.builder.trunc(columns, _word)))


def _solved(rows: int) -> Any:
    """x[m pitch + q] for the next rows m: what is left when Σ_t a[m ra + t ca] x[t pitch + q - count pitch] is taken off."""

    def solved(_typing, a, ra, ca, x, pitch, count, columns, unit, like):
        n = types.intp
        signature = types.void(n, n, n, n, n, n, n, types.boolean, like)

        def generate(context, builder, signature, args):
            dtype = signature.args[-1].dtype
            a, ra, ca, x, pitch, count, columns, unit, _ = args
            code = _Code(builder, context.get_data_type(dtype), dtype.bitwidth // 8)
            masks = [code.mask(columns, v) for v in range(_VECTORS)]
            sums = [[cgutils.alloca_once_value(builder, code.zero) for _ in masks] for _ in range(rows)]
            for line in sums:
                for one in line:
                    builder.store(code.zero, one)
            places = [
                [code.at(x, builder.mul(pitch, _int(m)), _int(v * code.lanes)) for v in range(_VECTORS)]
                for m in range(rows)
            ]
            lines = [code.at(a, builder.mul(ra, _int(m))) for m in range(rows)]
            found_before = code.at(x, builder.mul(pitch, builder.neg(count)))
            with cgutils.for_range_slice(builder, _int(0), count, _int(1), _int) as (t, _):
                row, column = builder.gep(found_before, [builder.mul(t, pitch)]), builder.mul(t, ca)
                met = [code.load(builder.gep(row, [_int(v * code.lanes)]), mask) for v, mask in enumerate(masks)]
                for line, start in zip(sums, lines, strict=True):
                    factor = code.spread(builder.load(builder.gep(start, [column])))
                    for one, vector in zip(line, met, strict=True):
                        builder.store(code.fma(vector, factor, builder.load(one)), one)
            found: list[list[Any]] = []
            for line, start, where in zip(sums, lines, places, strict=True):
                left = [
                    builder.fsub(code.load(place, mask), builder.load(one))
                    for place, mask, one in zip(where, masks, line, strict=True)
                ]
                along = builder.gep(start, [builder.mul(count, ca)])
                for q, earlier in enumerate(found):
                    number = builder.fneg(builder.load(builder.gep(along, [builder.mul(ca, _int(q))])))
                    factor = code.spread(number)
                    left = [code.fma(known, factor, rest) for known, rest in zip(earlier, left, strict=True)]
                pivot = builder.load(builder.gep(along, [builder.mul(ca, _int(len(found)))]))
                pivot = code.spread(builder.select(unit, ir.Constant(code.number, 1.0), pivot))
                found.append([builder.fdiv(rest, pivot) for rest in left])
                for value, place, mask in zip(found[-1], where, masks, strict=True):
                    code.store(value, place, mask)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(solved)


_eight, _one = _solved(_ROWS), _solved(1)


def _address_of(_typing, array):
    def generate(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _int)

    return types.intp(array), generate


_address: Any = intrinsic(_address_of)


@device
def substituted(n, here, ra, ca, there, pitch, columns, unit, like):
    """Solve for so many columns of the right sides, in place, up to two vectors of them at a time."""
    size = like.itemsize
    wide = _VECTORS * _BYTES // size
    for at in range(0, columns, wide):
        place, left = there + at * size, min(wide, columns - at)
        i = 0
        while i + _ROWS <= n:
            _eight(here + size * i * ra, ra, ca, place + size * i * pitch, pitch, i, left, unit, like)
            i += _ROWS
        while i < n:
            _one(here + size * i * ra, ra, ca, place + size * i * pitch, pitch, i, left, unit, like)
            i += 1


@kernel
def substitute(start, stop, a, x, n, turned, reverse, unit):
    """Solve for the panels from `start` to `stop` of the right sides in x, in place; panels of all matrices in a row.

    The matrices of a stack lie one below the other, a may be a single one. `turned`: they are read transposed, `reverse`:
    the triangle read, transposed or not, is the upper one.
    """
    size, columns = a.itemsize, x.shape[1]
    wide = _VECTORS * _BYTES // size
    panels = (columns + wide - 1) // wide
    each = n * n if a.size > n * n else 0
    ra, ca = (1, n) if turned else (n, 1)
    pitch, first = columns, 0
    if reverse:
        first = n - 1
        ra, ca, pitch = -ra, -ca, -pitch
    corner, top = _address(a) + size * first * (n + 1), _address(x) + size * first * columns
    for panel in range(start, stop):
        matrix, at = panel // panels, panel % panels * wide
        here, there = corner + size * matrix * each, top + size * (matrix * n * columns + at)
        substituted(n, here, ra, ca, there, pitch, min(wide, columns - at), unit, a)


@reduction
def _four_dots(a, b, c, d, x):
    """The products of four rows with a vector."""
    p = q = r = s = x.dtype.type(0)
    for j in range(x.size):
        p += a[j] * x[j]
        q += b[j] * x[j]
        r += c[j] * x[j]
        s += d[j] * x[j]
    return p, q, r, s


@kernel
def times_vector(start, stop, a, x, out):
    """out = a x for the groups of four rows from `start` to `stop`; the last group of all may have less."""
    whole_registers()
    last = len(a) - 1
    for group in range(start, stop):
        i = 4 * group
        # (a row that is left over is computed as in any other group)
        j, k, m = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        out[i], out[j], out[k], out[m] = _four_dots(a[i], a[j], a[k], a[m], x)


@kernel
def vector_times(start, stop, parts, x, a, out):
    """out[p] = the part of x a that rows number len(a) p / parts up to the next part's give, for p from `start` to `stop`."""
    whole_registers()
    for p in range(start, stop):
        i, end, row = len(a) * p // parts, len(a) * (p + 1) // parts, out[p]
        row[:] = 0
        while i + 4 <= end:
            c, d, e, f = a[i], a[i + 1], a[i + 2], a[i + 3]
            r, s, t, u = x[i], x[i + 1], x[i + 2], x[i + 3]
            for q in range(row.size):
                row[q] += r * c[q] + s * d[q] + t * e[q] + u * f[q]
            i += 4
        while i < end:
            c, r = a[i], x[i]
            for q in range(row.size):
                row[q] += r * c[q]
            i += 1


@kernel
def outer(start, stop, x, y, out):
    """out[i, j] = x[i] y[j] for the rows from `start` to `stop`."""
    for i in range(start, stop):
        number, row = x[i], out[i]
        for j in range(len(y)):
            row[j] = number * y[j]


@kernel
def eliminate(start, stop, a, pivots, info):
    """The LU factors, in place, of the matrices from `start` to `stop` of a stack of small ones, as LAPACK's getrf."""
    rows, columns = a.shape[1], a.shape[2]
    for s in range(start, stop):
        x = a[s]
        info[s] = 0
        for k in range(min(rows, columns)):
            p = k
            for i in range(k + 1, rows):
                if abs(x[i, k]) > abs(x[p, k]):
                    p = i
            pivots[s, k] = p + 1
            if x[p, k] == 0:
                if info[s] == 0:
                    info[s] = k + 1
                continue
            if p != k:
                for j in range(columns):
                    x[k, j], x[p, j] = x[p, j], x[k, j]
            for i in range(k + 1, rows):
                x[i, k] /= x[k, k]
                for j in range(k + 1, columns):
                    x[i, j] -= x[i, k] * x[k, j]


@kernel
def exchange(start, stop, x, pivots, back):
    """The exchanges of rows i and pivots[i] - 1, one after another or (back) in reverse, in the matrices of a stack."""
    count, columns = pivots.shape[1], x.shape[2]
    for s in range(start, stop):
        for step in range(count):
            i = count - 1 - step if back else step
            j = pivots[s, i] - 1
            if i != j:
                for k in range(columns):
                    x[s, i, k], x[s, j, k] = x[s, j, k], x[s, i, k]
