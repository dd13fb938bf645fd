"""Compiled kernels of normalisation: over rows (layer norm), and over the channels of a (batch, channel, place) array.

Column sums are added in float32 over a few rows and then in float64, so that long columns lose no accuracy.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_rows import mean_of, read_ahead, squares_from, total_of
from ferro.native.jit import kernel, reduction

f64 = np.float64
_BLOCK = 32  # rows added in the precision of the data
_PIECE = 2048  # numbers that stay in the cache between two readings


@reduction
def _sums_of_products(g, x, mean):
    """The sums of g and of g (x - mean)."""
    plain = x.dtype.type(0)
    product = x.dtype.type(0)
    for j in range(x.size):
        plain += g[j]
        product += g[j] * (x[j] - mean)
    return plain, product


@reduction
def _weighted_sums_of_products(g, w, x, mean):
    """The sums of g w and of g w (x - mean)."""
    plain = x.dtype.type(0)
    product = x.dtype.type(0)
    for j in range(x.size):
        gw = g[j] * w[j]
        plain += gw
        product += gw * (x[j] - mean)
    return plain, product


# --- rows ------------------------------------------------------------------------------------------------------------


@kernel
def layer_norm(x, weight, bias, eps, out, mean, rstd):
    T = x.dtype.type
    n = x.shape[1]
    for i in range(x.shape[0]):
        m = T(mean_of(x[i]))
        r = T(1 / math.sqrt(squares_from(x[i], m) / n + eps))
        mean[i] = m
        rstd[i] = r
        read_ahead(x, i + 1)
        if weight.size and bias.size:
            for j in range(n):
                out[i, j] = (x[i, j] - m) * r * weight[j] + bias[j]
        elif weight.size:
            for j in range(n):
                out[i, j] = (x[i, j] - m) * r * weight[j]
        else:
            for j in range(n):
                out[i, j] = (x[i, j] - m) * r
            if bias.size:
                for j in range(n):
                    out[i, j] += bias[j]


@kernel
def rms_norm(x, weight, eps, out, rstd):
    T = x.dtype.type
    n = x.shape[1]
    for i in range(x.shape[0]):
        r = T(1 / math.sqrt(squares_from(x[i], T(0)) / n + eps))
        rstd[i] = r
        if weight.size:
            for j in range(n):
                out[i, j] = x[i, j] * r * weight[j]
        else:
            for j in range(n):
                out[i, j] = x[i, j] * r


@kernel
def layer_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    """The gradient for x goes into `out`, those for weight and bias are added to rows of float64; empty: not wanted."""
    T = x.dtype.type
    n = x.shape[1]
    some_weight, some_bias = np.zeros(n, x.dtype), np.zeros(n, x.dtype)
    for i in range(x.shape[0]):
        m, r = mean[i], rstd[i]
        if out.size:
            if weight.size:
                plain, product = _weighted_sums_of_products(g[i], weight, x[i], m)
            else:
                plain, product = _sums_of_products(g[i], x[i], m)
            plain /= T(n)
            product = product * r / T(n) * r  # in this order: r² alone may leave the range
            if weight.size:
                for j in range(n):
                    out[i, j] = r * (g[i, j] * weight[j] - plain - (x[i, j] - m) * product)
            else:
                for j in range(n):
                    out[i, j] = r * (g[i, j] - plain - (x[i, j] - m) * product)
        if g_weight.size or g_bias.size:
            for j in range(n):
                some_weight[j] += g[i, j] * ((x[i, j] - m) * r)
                some_bias[j] += g[i, j]
            if i % _BLOCK == _BLOCK - 1 or i == x.shape[0] - 1:
                for j in range(g_weight.size):
                    g_weight[0, j] += f64(some_weight[j])
                for j in range(g_bias.size):
                    g_bias[0, j] += f64(some_bias[j])
                some_weight[:] = 0
                some_bias[:] = 0


@kernel
def rms_norm_vjp(g, x, weight, rstd, out, g_weight):
    """As `layer_norm_vjp`, with 0 in the place of the mean."""
    T = x.dtype.type
    n = x.shape[1]
    some_weight = np.zeros(n, x.dtype)
    for i in range(x.shape[0]):
        r = rstd[i]
        if out.size:
            if weight.size:
                product = _weighted_sums_of_products(g[i], weight, x[i], T(0))[1] * r / T(n) * r
                for j in range(n):
                    out[i, j] = r * (g[i, j] * weight[j] - x[i, j] * product)
            else:
                product = _sums_of_products(g[i], x[i], T(0))[1] * r / T(n) * r
                for j in range(n):
                    out[i, j] = r * (g[i, j] - x[i, j] * product)
        if g_weight.size:
            for j in range(n):
                some_weight[j] += g[i, j] * (x[i, j] * r)
            if i % _BLOCK == _BLOCK - 1 or i == x.shape[0] - 1:
                for j in range(n):
                    g_weight[0, j] += f64(some_weight[j])
                some_weight[:] = 0


# --- channels: a channel has many places ------------------------------------------------------------------------------


@kernel
def channel_sums(x, first, last, totals):
    """Adds to totals, a float64 per channel, the sum of each channel from `first` to before `last`."""
    for a in range(x.shape[0]):
        for k in range(first, last):
            totals[k] += f64(total_of(x[a, k]))


@kernel
def channel_squares(x, mean, first, last, totals):
    """Adds to totals the sum of the squares of the distances from the channel's mean."""
    for a in range(x.shape[0]):
        for k in range(first, last):
            totals[k] += squares_from(x[a, k], mean[k])


