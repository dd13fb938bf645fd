"""Compiled kernels of sums, of sums of squared distances from a mean, of products and of extrema, over rows and columns.

Each row, or the columns of each matrix, are cut into equal parts, and each part has a result of its own: kernels of rows
have a result for each part, kernels of columns a row of results, which is cut into tiles. A call computes the results,
or tiles, from number `first` to before `stop`.

Products are taken in float64, as are squares of columns. At most a piece of a row (PIECE) or SUM_ROWS rows are added in the precision
of the data, where its range is wide enough, and the sums of these in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types

from ferro.cpu.kernels.jit_bits import rank, unrank
from ferro.cpu.kernels.jit_rows import copy, in_pieces, squares_from, total_from
from ferro.cpu.thresholds import SUM_ROWS, SUM_TILE
from ferro.native.jit import device, kernel, once, reduction

f64 = np.float64
intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_REGISTER = 32  # bytes


@device
def _part(k, results, x):
    """Where the result number k belongs: the row or matrix of x, and its numbers or rows from where to where.

    Parts begin at multiples of SUM_ROWS, so that rows which are added by eights are not left over in each of them.
    """
    n, parts = x.shape[1], results.shape[0] // x.shape[0]
    if parts == 1:  # (this saves some divisions)
        return k, 0, n
    part, groups = k % parts, -(-n // SUM_ROWS)
    return k // parts, groups * part // parts * SUM_ROWS, min(groups * (part + 1) // parts * SUM_ROWS, n)


@device
def _tile(k, results, x):
    """The same for the tile number k, the row of its results, and its columns."""
    m = x.shape[2]
    tiles = -(-m // SUM_TILE)
    to, left = k // tiles, k % tiles * SUM_TILE
    i, start, end = _part(to, results, x)
    return i, start, end, to, slice(left, min(left + SUM_TILE, m))


@reduction
def _product(x):
    product = f64(1)
    for j in range(x.size):
        product *= f64(x[j])
    return product


@kernel
def prod_rows(x, out, first, stop):
    for k in range(first, stop):
        i, start, end = _part(k, out, x)
        out[k] = _product(x[i, start:end])


@kernel
def prod_columns(x, out, first, stop):
    for k in range(first, stop):
        i, start, end, to, columns = _tile(k, out, x)
        row = out[to, columns]
        row[:] = 1
        for r in range(start, end):
            source = x[i, r, columns]
            for j in range(row.size):
                row[j] *= f64(source[j])


@kernel
def quotients(x, product, out, first, stop):
    """The rows of `out` are those of product over those of x; each row of product, or its only number, serves several."""
    each = x.shape[0] // product.shape[0]
    for i in range(first, stop):
        above, row, to = product[i // each], x[i], out[i]
        if above.size == 1:
            number = above[0]
            for j in range(row.size):
                to[j] = number / f64(row[j])
        else:
            for j in range(row.size):
                to[j] = above[j] / f64(row[j])


def _rows_by(function, center_of):
    add, center_of = in_pieces(function), device(center_of)

    def run(x, center, out, first, stop):
        if out.shape[0] == x.shape[0]:  # (whole rows; what `_part` does takes as long as a fifth of a row of 1000)
            for i in range(first, stop):
                out[i] = add(x[i], center_of(center, i))
        else:
            for k in range(first, stop):
                i, start, end = _part(k, out, x)
                out[k] = add(x[i, start:end], center_of(center, i))

    return device(run)


def _both(function):
    """Of rows that have a center each, and of rows without."""
    return _rows_by(function, lambda center, i: center[i]), _rows_by(function, lambda center, i: None)


(_sums, _plain_sums), (_squares, _plain_squares) = _both(total_from), _both(squares_from)


@kernel
def sum_rows(x, center, out, first, stop):
    """The sums of x - center, with a center for each row of x, or those of x if there is none."""
    if center.size:
        _sums(x, center, out, first, stop)
    else:
        _plain_sums(x, center, out, first, stop)


@kernel
def square_rows(x, mean, out, first, stop):
    """The sums of (x - mean)², with a mean for each row of x, or those of x² if there is none."""
    if mean.size:
        _squares(x, mean, out, first, stop)
    else:
        _plain_squares(x, mean, out, first, stop)


@intrinsic
def _add_register(_typing, dtype, source, step, total):
    """Add SUM_ROWS rows, `step` bytes from one to the next, of a register of numbers to as many of float64.

    The sums stay in registers, and as many rows are read side by side: a tenth faster than eight rows from end to end, whose
    sums go through the cache. Rows are added by eights, as `_add_few` adds them.
    """

    def generate(context, builder, _signature, args):
        number = context.get_value_type(dtype.dtype)
        count = _REGISTER // context.get_abi_sizeof(number)
        few, wide = [ir.VectorType(kind, count) for kind in (number, ir.DoubleType())]
        place, found = args[1], []
        for _ in range(SUM_ROWS):
            found.append(builder.load(builder.inttoptr(place, few.as_pointer()), align=1))
            place = builder.add(place, args[2])
        for _ in range(3):  # eight rows, two by two
            found = [builder.fadd(a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        added = found[0]
        for each in found[1:]:
            added = builder.fadd(added, each)
        to = builder.inttoptr(args[3], wide.as_pointer())
        added = builder.fpext(added, wide) if few != wide else added
        builder.store(builder.fadd(builder.load(to, align=8), added), to, align=8)
        return context.get_dummy_value()

    return types.none(dtype, types.int64, types.int64, types.int64), generate


@device
def _add_registers(x, left, start, total):
    """Add SUM_ROWS rows of x to `total`, from the column `left` on, by whole registers. How many columns these are."""
    source, step, to = x.ctypes.data + start * x.strides[0] + left * x.itemsize, x.strides[0], total.ctypes.data
    each = _REGISTER // x.itemsize
    whole = total.size // each * each
    for j in range(0, whole, each):
        _add_register(x.dtype, source + j * x.itemsize, step, to + 8 * j)
    return whole


@device
def _add_few(x, columns, center, start, end, few):
    """Add x - center, of SUM_ROWS rows at most, to `few`.

    (The rows are cut from x one by one: of a slice of the matrix LLVM does not know that its numbers lie side by side.)
    """
    T = x.dtype.type
    behind = start + (end - start) // 8 * 8
    for s in range(start, behind, 8):
        a, b, c, d = x[s, columns], x[s + 1, columns], x[s + 2, columns], x[s + 3, columns]
        e, f, g, h = x[s + 4, columns], x[s + 5, columns], x[s + 6, columns], x[s + 7, columns]
        for j in range(few.size):
            m = T(0) if center is None else T(center[j])
            upper = ((T(a[j]) - m) + (T(b[j]) - m)) + ((T(c[j]) - m) + (T(d[j]) - m))
            lower = ((T(e[j]) - m) + (T(f[j]) - m)) + ((T(g[j]) - m) + (T(h[j]) - m))
            few[j] += upper + lower
    for s in range(behind, end):
        a = x[s, columns]
        for j in range(few.size):
            few[j] += T(a[j]) - (T(0) if center is None else T(center[j]))


@device
def _add_rows(x, columns, center, start, end, few, total):
    """Add x - center, so many rows in `few`, in the precision of x, and these to `total`. Whether all is finite.

    Without a center (None) there is nothing to take away, which Numba sees when it compiles.
    """
    for r in range(start, end, SUM_ROWS):
        last, done = min(r + SUM_ROWS, end), 0
        if center is None and last - r == SUM_ROWS:
            done = _add_registers(x, columns.start, r, total)
        if done < total.size:
            rest, to = few[: total.size - done], total[done:]
            _add_few(x, slice(columns.start + done, columns.stop), center, r, last, rest)
            for j in range(to.size):
                to[j] += rest[j]
                rest[j] = 0
    fine = True
    for j in range(total.size):
        fine &= abs(total[j]) < np.inf
    return fine


@once
def _sum_tile(x, columns, center, start, end, few, total):
    total[:] = 0
    if not _add_rows(x, columns, center, start, end, few, total) and x.itemsize < 8:
        total[:] = 0  # (what leaves the range of float32, or is infinite, is added in float64)
        for s in range(start, end):
            row = x[s, columns]
            for j in range(total.size):
                total[j] += f64(row[j]) - (f64(0) if center is None else f64(center[j]))


@device
def _few_fine(x, columns, start, end, row):
    """The sums of two rows or somewhat more, right where they belong. Whether they are right: all is finite, or float64."""
    T = x.dtype.type
    a, b = x[start, columns], x[start + 1, columns]
    for j in range(row.size):
        row[j] = (T(0) + a[j]) + b[j]
    for s in range(start + 2, end):
        c = x[s, columns]
        for j in range(row.size):
            row[j] = T(row[j]) + c[j]
    fine = True
    for j in range(row.size):
        fine &= abs(row[j]) < np.inf
    return fine | (x.itemsize == 8)


@kernel
def sum_columns(x, center, out, first, stop):
    """The sums of x - center, with a center for each column of each matrix of x, or those of x if there is none."""
    few, sums = np.zeros(SUM_TILE, x.dtype), np.zeros(SUM_TILE, f64)
    for k in range(first, stop):
        i, start, end, to, columns = _tile(k, out, x)
        row = out[to, columns]
        if center.size == 0 and 2 <= end - start < 8 and _few_fine(x[i], columns, start, end, row):
            continue
        total = sums[: row.size]
        if center.size:
            _sum_tile(x[i], columns, center[i, columns], start, end, few, total)
        else:
            _sum_tile(x[i], columns, None, start, end, few, total)
        for j in range(row.size):
            row[j] = total[j]


@device
def _add_squares(x, columns, mean, start, end, total):
    """Add (x - mean)² to `total`, without a mean x²."""
    behind = start + (end - start) // 4 * 4
    for r in range(start, behind, 4):
        a, b, c, d = x[r, columns], x[r + 1, columns], x[r + 2, columns], x[r + 3, columns]
        for j in range(total.size):
            m = f64(0) if mean is None else f64(mean[j])
            p, q, s, t = f64(a[j]) - m, f64(b[j]) - m, f64(c[j]) - m, f64(d[j]) - m
            total[j] += (p * p + q * q) + (s * s + t * t)
    for r in range(behind, end):
        a = x[r, columns]
        for j in range(total.size):
            p = f64(a[j]) - (f64(0) if mean is None else f64(mean[j]))
            total[j] += p * p


@kernel
def square_columns(x, mean, out, first, stop):
    """The sums of (x - mean)², with a mean for each column of each matrix of x, or none: in float64, whose range is wide enough."""
    sums = np.zeros(SUM_TILE, f64)
    for k in range(first, stop):
        i, start, end, to, columns = _tile(k, out, x)
        row = out[to, columns]
        total = sums[: row.size]
        total[:] = 0
        if mean.size:
            _add_squares(x[i], columns, mean[i, columns], start, end, total)
        else:
            _add_squares(x[i], columns, None, start, end, total)
        for j in range(row.size):
            row[j] = total[j]


@device
def extreme_of(x, sign):
    """The largest (sign 1) or smallest (sign -1) number; nan if there is one."""
    high = low = rank(x[0] * sign)
    for j in range(x.size):
        r = rank(x[j] * sign)
        high = max(high, r)
        low = min(low, r)
    bad = math.isnan(unrank(high)) | math.isnan(unrank(low))  # nan ranks beyond the infinity of its sign
    return x.dtype.type(np.nan) if bad else unrank(high) * sign


@device
def _extreme_rows(x, sign, out, first, stop):
    for k in range(first, stop):
        i, start, end = _part(k, out, x)
        out[k] = extreme_of(x[i, start:end], sign)


@kernel
def max_rows(x, out, first, stop):
    _extreme_rows(x, x.dtype.type(1), out, first, stop)


@kernel
def min_rows(x, out, first, stop):
    _extreme_rows(x, x.dtype.type(-1), out, first, stop)


@device
def further(a, b, sign):
    """The larger (sign 1) or smaller (sign -1) of two numbers, or the first nan. (In one choice AVX2 does it number by number.)"""
    found = a if a * sign >= b * sign else b
    return a if math.isnan(a) else found


@device
def _extreme_columns(x, sign, out, first, stop):
    for k in range(first, stop):
        i, start, end, to, columns = _tile(k, out, x)
        best = out[to, columns]
        copy(x[i, start, columns], best)
        start += 1
        behind = start + (end - start) // 4 * 4
        for r in range(start, behind, 4):
            a, b, c, d = x[i, r, columns], x[i, r + 1, columns], x[i, r + 2, columns], x[i, r + 3, columns]
            for j in range(best.size):
                upper = further(further(best[j], a[j], sign), b[j], sign)
                best[j] = further(upper, further(c[j], d[j], sign), sign)
        for r in range(behind, end):
            a = x[i, r, columns]
            for j in range(best.size):
                best[j] = further(best[j], a[j], sign)


@kernel
def max_columns(x, out, first, stop):
    _extreme_columns(x, x.dtype.type(1), out, first, stop)


@kernel
def min_columns(x, out, first, stop):
    _extreme_columns(x, x.dtype.type(-1), out, first, stop)


@kernel
def first_extreme_columns(x, largest, best, place):
    """The extreme element of each column of each matrix, and the row in which it first is; nan counts as extreme."""
    sign = x.dtype.type(1 if largest else -1)
    where = np.empty(x.shape[2], np.int32)
    for k in range(x.shape[0]):
        top, at = best[k], place[k]
        copy(x[k, 0], top)
        where[:] = 0
        for i in range(1, x.shape[1]):
            row = x[k, i]
            for j in range(row.size):
                v, b = row[j], top[j]
                new = (v * sign > b * sign) | (math.isnan(v) & (not math.isnan(b)))
                top[j] = v if new else b
                where[j] = np.int32(i) if new else where[j]
        for j in range(at.size):
            at[j] = where[j]
