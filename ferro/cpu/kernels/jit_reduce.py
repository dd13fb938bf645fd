"""Compiled kernels of sums, of sums of squared distances from a mean, and of products, over rows and over columns.

Products are taken in float64. At most _BLOCK numbers are added in the precision of the data, in several interleaved
sums; the sums of blocks are added in float64.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import kernel, reduction

f64 = np.float64
_BLOCK = 2048
_ROWS = 32


@reduction
def _sum(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@reduction
def _squares(x, mean):
    total = x.dtype.type(0)
    for j in range(x.size):
        d = x[j] - mean
        total += d * d
    return total


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
            total += f64(_sum(x[i, start : start + _BLOCK]))
        out[i] = total


@kernel
def square_rows(x, mean, out):
    """out[i] is the sum of (x[i, j] - mean[i])²; out is of float64."""
    n = x.shape[1]
    for i in range(x.shape[0]):
        total = f64(0)
        for start in range(0, n, _BLOCK):
            total += f64(_squares(x[i, start : start + _BLOCK], mean[i]))
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