@kernel
def channel_moments(x, sums, squares):
    """The sum of each x[a, k] and the sum of the squares of the distances from its mean; read once, in short pieces."""
    n = x.shape[2]
    for a in range(x.shape[0]):
        for k in range(x.shape[1]):
            total, spread = f64(0), f64(0)
            for start in range(0, n, _PIECE):
                piece = x[a, k, start : start + _PIECE]
                m = mean_of(piece)
                s = m * piece.size
                near = x.dtype.type(m)
                q = squares_from(piece, near) - piece.size * (m - f64(near)) ** 2
                d = m - total / start if start else f64(0)
                spread += q + d * d * start * piece.size / (start + piece.size)
                total += s
            sums[a, k], squares[a, k] = total, spread


@kernel
def channel_products(g, x, mean, first, last, plain, product):
    """Adds to two float64 rows the sums of g and of g (x - mean)."""
    for a in range(x.shape[0]):
        for k in range(first, last):
            one, two = _sums_of_products(g[a, k], x[a, k], mean[k])
            plain[k] += f64(one)
            product[k] += f64(two)


# Of matrices with a row for each image and channel, the rows from `first` to `stop` are computed.


@kernel
def channel_affine(x, mean, scale, shift, out, first, stop):
    """(x - mean) scale + shift."""
    k = first % mean.size
    for i in range(first, stop):
        row, target = x[i], out[i]
        m, s, b = mean[k], scale[k], shift[k]
        for j in range(row.size):
            target[j] = (row[j] - m) * s + b
        k = k + 1 if k + 1 < mean.size else 0


@kernel
def channel_norm_vjp(g, x, mean, scale, plain, product, out, first, stop):
    """(g - plain - (x - mean) product) scale."""
    k = first % mean.size
    for i in range(first, stop):
        grads, row, target = g[i], x[i], out[i]
        m, s, p, q = mean[k], scale[k], plain[k], product[k]
        for j in range(row.size):
            target[j] = (grads[j] - p - (row[j] - m) * q) * s
        k = k + 1 if k + 1 < mean.size else 0


@kernel
def channel_mix(g, x, mean, rstd, of_g, of_x, shift, out, first, stop):
    """g of_g + (x - mean) rstd of_x + shift."""
    k = first % mean.size
    for i in range(first, stop):
        grads, row, target = g[i], x[i], out[i]
        m, r, p, q, b = mean[k], rstd[k], of_g[k], of_x[k], shift[k]
        for j in range(row.size):
            target[j] = grads[j] * p + ((row[j] - m) * r * q + b)
        k = k + 1 if k + 1 < mean.size else 0


# --- channels: a channel has one place, and is a column of a matrix ---------------------------------------------------


