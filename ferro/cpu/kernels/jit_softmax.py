"""Compiled kernels of softmax, log-softmax and logsumexp over rows and columns, and of cross-entropy."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_exponentials import exp_into, sum_of_exp
from ferro.cpu.kernels.jit_math import exp
from ferro.cpu.kernels.jit_rows import PIECE, copy, dot, in_pieces, largest, notes, side_by_side, total_from, total_of
from ferro.cpu.kernels.limits import FAR
from ferro.native.jit import device, kernel, reduction, whole_registers

f64 = np.float64
_FAR, _FAR_DOUBLE = FAR[4], FAR[8]

# --- sums of rows: those of pieces of long ones are added in float64 --------------------------------------------------


@device
def _exp_into(x, top, out):
    total = f64(0)
    for start in range(0, x.size, PIECE):
        stop = min(start + PIECE, x.size)
        total += f64(exp_into(x[start:stop], top, out[start:stop]))
    return x.dtype.type(total)


@device
def _dot(x, y):
    total = f64(0)
    for start in range(0, x.size, PIECE):
        stop = min(start + PIECE, x.size)
        total += f64(dot(x[start:stop], y[start:stop]))
    return x.dtype.type(total)


_sum_of_exp, _total_from = in_pieces(sum_of_exp), in_pieces(total_from)


# --- softmax of rows -------------------------------------------------------------------------------------------------


@kernel
def softmax(x, out):
    whole_registers()
    side, noted = side_by_side(x), notes(x)
    for first in range(0, x.shape[0], side):
        last = min(first + side, x.shape[0])
        for i in range(first, last):
            noted[i - first] = largest(x[i])
        for i in range(first, last):
            noted[i - first] = _exp_into(x[i], noted[i - first], out[i])
        for i in range(first, last):
            scale = x.dtype.type(1) / noted[i - first]
            for j in range(x.shape[1]):
                out[i, j] *= scale


@kernel
def softmax_vjp(g, y, out):
    for i in range(y.shape[0]):
        total = _dot(g[i], y[i])
        for j in range(y.shape[1]):
            out[i, j] = (g[i, j] - total) * y[i, j]


@kernel
def log_softmax(x, out):
    whole_registers()
    side, tops, sums = side_by_side(x), notes(x), notes(x)
    for first in range(0, x.shape[0], side):
        last = min(first + side, x.shape[0])
        for i in range(first, last):
            tops[i - first] = largest(x[i])
        for i in range(first, last):
            sums[i - first] = _sum_of_exp(x[i], tops[i - first])
        for i in range(first, last):
            top, shift = tops[i - first], x.dtype.type(math.log(sums[i - first]))
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - top) - shift


@kernel
def log_softmax_vjp(g, y, out):
    whole_registers()
    for i in range(y.shape[0]):
        total = y.dtype.type(_total_from(g[i], None))
        for j in range(y.shape[1]):
            out[i, j] = g[i, j] - exp(y[i, j]) * total


@device
def logsumexp_of(x):
    """The logsumexp of a row."""
    top = largest(x)
    if abs(top) < np.inf:
        return top + x.dtype.type(math.log(_sum_of_exp(x, top)))
    for j in range(x.size):  # (a nan may be below an infinity)
        if x[j] != x[j]:
            return x[j]
    return top


@kernel
def logsumexp(x, out):
    whole_registers()
    for i in range(x.shape[0]):
        out[i] = logsumexp_of(x[i])


# --- softmax along a dimension that is not the last ------------------------------------------------------------------

# Arrays are (before, along, after); a tile is up to `width` neighbours in the last dimension, and all of `along`. Inner
# loops run over slices from 0: an index that might be negative, for all Numba knows, is not vectorised.


@device
def _tile(tile, width, after):
    """Which `before` a tile is in, its first column, and the one after its last."""
    tiles = (after + width - 1) // width
    first = (tile % tiles) * width
    return tile // tiles, first, min(first + width, after)


@device
def _largest_of_columns(x, first, stop, top):
    copy(x[0, first:stop], top[: stop - first])
    for j in range(1, x.shape[0]):
        row = x[j, first:stop]
        for k in range(row.size):
            v, t = row[k], top[k]
            top[k] = t if t >= v or math.isnan(t) else v  # nan wins


@kernel
def softmax_columns(x, width, first_tile, last_tile, out):
    whole_registers()
    T = x.dtype.type
    top, total = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, x.shape[2])
        _largest_of_columns(x[a], first, stop, top)
        total[:] = 0
        for j in range(x.shape[1]):
            row, result = x[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                e = exp(row[k] - top[k])
                result[k] = e
                total[k] += e
        for k in range(width):
            total[k] = T(1) / total[k]
        for j in range(x.shape[1]):
            result = out[a, j, first:stop]
            for k in range(result.size):
                result[k] *= total[k]


@kernel
def log_softmax_columns(x, width, first_tile, last_tile, out):
    whole_registers()
    T = x.dtype.type
    top, shift = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, x.shape[2])
        _largest_of_columns(x[a], first, stop, top)
        shift[:] = 0
        for j in range(x.shape[1]):
            row = x[a, j, first:stop]
            for k in range(row.size):
                shift[k] += exp(row[k] - top[k])
        for k in range(stop - first):
            shift[k] = T(math.log(shift[k]))
        for j in range(x.shape[1]):
            row, result = x[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = (row[k] - top[k]) - shift[k]


@kernel
def logsumexp_columns(x, width, first_tile, last_tile, out):
    """As `logsumexp`; out is an array of (before, after)."""
    whole_registers()
    T = x.dtype.type
    top, total = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, x.shape[2])
        _largest_of_columns(x[a], first, stop, top)
        for k in range(stop - first):
            top[k] = T(0) if abs(top[k]) == T(np.inf) else top[k]  # infinity - infinity must not arise
        total[:] = 0
        for j in range(x.shape[1]):
            row = x[a, j, first:stop]
            for k in range(row.size):
                total[k] += exp(row[k] - top[k])
        for k in range(stop - first):
            out[a, first + k] = top[k] + T(math.log(total[k]))


@kernel
def softmax_vjp_columns(g, y, width, first_tile, last_tile, out):
    total = np.empty(width, y.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, y.shape[2])
        total[:] = 0
        for j in range(y.shape[1]):
            g_row, row = g[a, j, first:stop], y[a, j, first:stop]
            for k in range(row.size):
                total[k] += g_row[k] * row[k]
        for j in range(y.shape[1]):
            g_row, row, result = g[a, j, first:stop], y[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = (g_row[k] - total[k]) * row[k]


@kernel
def log_softmax_vjp_columns(g, y, width, first_tile, last_tile, out):
    whole_registers()
    total = np.empty(width, y.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, y.shape[2])
        total[:] = 0
        for j in range(y.shape[1]):
            g_row = g[a, j, first:stop]
            for k in range(g_row.size):
                total[k] += g_row[k]
        for j in range(y.shape[1]):
            g_row, row, result = g[a, j, first:stop], y[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = g_row[k] - exp(row[k]) * total[k]


# --- cross-entropy ---------------------------------------------------------------------------------------------------


@reduction
def _sum_of_losses(x, top, shift, weight):
    """The weighted sum of -log(softmax(x)) over all classes; no weights: all are 1."""
    total = x.dtype.type(0)
    if weight.size:
        for j in range(x.size):
            total += weight[j] * (shift - (x[j] - top))
    else:
        for j in range(x.size):
            total += shift - (x[j] - top)
    return total


@device
def less_norm(x, norm):
    """What a row is less its logsumexp, as two numbers to subtract, the first of them exactly where it matters."""
    T = x.dtype.type
    if abs(norm) < (_FAR if x.itemsize == 4 else _FAR_DOUBLE):
        high = T(norm)
        return high, T(norm - f64(high))
    top = largest(x)
    return top, T(math.log(_sum_of_exp(x, top)))


@kernel
def row_losses(x, target, weight, ignored, smoothing, losses, norms):
    whole_registers()
    T = x.dtype.type
    side, tops, sums = side_by_side(x), notes(x), notes(x)
    for first in range(0, x.shape[0], side):
        last = min(first + side, x.shape[0])
        for i in range(first, last):
            tops[i - first] = largest(x[i])
        for i in range(first, last):
            sums[i - first] = _sum_of_exp(x[i], tops[i - first])
        for i in range(first, last):
            top, shift = tops[i - first], T(math.log(sums[i - first]))
            norms[i] = f64(top) + f64(shift)
            t = target[i]
            if t == ignored:
                losses[i] = T(0)
                continue
            if t < 0 or t >= x.shape[1]:
                return False
            loss = shift - (x[i, t] - top)
            if weight.size:
                loss *= weight[t]
            if smoothing != 0:
                all_of_them = _sum_of_losses(x[i], top, shift, weight)
                loss = T(1 - smoothing) * loss + T(smoothing / x.shape[1]) * all_of_them
            losses[i] = loss
    return True


@kernel
def row_losses_vjp(g, x, target, norms, weight, ignored, smoothing, out):
    whole_registers()
    T = x.dtype.type
    classes = x.shape[1]
    share = T(smoothing / classes)
    whole = total_of(weight) if weight.size else T(classes)
    for i in range(x.shape[0]):
        t = target[i]
        if t == ignored:
            for j in range(classes):
                out[i, j] = T(0)
            continue
        if t < 0 or t >= classes:
            return False
        high, low = less_norm(x[i], norms[i])
        hit = T(1 - smoothing)
        if weight.size:
            hit *= weight[t]
        scale = g[i] * (hit + share * whole)
        for j in range(classes):
            out[i, j] = scale * exp((x[i, j] - high) - low)
        if smoothing != 0:
            if weight.size:
                for j in range(classes):
                    out[i, j] -= g[i] * share * weight[j]
            else:
                for j in range(classes):
                    out[i, j] -= g[i] * share
        out[i, t] -= g[i] * hit
    return True
