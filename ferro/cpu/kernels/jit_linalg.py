"""Compiled kernels of linear algebra: products of two vectors, elimination in stacks, triangular systems.

Note [Substitution by blocks]
    Of the solution of L X = B eight rows (four, with 16 registers) and two vectors of columns are found at a time: from
    the rows of B the product of L with the rows of X found before is subtracted, a product of matrices that runs in
    registers, and the triangle of these rows that is left is solved there too. BLAS does this at a fifth of the speed for
    matrices of order 128. An upper triangle is a lower one whose rows and columns are counted from the end, and a
    transposed one is read by columns. Every column is computed by itself, so the columns may be cut at will.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ferro.cpu.kernels.jit_vectors import BYTES, MANY, address, i64, integer, written
from ferro.cpu.kernels.tiles import VECTORS
from ferro.native.jit import device, kernel, reduction, whole_registers

_ROWS = 8 if MANY else 4  # of a block in registers, which has as many columns as a tile


def _solved(rows: int) -> Any:
    """x[m pitch + q] for the next rows m: what is left when Σ_t a[m ra + t ca] x[t pitch + q - count pitch] is taken off.

    a and x are addresses, `like` any array of their numbers; distances count in numbers.
    """

    @written()
    def solved(code, a, ra, ca, x, pitch, count, columns, unit, like):
        is_full = code.builder.icmp_signed("==", columns, i64(VECTORS * code.lanes))
        with code.builder.if_else(is_full) as (full, some):  # (masked loads and stores of AVX2 are slow)
            with full:
                _solve_rows(code, rows, [None] * VECTORS, (a, ra, ca), (x, pitch), count, unit)
            with some:
                masks = [code.mask(columns, v * code.lanes) for v in range(VECTORS)]
                _solve_rows(code, rows, masks, (a, ra, ca), (x, pitch), count, unit)

    return solved


def _solve_rows(code: Any, rows: int, masks: list, triangle: tuple, sides: tuple, count: Any, unit: Any) -> None:
    """Writes the code of `_solved` for a mask of each vector, or None."""
    builder, (a, ra, ca), (x, pitch) = code.builder, triangle, sides
    sums = code.sums(rows, VECTORS)
    places = [
        [code.place(x, builder.mul(pitch, i64(m)), i64(v * code.lanes)) for v in range(VECTORS)] for m in range(rows)
    ]
    lines = [code.place(a, builder.mul(ra, i64(m))) for m in range(rows)]
    before = code.place(x, builder.mul(pitch, builder.neg(count)))
    with cgutils.for_range_slice(builder, i64(0), count, i64(1), integer) as (t, _):
        row, column = builder.gep(before, [builder.mul(t, pitch)]), builder.mul(t, ca)
        met = [code.load(row, i64(v * code.lanes), mask=mask) for v, mask in enumerate(masks)]
        for line, start in zip(sums, lines, strict=True):
            factor = code.spread(builder.load(builder.gep(start, [column])))
            for one, vector in zip(line, met, strict=True):
                code.add(one, vector, factor)
    found: list[list[Any]] = []
    for line, start, where in zip(sums, lines, places, strict=True):
        left = [
            builder.fsub(code.load(place, mask=mask), builder.load(one))
            for place, mask, one in zip(where, masks, line, strict=True)
        ]
        along = builder.gep(start, [builder.mul(count, ca)])
        for q, earlier in enumerate(found):
            factor = code.spread(builder.fneg(builder.load(builder.gep(along, [builder.mul(ca, i64(q))]))))
            left = [builder.call(code.fma, [known, factor, rest]) for known, rest in zip(earlier, left, strict=True)]
        pivot = builder.load(builder.gep(along, [builder.mul(ca, i64(len(found)))]))
        pivot = code.spread(builder.select(unit, ir.Constant(code.number, 1.0), pivot))
        found.append([builder.fdiv(rest, pivot) for rest in left])
        for value, place, mask in zip(found[-1], where, masks, strict=True):
            code.store(value, place, mask=mask)


_block, _one = _solved(_ROWS), _solved(1)


@device
def substituted(n, here, ra, ca, there, pitch, columns, unit, like):
    """Solve for so many columns of the right sides, in place, up to two vectors of them at a time."""
    size = like.itemsize
    wide = VECTORS * BYTES // size
    for at in range(0, columns, wide):
        place, left = there + at * size, min(wide, columns - at)
        i = 0
        while i + _ROWS <= n:
            _block(here + size * i * ra, ra, ca, place + size * i * pitch, pitch, i, left, unit, like)
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
    wide = VECTORS * BYTES // size
    panels = (columns + wide - 1) // wide
    each = n * n if a.size > n * n else 0
    ra, ca = (1, n) if turned else (n, 1)
    pitch, first = columns, 0
    if reverse:
        first = n - 1
        ra, ca, pitch = -ra, -ca, -pitch
    corner, top = address(a) + size * first * (n + 1), address(x) + size * first * columns
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
