"""Compiled kernels of scans along the middle dimension of a (rows, length, columns) array.

Sums and products are carried in float64 and rounded once for each place.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit import kernel

f64 = np.float64
_CHECKED = 32  # elements that are first compared with the extreme one before them


@kernel
def cumsum(x, out):
    n, m = x.shape[1:]
    total = np.zeros(m)
    for k in range(x.shape[0]):
        if m == 1:
            t = f64(0)
            for i in range(n):
                t += f64(x[k, i, 0])
                out[k, i, 0] = t
        else:
            total[:] = 0
            for i in range(n):
                for j in range(m):
                    total[j] += f64(x[k, i, j])
                    out[k, i, j] = total[j]


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
def affine_scan(a, b, out):
    """out[k, i] = b[k, i] + a[k, i] out[k, i - 1], carried in float64."""
    n, m = b.shape[1:]
    s = np.zeros(m)
    for k in range(b.shape[0]):
        if m == 1:
            t = f64(0)
            for i in range(n):
                t = f64(b[k, i, 0]) + f64(a[k, i, 0]) * t if i else f64(b[k, i, 0])
                out[k, i, 0] = t
            continue
        s[:] = 0
        for i in range(n):
            x, y, z = a[k, i], b[k, i], out[k, i]
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
        if m == 1:
            b, p = x[k, 0, 0], 0
            for start in range(0, n, _CHECKED):
                row = x[k, start : start + _CHECKED, 0]
                hit = np.int32(0)
                for i in range(row.size):
                    v = row[i] * sign
                    hit |= np.int32(0) if v < b * sign else np.int32(1)
                values, places = out[k, start : start + _CHECKED, 0], index[k, start : start + _CHECKED, 0]
                if hit == 0:  # the most frequent case, in vector instructions
                    values[:] = b
                    places[:] = p
                    continue
                for i in range(row.size):
                    v = row[i]
                    if v * sign >= b * sign or math.isnan(v):
                        b, p = v, start + i
                    values[i], places[i] = b, p
            continue
        best[:] = x[k, 0]
        place[:] = 0
        for i in range(n):
            row, values, places = x[k, i], out[k, i], index[k, i]
            for j in range(m):
                v, b = row[j], best[j]
                new = (v * sign >= b * sign) | math.isnan(v)
                b = v if new else b
                p = i if new else place[j]
                best[j], place[j], values[j], places[j] = b, p, b, p
