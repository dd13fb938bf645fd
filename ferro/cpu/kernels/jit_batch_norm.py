"""Compiled loops of batch normalisation.

A loop takes the channels from `first` to before `last`, so many at a time that they lie side by side for some length. Where
channels have few places in each image, an image is a row of a matrix, and each place a column of its own. Inner loops run over
slices from 0: an index that might be negative, for all Numba knows, is not vectorised.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_norm import BLOCK, affine, joined, moments, slope, sums_of_products
from ferro.cpu.kernels.jit_rows import copy
from ferro.cpu.thresholds import CHANNEL_FEW
from ferro.native.jit import device, kernel

f64 = np.float64
_COLUMNS = 256  # of a matrix, that are taken together
_ROW = 8192  # numbers side by side: a row of 32 kB is read as fast as memory goes, one of 6 kB at half that speed


@device
def _side(x):
    """How many channels are taken at a time."""
    return max(1, (_COLUMNS if x.shape[2] < CHANNEL_FEW else _ROW) // x.shape[2])


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
        if a % BLOCK == BLOCK - 1 or a == rows - 1:
            _add(some, mean)
    mean /= rows
    middle = mean.astype(x.dtype)
    for a in range(rows):
        row = x[start + a * width : start + a * width + some.size]
        for k in range(some.size):
            d = row[k] - middle[k]
            some[k] += d * d
        if a % BLOCK == BLOCK - 1 or a == rows - 1:
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
        if a % BLOCK == BLOCK - 1 or a == rows - 1:
            _add(ones, plain)
            _add(twos, product)


@device
def _channel_moments(x, low, means, squares):
    """The mean of channels from `low` on, and the sum of the squares of the distances from it; both begin at 0."""
    n, channels, places = x.shape
    if places < CHANNEL_FEW:
        some, more = np.zeros(means.size * places), np.zeros(means.size * places)
        _column_moments(x.reshape(-1), low * places, channels * places, n, some, more)
        for j in range(some.size):
            k = j // places
            means[k], squares[k] = joined(j % places * n, means[k], squares[k], n, some[j], more[j])
    else:
        for a in range(n):
            for k in range(means.size):
                m, q = moments(x[a, low + k])
                means[k], squares[k] = joined(a * places, means[k], squares[k], places, m, q)


@device
def _channel_products(g, x, low, mean, plain, product):
    """The sums of g and of g (x - mean) of channels from `low` on."""
    n, channels, places = x.shape
    if places < CHANNEL_FEW:
        some, more = np.zeros(mean.size * places), np.zeros(mean.size * places)
        middle = np.repeat(mean, places)
        _column_products(g.reshape(-1), x.reshape(-1), low * places, channels * places, n, middle, some, more)
        for j in range(some.size):
            plain[j // places] += some[j]
            product[j // places] += more[j]
    else:
        for a in range(n):
            for k in range(mean.size):
                one, two = sums_of_products(g[a, low + k], x[a, low + k], mean[k])
                plain[k] += one
                product[k] += two


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
            copy(running_mean[low:high], m)
            copy(running_var[low:high], v)
        for k in range(count):
            scale[k] = T(1) / T(math.sqrt(v[k] + T(eps)))
            if weight.size:
                scale[k] *= weight[low + k]
            if bias.size:
                shift[k] = bias[low + k]
        if places < CHANNEL_FEW:
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
                    affine(x[a, low + k], m[k], scale[k], shift[k], out[a, low + k])


@kernel
def batch_norm_vjp(g, x, weight, mean, var, own, eps, first, last, out, g_weight, g_bias):
    """`own`: mean and variance depend on x. Empty results: not wanted."""
    T = x.dtype.type
    n, channels, places = x.shape
    for low in range(first, last, _side(x)):
        high = min(low + _side(x), last)
        count, m = high - low, mean[low:high]
        plain, product = np.zeros(count), np.zeros(count)
        rs, ws = np.empty(count, x.dtype), np.ones(count, x.dtype)
        of_x, shift = np.zeros(count, x.dtype), np.zeros(count, x.dtype)
        if own or g_weight.size or g_bias.size:
            _channel_products(g, x, low, m, plain, product)
        for k in range(count):
            r = T(1) / T(math.sqrt(var[low + k] + T(eps)))
            if g_weight.size:
                g_weight[low + k] = T(product[k] * r)
            if g_bias.size:
                g_bias[low + k] = T(plain[k])
            rs[k] = r
            if weight.size:
                ws[k] = weight[low + k]
            if own:
                of_x[k] = T(product[k] * r / (n * places) * r * ws[k])
                shift[k] = T(plain[k] / (n * places) * ws[k])
        if not out.size:
            continue
        if places < CHANNEL_FEW:
            ms, shifts = np.repeat(m, places), np.repeat(shift, places)
            some_r, some_w, of_xs = np.repeat(rs, places), np.repeat(ws, places), np.repeat(of_x, places)
            grads, numbers, results = g.reshape(-1), x.reshape(-1), out.reshape(-1)
            for a in range(n):
                at = (a * channels + low) * places
                g_row, row, target = grads[at : at + ms.size], numbers[at : at + ms.size], results[at : at + ms.size]
                for j in range(ms.size):
                    target[j] = some_r[j] * (g_row[j] * some_w[j] - shifts[j] - (row[j] - ms[j]) * of_xs[j])
        else:
            for a in range(n):
                for k in range(count):
                    slope(g[a, low + k], x[a, low + k], m[k], rs[k], ws[k], shift[k], of_x[k], out[a, low + k])
