"""Compiled kernels of scans along the middle dimension of a (rows, length, columns) array.

Sums and products are carried in float64 and rounded once for each place.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit import kernel

f64 = np.float64


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
def running_extremum(x, largest, out, index):
    """The extreme element so far and where it was last; a nan replaces every number, and only a nan replaces a nan."""
    n, m = x.shape[1:]
    for k in range(x.shape[0]):
        for j in range(m):
            best, place = x[k, 0, j], 0
            for i in range(n):
                v = x[k, i, j]
                if math.isnan(v) or (v >= best if largest else v <= best):
                    best, place = v, i
                out[k, i, j] = best
                index[k, i, j] = place
