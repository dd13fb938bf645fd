"""Compiled kernels of losses of differences, whose sums need more than the dtype of the data."""

from __future__ import annotations

import numpy as np

from ferro.native.jit import device, kernel, reduction

f64 = np.float64
_BLOCK = 2048  # numbers that are added in the precision of the data

# --- losses of differences -------------------------------------------------------------------------------------------


@device
def _square(d, p):
    return d * d


@device
def _absolute(d, p):
    return abs(d)


@device
def _huber(d, p):
    size = abs(d)
    near = min(size, p)
    return near * (size - near * type(d)(0.5))


def _sum_of(loss):
    @reduction
    def total(x, y, p):
        s = x.dtype.type(0)
        for i in range(x.size):
            s += loss(x[i] - y[i], p)
        return s

    return total


_squares, _absolutes, _hubers = _sum_of(_square), _sum_of(_absolute), _sum_of(_huber)


@kernel
def loss_sum(kind, x, y, p):
    """The sum of the squares (kind 0), absolutes (1) or Huber's losses (2) of x - y."""
    T = x.dtype.type
    total = f64(0)
    for i in range(0, x.size, _BLOCK):
        a, b = x[i : i + _BLOCK], y[i : i + _BLOCK]
        if kind == 0:
            total += f64(_squares(a, b, T(p)))
        elif kind == 1:
            total += f64(_absolutes(a, b, T(p)))
        else:
            total += f64(_hubers(a, b, T(p)))
    return total


@kernel
def loss_add(kind, x, y, p, total):
    """Adds `loss_sum` to the number in `total`."""
    total[0] += loss_sum(kind, x, y, p)


@kernel
def loss_each(x, y, p, factor, out):
    """Huber's losses of x - y, times a factor."""
    T = x.dtype.type
    for i in range(x.size):
        out[i] = _huber(x[i] - y[i], T(p)) * T(factor)


@kernel
def loss_vjp(x, y, kind, p, factor, out):
    """The slopes of `loss_sum` by x, times a factor."""
    T = x.dtype.type
    if kind == 0:
        for i in range(x.size):
            out[i] = (x[i] - y[i]) * T(2 * factor)
    elif kind == 1:
        for i in range(x.size):
            d = x[i] - y[i]
            s = T(-1) if d < T(0) else T(0)
            out[i] = (T(1) if d > T(0) else s) * T(factor)  # the sign of nan is 0
    else:
        for i in range(x.size):
            d = x[i] - y[i]
            d = min(d, T(p))
            out[i] = (max(d, T(-p))) * T(factor)
