"""Compiled loops of normalisation: over rows (layer norm), groups of channels, and the channels of a batch.

Column sums are added in float32 over a few rows and then in float64, so that long columns lose no accuracy.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_rows import mean_of, read_ahead, squares_from
from ferro.native.jit import device, kernel, reduction

f64 = np.float64
_BLOCK = 32  # rows added in the precision of the data
_PIECE = 2048  # numbers that stay in the cache between two readings
_COLUMNS = 256  # of a matrix, that are taken together
_FEW = 32  # places of a channel, of which each is a column


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


# --- groups of channels ----------------------------------------------------------------------------------------------


@device
def _joined(n, mean, squares, more, m, q):
    """Mean and squares of n numbers and of `more` together. Source: Chan, Golub and LeVeque, Updating Formulae, 1979."""
    if n == 0:
        return m, q
    d = m - mean
    return mean + d * more / (n + more), squares + q + d * d * n * more / (n + more)


@device
def _moments(x):
    """The mean of a vector and the sum of the squares of the distances from it, in float64; read once, in short pieces."""
    mean, squares = f64(0), f64(0)
    for start in range(0, x.size, _PIECE):
        piece = x[start : min(start + _PIECE, x.size)]
        m = mean_of(piece)
        near = x.dtype.type(m)
        q = squares_from(piece, near) - piece.size * (m - f64(near)) ** 2
        mean, squares = _joined(start, mean, squares, piece.size, m, q)
    return mean, squares


@device
def _affine(x, mean, scale, shift, out):
    """(x - mean) scale + shift."""
    for j in range(x.size):
        out[j] = (x[j] - mean) * scale + shift


@device
def _slope(g, x, mean, of_g, of_x, shift, out):
    """g of_g - (x - mean) of_x - shift."""
    for j in range(x.size):
        out[j] = g[j] * of_g - ((x[j] - mean) * of_x + shift)


@device
def _each(parameter, each, value):
    """A parameter in rows, with a number for each channel of a group; `value` for one that is absent."""
    return parameter if parameter.size else np.full((1, each), value, parameter.dtype)


@kernel
def group_norm(x, weight, bias, eps, out, mean, rstd):
    """A row of x has the channels and places of a group; weight and bias have the channels of one group after the other."""
    T = x.dtype.type
    each, places = x.shape[1], x.shape[2]
    scales, shifts = _each(weight, each, 1), _each(bias, each, 0)
    for i in range(x.shape[0]):
        row = x[i].reshape(-1)
        center, squares = _moments(row)
        m, r = T(center), T(1 / math.sqrt(squares / row.size + eps))
        mean[i], rstd[i] = m, r
        w, b = scales[i % len(scales)], shifts[i % len(shifts)]
        if places == 1:
            target = out[i].reshape(-1)
            for k in range(each):
                target[k] = (row[k] - m) * (r * w[k]) + b[k]
        else:
            for k in range(each):
                _affine(x[i, k], m, r * w[k], b[k], out[i, k])


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
            one, two = _weighted_sums_of_products(g_row, w, row, m)
            plain, product = f64(one), f64(two)
            for k in range(g_weight.shape[1]):
                g_weight[i, k] = f64(g_row[k] * ((row[k] - m) * r))
            for k in range(g_bias.shape[1]):
                g_bias[i, k] = f64(g_row[k])
        else:
            for k in range(each):
                one, two = _sums_of_products(g[i, k], x[i, k], m)
                plain += f64(one * w[k])
                product += f64(two * w[k])
                if g_weight.size:
                    g_weight[i, k] = f64(two) * f64(r)
                if g_bias.size:
                    g_bias[i, k] = f64(one)
        if not out.size:
            continue
        count = f64(each * places)
        of_x, shift = T(product * r / count * r * r), T(plain / count * r)
        if places == 1:
            target = out[i].reshape(-1)
            for k in range(each):
                target[k] = g_row[k] * (r * w[k]) - ((row[k] - m) * of_x + shift)
        else:
            for k in range(each):
                _slope(g[i, k], x[i, k], m, r * w[k], of_x, shift, out[i, k])


# --- channels of a batch ---------------------------------------------------------------------------------------------

# A kernel takes the channels from `first` to before `last`, so many at a time that they lie side by side for some length.
# Where channels have few places in each image, an image is a row of a matrix, and each place a column of its own. Inner loops
# run over slices from 0: an index that might be negative, for all Numba knows, is not vectorised.


@device
def _side(x):
    """How many channels are taken at a time."""
    return max(1, (_COLUMNS if x.shape[2] < _FEW else _PIECE) // x.shape[2])


@device
def _add(some, sums):
    """Add sums of some rows, in the precision of the data, to those of all rows, in float64; they begin anew."""
    for k in range(some.size):
        sums[k] += f64(some[k])
    some[:] = 0


@device
def _column_moments(x, start, width, rows, mean, squares):
    """The mean of columns of a matrix, and the sum of the squares of the distances from it.

    The matrix lies in a vector; its rows are `width` apart, and the first row of the columns begins at `start`.
    """
    some = np.zeros(mean.size, x.dtype)
    for a in range(rows):
        row = x[start + a * width : start + a * width + some.size]
        for k in range(some.size):
            some[k] += row[k]
        if a % _BLOCK == _BLOCK - 1 or a == rows - 1:
            _add(some, mean)
    mean /= rows
    middle = mean.astype(x.dtype)
    for a in range(rows):
        row = x[start + a * width : start + a * width + some.size]
        for k in range(some.size):
            d = row[k] - middle[k]
            some[k] += d * d
        if a % _BLOCK == _BLOCK - 1 or a == rows - 1:
            _add(some, squares)


@device
def _column_products(g, x, start, width, rows, mean, plain, product):
    """The sums of g and of g (x - mean) of such columns."""
    ones, twos = np.zeros(mean.size, x.dtype), np.zeros(mean.size, x.dtype)
    for a in range(rows):
        at = start + a * width
        g_row, row = g[at : at + ones.size], x[at : at + ones.size]
        for k in range(ones.size):
            ones[k] += g_row[k]
            twos[k] += g_row[k] * (row[k] - mean[k])
        if a % _BLOCK == _BLOCK - 1 or a == rows - 1:
            _add(ones, plain)
            _add(twos, product)


@device
def _channel_moments(x, low, means, squares):
    """The mean of channels from `low` on, and the sum of the squares of the distances from it; both begin at 0."""
    n, channels, places = x.shape
    if places < _FEW:
        some, more = np.zeros(means.size * places), np.zeros(means.size * places)
        _column_moments(x.reshape(-1), low * places, channels * places, n, some, more)
        for j in range(some.size):
            k = j // places
            means[k], squares[k] = _joined(j % places * n, means[k], squares[k], n, some[j], more[j])
    else:
        for a in range(n):
            for k in range(means.size):
                m, q = _moments(x[a, low + k])
                means[k], squares[k] = _joined(a * places, means[k], squares[k], places, m, q)


@device
def _channel_products(g, x, low, mean, plain, product):
    """The sums of g and of g (x - mean) of channels from `low` on."""
    n, channels, places = x.shape
    if places < _FEW:
        some, more = np.zeros(mean.size * places), np.zeros(mean.size * places)
        middle = np.repeat(mean, places)
        _column_products(g.reshape(-1), x.reshape(-1), low * places, channels * places, n, middle, some, more)
        for j in range(some.size):
            plain[j // places] += some[j]
            product[j // places] += more[j]
    else:
        for a in range(n):
            for k in range(mean.size):
                one, two = _sums_of_products(g[a, low + k], x[a, low + k], mean[k])
                plain[k] += f64(one)
                product[k] += f64(two)


@kernel
def batch_norm(x, weight, bias, running_mean, running_var, own, eps, first, last, out, mean, var):
    """`own`: mean and variance are those of x; else the running ones. They are written down too."""
    T = x.dtype.type
    n, channels, places = x.shape
    for low in range(first, last, _side(x)):
        high = min(low + _side(x), last)
        count, m, v = high - low, mean[low:high], var[low:high]
        scale, shift = np.ones(count, x.dtype), np.zeros(count, x.dtype)
        if own:
            means, squares = np.zeros(count), np.zeros(count)
            _channel_moments(x, low, means, squares)
            for k in range(count):
                m[k], v[k] = T(means[k]), T(squares[k] / (n * places))
        else:
            m[:] = running_mean[low:high]
            v[:] = running_var[low:high]
        for k in range(count):
            scale[k] = T(1) / T(math.sqrt(v[k] + T(eps)))
            if weight.size:
                scale[k] *= weight[low + k]
            if bias.size:
                shift[k] = bias[low + k]
        if places < _FEW:
            ms, scales, shifts = np.repeat(m, places), np.repeat(scale, places), np.repeat(shift, places)
            numbers, results = x.reshape(-1), out.reshape(-1)
            for a in range(n):
                at = (a * channels + low) * places
                row, target = numbers[at : at + ms.size], results[at : at + ms.size]
                for j in range(ms.size):
                    target[j] = (row[j] - ms[j]) * scales[j] + shifts[j]
        else:
            for a in range(n):
                for k in range(count):
                    _affine(x[a, low + k], m[k], scale[k], shift[k], out[a, low + k])


@kernel
def batch_norm_vjp(g, x, weight, mean, var, own, eps, first, last, out, g_weight, g_bias):
    """`own`: mean and variance depend on x. Empty results: not wanted."""
    T = x.dtype.type
    n, channels, places = x.shape
    for low in range(first, last, _side(x)):
        high = min(low + _side(x), last)
        count, m = high - low, mean[low:high]
        plain, product = np.zeros(count), np.zeros(count)
        of_g, of_x, shift = np.empty(count, x.dtype), np.zeros(count, x.dtype), np.zeros(count, x.dtype)
        if own or g_weight.size or g_bias.size:
            _channel_products(g, x, low, m, plain, product)
        for k in range(count):
            r = T(1) / T(math.sqrt(var[low + k] + T(eps)))
            if g_weight.size:
                g_weight[low + k] = T(product[k] * r)
            if g_bias.size:
                g_bias[low + k] = T(plain[k])
            of_g[k] = r * weight[low + k] if weight.size else r
            if own:
                of_x[k] = T(product[k] * r / (n * places) * r * of_g[k])
                shift[k] = T(plain[k] / (n * places) * of_g[k])
        if not out.size:
            continue
        if places < _FEW:
            ms, shifts = np.repeat(m, places), np.repeat(shift, places)
            of_gs, of_xs = np.repeat(of_g, places), np.repeat(of_x, places)
            grads, numbers, results = g.reshape(-1), x.reshape(-1), out.reshape(-1)
            for a in range(n):
                at = (a * channels + low) * places
                g_row, row, target = grads[at : at + ms.size], numbers[at : at + ms.size], results[at : at + ms.size]
                for j in range(ms.size):
                    target[j] = g_row[j] * of_gs[j] - ((row[j] - ms[j]) * of_xs[j] + shifts[j])
        else:
            for a in range(n):
                for k in range(count):
                    _slope(g[a, low + k], x[a, low + k], m[k], of_g[k], of_x[k], shift[k], out[a, low + k])
