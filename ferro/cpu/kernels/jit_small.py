"""Compiled kernels that only entries call (native/jit_entries.py): what is done with small arrays.

Reductions get the numbers before, in and behind the reduced dimensions. Those behind are few: what is added one after
the other must not be many, or digits are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cpu.kernels import jit_pointwise, jit_rows
from ferro.cpu.kernels.jit_exponentials import sum_of_exp
from ferro.cpu.kernels.jit_math import exp
from ferro.cpu.kernels.jit_rows import (
    PIECE,
    in_pieces,
    largest,
    squares_from,
    total_of,
    wide_squares_from,
    wide_total_of,
)
from ferro.cpu.kernels.jit_softmax import less_norm
from ferro.cpu.kernels.jit_widths import half_registers
from ferro.cpu.kernels.limits import SMALL_SQUARES
from ferro.cpu.thresholds import SUM_LONG, SUM_RUN
from ferro.native.jit import apart, device, kernel, whole_registers
from ferro.native.thresholds import SMALL

f64 = np.float64
_SHORT = 8  # numbers of a row that are soon done; longer rows are slices, whose loops LLVM makes vectors of


# --- arithmetic ------------------------------------------------------------------------------------------------------


def of_two(function: Callable[[Any, Any], Any]) -> Any:
    """The kernel of a function of two numbers; y is repeated until it is as long as x."""
    f = device(function)

    def run(x, y, out):
        half_registers()
        apart()
        if y.size == x.size:
            for i in range(x.size):
                out[i] = f(x[i], y[i])
        elif y.size == 1:
            v = y[0]
            for i in range(x.size):
                out[i] = f(x[i], v)
        elif y.size < _SHORT:
            for start in range(0, x.size, y.size):
                for j in range(y.size):
                    out[start + j] = f(x[start + j], y[j])
        else:
            for start in range(0, x.size, y.size):
                row, to = x[start : start + y.size], out[start : start + y.size]
                for j in range(y.size):
                    to[j] = f(row[j], y[j])

    return kernel(run)


add = of_two(lambda a, b: a + b)
sub = of_two(lambda a, b: a - b)
mul = of_two(lambda a, b: a * b)
truediv = of_two(lambda a, b: a / b)
maximum = of_two(lambda a, b: a if (a >= b) | (a != a) else b)  # noqa: PLR0124 (nan)
minimum = of_two(lambda a, b: a if (a <= b) | (a != a) else b)  # noqa: PLR0124


@kernel
def where(mask, x, y, out):
    half_registers()
    if y.size == x.size:
        for i in range(x.size):
            out[i] = x[i] if mask[i] else y[i]
    elif y.size == 1:
        other = y[0]
        for i in range(x.size):
            out[i] = x[i] if mask[i] else other
    else:
        for start in range(0, x.size, y.size):
            for j in range(y.size):
                out[start + j] = x[start + j] if mask[start + j] else y[j]


@kernel
def neg(x, out):
    half_registers()
    apart()
    for i in range(x.size):
        out[i] = -x[i]


@kernel
def abs(x, out):
    half_registers()
    apart()
    for i in range(x.size):
        out[i] = math.fabs(x[i])


@kernel
def sqrt(x, out):
    apart()
    for i in range(x.size):
        out[i] = math.sqrt(x[i])


@kernel
def add_into(x, y):
    half_registers()
    apart()
    for i in range(x.size):
        x[i] += y[i]


@kernel
def fill(out, value):
    half_registers()
    v = out.dtype.type(value)
    for i in range(out.size):
        out[i] = v


# --- reductions ------------------------------------------------------------------------------------------------------


@device
def _sums(x, before, n, behind, out):
    """The sums over the middle one of three dimensions; False if they would be inaccurate."""
    if behind == 1:
        for r in range(before):
            total = f64(0)
            for start in range(r * n, r * n + n, SUM_LONG):
                total += total_of(x[start : min(start + SUM_LONG, r * n + n)])
            out[r] = total
        return True
    if n > SUM_RUN:
        return False
    for r in range(before):
        sums = out[r * behind : r * behind + behind]
        sums[:] = 0
        for j in range(n):
            start = (r * n + j) * behind
            for i in range(behind):
                sums[i] += x[start + i]
    return True


@kernel
def sum(x, before, n, behind, out):
    return _sums(x, before, n, behind, out)


@kernel
def mean(x, before, n, behind, out):
    fine = _sums(x, before, n, behind, out)
    for i in range(out.size):
        fine &= math.fabs(out[i]) < np.inf
        out[i] /= x.dtype.type(n)
    return fine


@device
def _in_range(squares, x):
    """Whether a sum of squares has lost nothing to the range of float64. Else Python scales the numbers."""
    return (squares > SMALL_SQUARES) & (squares < np.inf) | (squares == 0) & (x.itemsize == 4)


@device
def _moments(x, start, n, behind):
    """The mean of n numbers, `behind` from one to the next, and the sum of the squares of their distances from it."""
    total = squares = f64(0)
    if behind == 1:
        for first in range(start, start + n, SUM_LONG):
            total += wide_total_of(x[first : min(first + SUM_LONG, start + n)])
        m = total / n
        for first in range(start, start + n, SUM_LONG):
            squares += wide_squares_from(x[first : min(first + SUM_LONG, start + n)], m)
        return m, squares
    for j in range(n):
        total += f64(x[start + j * behind])
    m = total / n
    for j in range(n):
        d = f64(x[start + j * behind]) - m
        squares += d * d
    return m, squares


@device
def _variances(x, correction, before, n, behind, out, means, is_root):
    """Variances or their roots, and where there is room for them, means; False if they would be inaccurate."""
    if n <= correction or (behind > 1 and n > SUM_RUN):
        return False
    for r in range(before):
        for i in range(behind):
            m, squares = _moments(x, r * n * behind + i, n, behind)
            if not _in_range(squares, x):
                return False
            v = squares / (n - correction)
            out[r * behind + i] = math.sqrt(v) if is_root else v
            if means.size:
                means[r * behind + i] = m
    return True


@kernel
def var(x, correction, before, n, behind, out):
    return _variances(x, correction, before, n, behind, out, out[:0], False)


@kernel
def std(x, correction, before, n, behind, out):
    return _variances(x, correction, before, n, behind, out, out[:0], True)


@kernel
def var_mean(x, correction, before, n, behind, out, mean):
    return _variances(x, correction, before, n, behind, out, mean, False)


@kernel
def std_mean(x, correction, before, n, behind, out, mean):
    return _variances(x, correction, before, n, behind, out, mean, True)


_squares = in_pieces(squares_from)


@kernel
def vector_norm(x, order, before, n, behind, out):
    if order != 2 or (behind > 1 and (n > SUM_LONG or x.size >= SMALL)):
        return False
    for r in range(before):
        for i in range(behind):
            if behind == 1:
                total = _squares(x[r * n : r * n + n], None)
            else:
                total = f64(0)
                for j in range(n):
                    v = f64(x[(r * n + j) * behind + i])
                    total += v * v
            if not _in_range(total, x):
                return False
            out[r * behind + i] = math.sqrt(total)
    return True


@kernel
def dot(x, y, out):
    total = f64(0)
    for start in range(0, x.size, PIECE):
        total += jit_rows.dot(x[start : min(start + PIECE, x.size)], y[start : min(start + PIECE, x.size)])
    out[0] = total


# --- losses ----------------------------------------------------------------------------------------------------------


@kernel
def cross_entropy(x, target, ignored, smoothing, loss, norms):
    """The mean over the rows that are not ignored, and the logsumexp of each row."""
    whole_registers()
    T = x.dtype.type
    if smoothing != 0:
        return False
    total, count = 0.0, 0
    for i in range(x.shape[0]):
        top = largest(x[i])
        shift = T(math.log(sum_of_exp(x[i], top)))
        norms[i] = f64(top) + f64(shift)
        t = target[i]
        if t != ignored:
            if t < 0 or t >= x.shape[1]:
                return False
            total += shift - (x[i, t] - top)
            count += 1
    loss[0] = total / count
    return True


@kernel
def cross_entropy_vjp(g, x, target, ignored, smoothing, norms, out):
    """`row_losses_vjp` without what weights and smoothing need, which takes half as long again."""
    whole_registers()
    T = x.dtype.type
    if smoothing != 0:
        return False
    count = 0
    for i in range(x.shape[0]):
        t = target[i]
        if t != ignored:
            if t < 0 or t >= x.shape[1]:
                return False
            count += 1
    scale = T(g[0] / T(count))
    for i in range(x.shape[0]):
        t = target[i]
        if t == ignored:
            out[i, :] = 0
            continue
        high, low = less_norm(x[i], norms[i])
        for j in range(x.shape[1]):
            out[i, j] = scale * exp((x[i, j] - high) - low)
        out[i, t] -= scale
    return True


@kernel
def nll_pick(x, target, ignored, loss):
    total, count = 0.0, 0
    for i in range(x.shape[0]):
        t = target[i]
        if t != ignored:
            if t < 0 or t >= x.shape[1]:
                return False
            total -= f64(x[i, t])
            count += 1
    loss[0] = total / count
    return True


_loss_sum, _loss_vjp = jit_pointwise.loss_sum, jit_pointwise.loss_vjp


@kernel
def difference_loss(kind, x, y, parameter, factor, loss):
    loss[0] = _loss_sum(int(kind), x, y, parameter) * factor / x.size


@kernel
def difference_slope(kind, g, x, y, parameter, factor, out):
    _loss_vjp(x, y, int(kind), parameter, factor * float(g[0]), out)


# --- rows ------------------------------------------------------------------------------------------------------------


@kernel
def add_rows(g, index, out):
    """Rows of g added up in their order, in the places that the index names."""
    out[:] = 0
    for i in range(index.size):
        k = index[i]
        if k < 0 or k >= out.shape[0]:
            return False
        for j in range(out.shape[1]):
            out[k, j] += g[i, j]
    return True
