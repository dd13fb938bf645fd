"""Compiled kernels of sums, of sums of squared distances from a mean, of products and of extrema, over rows and columns.

Products are taken in float64. At most _BLOCK numbers are added in the precision of the data, in several interleaved
sums; the sums of blocks are added in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit import device, kernel, reduction
from ferro.cpu.kernels.jit_math import rank, unrank
from ferro.cpu.kernels.jit_rows import squares_from, total_of

f64 = np.float64
_BLOCK = 2048
_ROWS = 32


@reduction
def _product(x):
    product = f64(1)
    for j in range(x.size):
        product *= f64(x[j])
    return product


@kernel
def prod_rows(x, out):
    """out[i] is the product of the row x[i]; out is of float64."""
    for i in range(x.shape[0]):
        out[i] = _product(x[i])


@kernel
def prod_columns(x, out):
    """out[k, j] is the product of x[k, i, j] over i; out is of float64."""
    for k in range(x.shape[0]):
        out[k] = 1
        row = out[k]
        for i in range(x.shape[1]):
            source = x[k, i]
            for j in range(row.size):
                row[j] *= f64(source[j])


@kernel
def sum_rows(x, out):
    """out[i] is the sum of the row x[i]; out is of float64."""
    n = x.shape[1]
    for i in range(x.shape[0]):
        total = f64(0)
        for start in range(0, n, _BLOCK):
            total += f64(total_of(x[i, start : start + _BLOCK]))
        out[i] = total


@kernel
def square_rows(x, mean, out):
    """out[i] is the sum of (x[i, j] - mean[i])²; out is of float64."""
    n = x.shape[1]
    for i in range(x.shape[0]):
        total = f64(0)
        for start in range(0, n, _BLOCK):
            total += f64(squares_from(x[i, start : start + _BLOCK], mean[i]))
        out[i] = total


@kernel
def sum_columns(x, out):
    """out[k, j] is the sum of x[k, i, j] over i; out is of float64."""
    n, m = x.shape[1:]
    part = np.zeros(m, x.dtype)
    for k in range(x.shape[0]):
        out[k] = 0
        for start in range(0, n, _ROWS):
            for i in range(start, min(start + _ROWS, n)):
                for j in range(m):
                    part[j] += x[k, i, j]
            for j in range(m):
                out[k, j] += f64(part[j])
                part[j] = 0


@kernel
def square_columns(x, mean, out):
    """out[k, j] is the sum of (x[k, i, j] - mean[k, j])² over i; out is of float64."""
    n, m = x.shape[1:]
    part = np.zeros(m, x.dtype)
    for k in range(x.shape[0]):
        out[k] = 0
        for start in range(0, n, _ROWS):
            for i in range(start, min(start + _ROWS, n)):
                for j in range(m):
                    d = x[k, i, j] - mean[k, j]
                    part[j] += d * d
            for j in range(m):
                out[k, j] += f64(part[j])
                part[j] = 0


@device
def _extreme(x, sign):
    """The largest (sign 1) or smallest (sign -1) number; nan if there is one."""
    high = low = rank(x[0] * sign)
    for j in range(x.size):
        r = rank(x[j] * sign)
        high = max(high, r)
        low = min(low, r)
    bad = math.isnan(unrank(high)) | math.isnan(unrank(low))  # nan ranks beyond the infinity of its sign
    return x.dtype.type(np.nan) if bad else unrank(high) * sign


@kernel
def max_rows(x, out):
    for i in range(x.shape[0]):
        out[i] = _extreme(x[i], x.dtype.type(1))


@kernel
def min_rows(x, out):
    for i in range(x.shape[0]):
        out[i] = _extreme(x[i], x.dtype.type(-1))


@device
def _extreme_columns(x, sign, out):
    for k in range(x.shape[0]):
        best = out[k]
        best[:] = x[k, 0]
        for i in range(1, x.shape[1]):
            row = x[k, i]
            for j in range(row.size):
                v, b = row[j], best[j]
                best[j] = b if (b * sign >= v * sign) | math.isnan(b) else v


@kernel
def max_columns(x, out):
    _extreme_columns(x, x.dtype.type(1), out)


@kernel
def min_columns(x, out):
    _extreme_columns(x, x.dtype.type(-1), out)


@kernel
def first_extreme_columns(x, largest, best, place):
    """The extreme element of each column of each matrix, and the row in which it first is; nan counts as extreme."""
    sign = x.dtype.type(1 if largest else -1)
    where = np.empty(x.shape[2], np.int32)
    for k in range(x.shape[0]):
        top, at = best[k], place[k]
        top[:] = x[k, 0]
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
