"""Compiled loops of normalisation over rows (layer norm) and groups of channels.

Long rows and columns lose no accuracy: float32 is added over a few rows, or a piece of a row, and then float64.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_rows import PIECE, in_pieces, mean_of, read_ahead, side_by_side, squares_from
from ferro.native.jit import device, kernel, reduction

f64 = np.float64
BLOCK = 32  # rows added in the precision of the data


@reduction
def _sums_of_products(g, x, mean):
    plain = x.dtype.type(0)
    product = x.dtype.type(0)
    for j in range(x.size):
        plain += g[j]
        product += g[j] * (x[j] - mean)
    return plain, product


@reduction
def _weighted_sums_of_products(g, w, x, mean):
    plain = x.dtype.type(0)
    product = x.dtype.type(0)
    for j in range(x.size):
        gw = g[j] * w[j]
        plain += gw
        product += gw * (x[j] - mean)
    return plain, product


@device
def sums_of_products(g, x, mean):
    """The sums of g and of g (x - mean), as float64."""
    plain, product = f64(0), f64(0)
    for start in range(0, x.size, PIECE):
        stop = min(start + PIECE, x.size)
        one, two = _sums_of_products(g[start:stop], x[start:stop], mean)
        plain += f64(one)
        product += f64(two)
    return plain, product


@device
def weighted_sums_of_products(g, w, x, mean):
    """The sums of g w and of g w (x - mean), as float64."""
    plain, product = f64(0), f64(0)
    for start in range(0, x.size, PIECE):
        stop = min(start + PIECE, x.size)
        one, two = _weighted_sums_of_products(g[start:stop], w[start:stop], x[start:stop], mean)
        plain += f64(one)
        product += f64(two)
    return plain, product


@device
def joined(n, mean, squares, more, m, q):
    """Mean and squares of n numbers and of `more` together. Source: Chan, Golub and LeVeque, Updating Formulae, 1979."""
    if n == 0:
        return m, q
    d = m - mean
    return mean + d * more / (n + more), squares + q + d * d * n * more / (n + more)


@device
def _moments(x):
    """The mean of a piece and the sum of the squares of the distances from it, in float64."""
    m = mean_of(x)
    near = x.dtype.type(m)
    return m, squares_from(x, near) - x.size * (m - f64(near)) ** 2


@device
def moments(x):
    """The mean of a vector and the sum of the squares of the distances from it, in float64; read once, in short pieces."""
    if x.size <= PIECE:  # (without slices a row of 96 takes a fifth less)
        return _moments(x)
    mean, squares = f64(0), f64(0)
    for start in range(0, x.size, PIECE):
        piece = x[start : min(start + PIECE, x.size)]
        m, q = _moments(piece)
        mean, squares = joined(start, mean, squares, piece.size, m, q)
    return mean, squares


_squares = in_pieces(squares_from)


# --- rows ------------------------------------------------------------------------------------------------------------


@kernel
def layer_norm(x, weight, bias, eps, out, mean, rstd):
    T = x.dtype.type
    n, many = x.shape[1], side_by_side(x)
    for first in range(0, x.shape[0], many):
        last = min(first + many, x.shape[0])
        for i in range(first, last):
            center, squares = moments(x[i])
            mean[i] = T(center)
            rstd[i] = T(1 / math.sqrt(squares / n + eps))
            read_ahead(x, i + 1)
        for i in range(first, last):
            m, r = mean[i], rstd[i]
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
    n, many = x.shape[1], side_by_side(x)
    for first in range(0, x.shape[0], many):
        last = min(first + many, x.shape[0])
        for i in range(first, last):
            rstd[i] = T(1 / math.sqrt(_squares(x[i], T(0)) / n + eps))
        for i in range(first, last):
            r = rstd[i]
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
                plain, product = weighted_sums_of_products(g[i], weight, x[i], m)
            else:
                plain, product = sums_of_products(g[i], x[i], m)
            shift, of_x = T(plain / n), T(product * r / n * r)
            if weight.size:
                for j in range(n):
                    out[i, j] = r * (g[i, j] * weight[j] - shift - (x[i, j] - m) * of_x)
            else:
                for j in range(n):
                    out[i, j] = r * (g[i, j] - shift - (x[i, j] - m) * of_x)
        if g_weight.size or g_bias.size:
            for j in range(n):
                some_weight[j] += g[i, j] * ((x[i, j] - m) * r)
                some_bias[j] += g[i, j]
            if i % BLOCK == BLOCK - 1 or i == x.shape[0] - 1:
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
                of_x = T(weighted_sums_of_products(g[i], weight, x[i], T(0))[1] * r / n * r)
                for j in range(n):
                    out[i, j] = r * (g[i, j] * weight[j] - x[i, j] * of_x)
            else:
                of_x = T(sums_of_products(g[i], x[i], T(0))[1] * r / n * r)
                for j in range(n):
                    out[i, j] = r * (g[i, j] - x[i, j] * of_x)
        if g_weight.size:
            for j in range(n):
                some_weight[j] += g[i, j] * (x[i, j] * r)
            if i % BLOCK == BLOCK - 1 or i == x.shape[0] - 1:
                for j in range(n):
                    g_weight[0, j] += f64(some_weight[j])
                some_weight[:] = 0


# --- groups of channels ----------------------------------------------------------------------------------------------


@device
def affine(x, mean, scale, shift, out):
    """(x - mean) scale + shift."""
    for j in range(x.size):
        out[j] = (x[j] - mean) * scale + shift


@device
def slope(g, x, mean, r, weight, plain, product, out):
    """r (g weight - plain - (x - mean) product), in this order: r³ alone may leave the range."""
    for j in range(x.size):
        out[j] = r * (g[j] * weight - plain - (x[j] - mean) * product)


@device
def _each(parameter, each, value):
    """A parameter in rows, with a number for each channel of a group; `value` for one that is absent."""
    if parameter.size:
        return parameter
    found = np.empty((1, each), parameter.dtype)
    found[:] = value
    return found


@kernel
def group_norm(x, weight, bias, eps, out, mean, rstd):
    """A row of x has the channels and places of a group; weight and bias have the channels of one group after the other."""
    T = x.dtype.type
    each, places = x.shape[1], x.shape[2]
    scales, shifts = _each(weight, each, 1), _each(bias, each, 0)
    for i in range(x.shape[0]):
        row = x[i].reshape(-1)
        center, squares = moments(row)
        m, r = T(center), T(1 / math.sqrt(squares / row.size + eps))
        mean[i], rstd[i] = m, r
        w, b = scales[i % len(scales)], shifts[i % len(shifts)]
        if places == 1:
            target = out[i].reshape(-1)
            for k in range(each):
                target[k] = (row[k] - m) * (r * w[k]) + b[k]
        else:
            for k in range(each):
                affine(x[i, k], m, r * w[k], b[k], out[i, k])


@kernel
def group_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    """The gradients for weight and bias are left apart for each row of x, as float64; empty: not wanted."""
    T = x.dtype.type
    each, places = x.shape[1], x.shape[2]
    scales = _each(weight, each, 1)
    for i in range(x.shape[0]):
        m, r, w = mean[i], rstd[i], scales[i % len(scales)]
        g_row, row = g[i].reshape(-1), x[i].reshape(-1)
        plain, product = f64(0), f64(0)
        if places == 1:
            plain, product = weighted_sums_of_products(g_row, w, row, m)
            for k in range(g_weight.shape[1]):
                g_weight[i, k] = f64(g_row[k] * ((row[k] - m) * r))
            for k in range(g_bias.shape[1]):
                g_bias[i, k] = f64(g_row[k])
        else:
            for k in range(each):
                one, two = sums_of_products(g[i, k], x[i, k], m)
                plain += one * f64(w[k])
                product += two * f64(w[k])
                if g_weight.size:
                    g_weight[i, k] = two * f64(r)
                if g_bias.size:
                    g_bias[i, k] = one
        if not out.size:
            continue
        count = f64(each * places)
        of_x, shift = T(product * r / count * r), T(plain / count)
        if places == 1:
            target = out[i].reshape(-1)
            for k in range(each):
                target[k] = r * (g_row[k] * w[k] - shift - (row[k] - m) * of_x)
        else:
            for k in range(each):
                slope(g[i, k], x[i, k], m, r, w[k], shift, of_x, out[i, k])
