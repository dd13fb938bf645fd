"""Compiled kernels of scans along the middle dimension of a (rows, length, columns) array.

Sums and products are carried in float64 and rounded once for each place.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits64, float64_of
from ferro.cpu.kernels.jit_math import exp, log1p_unit
from ferro.cpu.kernels.jit_rows import copy
from ferro.native.jit import device, kernel, whole_registers

f64, i64 = np.float64, np.int64
_CHECKED = 64  # elements that are first compared with the extreme one before them


@device
def _four_rows(x, k, reverse, out):
    """The sums of four rows: the additions of a row wait for each other. At the end the last row may be done again."""
    n, last = x.shape[1], x.shape[0] - 1
    a, b, c, d = x[k], x[min(k + 1, last)], x[min(k + 2, last)], x[min(k + 3, last)]
    to_a, to_b, to_c, to_d = out[k], out[min(k + 1, last)], out[min(k + 2, last)], out[min(k + 3, last)]
    s0 = s1 = s2 = s3 = f64(0)
    for i in range(n):
        p = n - 1 - i if reverse else i
        s0 += f64(a[p, 0])
        s1 += f64(b[p, 0])
        s2 += f64(c[p, 0])
        s3 += f64(d[p, 0])
        to_a[p, 0], to_b[p, 0], to_c[p, 0], to_d[p, 0] = s0, s1, s2, s3


@kernel
def cumsum(x, reverse, out):
    """The sums up to each place, or from each place on."""
    rows, n, m = x.shape
    if m == 1:
        for k in range(0, rows, 4):
            _four_rows(x, k, reverse, out)
        return
    total = np.zeros(m)
    for k in range(rows):
        total[:] = 0
        for i in range(n):
            p = n - 1 - i if reverse else i
            source, target = x[k, p], out[k, p]
            for j in range(m):
                t = total[j] + f64(source[j])
                total[j] = t
                target[j] = t


@kernel
def cumprod(x, out):
    n, m = x.shape[1:]
    product = np.ones(m)
    for k in range(x.shape[0]):
        if m == 1:
            t = f64(1)
            for i in range(n):
                t *= f64(x[k, i, 0])
                out[k, i, 0] = t
        else:
            product[:] = 1
            for i in range(n):
                for j in range(m):
                    product[j] *= f64(x[k, i, j])
                    out[k, i, j] = product[j]


@kernel
def affine_scan(a, b, reverse, out):
    """out[k, i] = b[k, i] + a[k, i] out[k, i - 1], carried in float64; in reverse with i + 1 for i - 1."""
    n, m = b.shape[1:]
    s = np.zeros(m)
    for k in range(b.shape[0]):
        for i in range(n):
            p = n - 1 - i if reverse else i
            x, y, z = a[k, p], b[k, p], out[k, p]
            for j in range(m):
                t = f64(y[j]) + f64(x[j]) * s[j] if i else f64(y[j])
                s[j] = t
                z[j] = t


@kernel
def picked_sum(g, index, out):
    """out[k, index[k, i, j], j] += g[k, i, j], summed in float64; zeros elsewhere."""
    n, m = g.shape[1:]
    total = np.empty((n, m))
    for k in range(g.shape[0]):
        total[:] = 0
        if m == 1:  # the index often stays the same
            p, t = np.uint64(0), f64(0)
            for i in range(n):
                q = np.uint64(index[k, i, 0])
                if q != p:
                    total[p, 0] += t
                    p, t = q, f64(0)
                t += f64(g[k, i, 0])
            total[p, 0] += t
            for i in range(n):
                out[k, i, 0] = total[i, 0]
            continue
        for i in range(n):
            for j in range(m):
                total[np.uint64(index[k, i, j]), j] += f64(g[k, i, j])
        for i in range(n):
            for j in range(m):
                out[k, i, j] = total[i, j]


@kernel
def running_extremum(x, largest, out, index):
    """The extreme element so far and where it was last; a nan replaces every number, and only a nan replaces a nan."""
    n, m = x.shape[1:]
    T = x.dtype.type
    best, place = np.empty(m, x.dtype), np.empty(m, np.int64)
    sign = T(1) if largest else T(-1)
    for k in range(x.shape[0]):
        copy(x[k, 0], best)
        place[:] = 0
        for i in range(n):
            row, values, places = x[k, i], out[k, i], index[k, i]
            for j in range(m):
                v, b = row[j], best[j]
                new = (v * sign >= b * sign) | math.isnan(v)
                b = v if new else b
                p = i if new else place[j]
                best[j], place[j], values[j], places[j] = b, p, b, p


@device
def _behind(row, b, sign):
    """Whether all numbers of a row are behind the extreme one."""
    hit = np.int32(0)
    for i in range(row.size):
        hit |= np.int32(0) if row[i] * sign < b * sign else np.int32(1)
    return hit == 0


@kernel
def running_extremum_rows(x, largest, out, index):
    """The same along the rows of a matrix."""
    n = x.shape[1]
    sign = x.dtype.type(1 if largest else -1)
    for k in range(x.shape[0]):
        row, values, places = x[k], out[k], index[k]
        b, p = row[0], 0
        start = 0
        while start < n:
            stop = min(start + _CHECKED, n)  # mostly nothing new comes: then vector instructions do it
            if not _behind(row[start:stop], b, sign):
                stop = min(start + 8, n)
                if not _behind(row[start:stop], b, sign):
                    for i in range(start, stop):
                        v = row[i]
                        if v * sign >= b * sign or math.isnan(v):
                            b, p = v, i
                        values[i], places[i] = b, p
                    start = stop
                    continue
            values[start:stop] = b
            places[start:stop] = p
            start = stop


@device
def _log_from_one(s, like):
    """The logarithm of a float64 from 1 on, in the precision of `like`."""
    b = bits64(s)
    T = type(like)
    z = float64_of((b & i64(0x000FFFFFFFFFFFFF)) | i64(0x3FF0000000000000)) - f64(1)
    y = T((b >> i64(52)) - i64(1023)) * T(0.6931471805599453) + log1p_unit(T(z))
    return T(s) if math.isnan(s) else y


@device
def _one_more(v, t, s):
    """log(s) + t and another exponent v: the larger of t and v, and the new s."""
    T = type(v)
    d = T(0) if v == t else v - t  # infinity - infinity must not arise
    e = f64(exp(-abs(d)))
    return (v if d > T(0) else t), (s * e + f64(1) if d > T(0) else s + e)


@kernel
def logcumsumexp(x, out):
    """Along the middle dimension: the largest element so far and the sum of the exponentials of the distances from it."""
    whole_registers()
    n, m = x.shape[1:]
    top, total = np.empty(m, x.dtype), np.empty(m)
    for k in range(x.shape[0]):
        if m == 1:
            t, s = x[k, 0, 0], f64(0)
            for i in range(n):
                t, s = _one_more(x[k, i, 0], t, s)
                out[k, i, 0] = t + _log_from_one(s, t)
            continue
        copy(x[k, 0], top)
        total[:] = 0
        for i in range(n):
            source, target = x[k, i], out[k, i]
            for j in range(m):
                t, s = _one_more(source[j], top[j], total[j])
                top[j], total[j] = t, s
                target[j] = t + _log_from_one(s, t)