# Inner loops run over slices from 0: an index that might be negative, for all Numba knows, is not vectorised.


@kernel
def column_sums(x, first, last, totals):
    partial = np.zeros(last - first, x.dtype)
    total = totals[first:last]
    for a in range(x.shape[0]):
        row = x[a, first:last]
        for k in range(partial.size):
            partial[k] += row[k]
        if a % _BLOCK == _BLOCK - 1 or a == x.shape[0] - 1:
            for k in range(partial.size):
                total[k] += f64(partial[k])
            partial[:] = 0


@kernel
def column_squares(x, mean, first, last, totals):
    partial = np.zeros(last - first, x.dtype)
    total, middle = totals[first:last], mean[first:last]
    for a in range(x.shape[0]):
        row = x[a, first:last]
        for k in range(partial.size):
            d = row[k] - middle[k]
            partial[k] += d * d
        if a % _BLOCK == _BLOCK - 1 or a == x.shape[0] - 1:
            for k in range(partial.size):
                total[k] += f64(partial[k])
            partial[:] = 0


@kernel
def column_products(g, x, mean, first, last, plain, product):
    ones = np.zeros(last - first, x.dtype)
    twos = np.zeros(last - first, x.dtype)
    one, two, middle = plain[first:last], product[first:last], mean[first:last]
    for a in range(x.shape[0]):
        row, g_row = x[a, first:last], g[a, first:last]
        for k in range(ones.size):
            ones[k] += g_row[k]
            twos[k] += g_row[k] * (row[k] - middle[k])
        if a % _BLOCK == _BLOCK - 1 or a == x.shape[0] - 1:
            for k in range(ones.size):
                one[k] += f64(ones[k])
                two[k] += f64(twos[k])
            ones[:] = 0
            twos[:] = 0


@kernel
def column_affine(x, mean, scale, shift, out):
    for a in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[a, k] = (x[a, k] - mean[k]) * scale[k] + shift[k]


@kernel
def column_norm_vjp(g, x, mean, scale, plain, product, out):
    for a in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[a, k] = (g[a, k] - plain[k] - (x[a, k] - mean[k]) * product[k]) * scale[k]


# --- channels of small arrays: everything in one call -----------------------------------------------------------------


@kernel
def batch_norm(x, weight, bias, eps, out, mean, var):
    """The channels of x normalised by their own mean and variance, which are written down too."""
    T = x.dtype.type
    count = x.shape[0] * x.shape[2]
    for k in range(x.shape[1]):
        total = f64(0)
        for a in range(x.shape[0]):
            total += f64(total_of(x[a, k]))
        m = T(total / count)
        spread = f64(0)
        for a in range(x.shape[0]):
            spread += squares_from(x[a, k], m)
        v = T(spread / count)
        mean[k], var[k] = m, v
        scale = T(1) / T(math.sqrt(v + T(eps)))
        if weight.size:
            scale *= weight[k]
        shift = bias[k] if bias.size else T(0)
        for a in range(x.shape[0]):
            for j in range(x.shape[2]):
                out[a, k, j] = (x[a, k, j] - m) * scale + shift


@kernel
def batch_norm_vjp(g, x, mean, var, weight, eps, out, sums):
    """The gradient for x goes into `out`, if not empty, those for weight and bias into the rows of `sums`."""
    T = x.dtype.type
    count = x.shape[0] * x.shape[2]
    for k in range(x.shape[1]):
        m = mean[k]
        r = T(1) / T(math.sqrt(var[k] + T(eps)))
        plain, product = f64(0), f64(0)
        for a in range(x.shape[0]):
            one, two = _sums_of_products(g[a, k], x[a, k], m)
            plain += f64(one)
            product += f64(two)
        sums[0, k], sums[1, k] = T(product * r), T(plain)
        if out.size:
            scale = r * weight[k] if weight.size else r
            level, along = T(plain / count), T(product * r * r / count)
            for a in range(x.shape[0]):
                for j in range(x.shape[2]):
                    out[a, k, j] = (g[a, k, j] - level - (x[a, k, j] - m) * along) * scale
