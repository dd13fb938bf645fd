"""Compiled kernels of elementwise functions without transcendentals: piecewise activations, remainders, losses of differences.

A choice stands as one expression, which LLVM makes a vector instruction.  Nan stays nan unless said otherwise.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.native.jit import device, kernel, reduction

f32, f64, i32 = np.float32, np.float64, np.int32
_BLOCK = 2048  # numbers that are added in the precision of the data

# --- activations -----------------------------------------------------------------------------------------------------


@kernel
def relu(x, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = max(x[i], T(0))  # in this order nan stays


@kernel
def relu_vjp(g, y, out):
    T = y.dtype.type
    for i in range(y.size):
        out[i] = T(0) if y[i] <= T(0) else g[i]


@device
def _gate(x):
    T = type(x)
    t = x + T(3)
    t = max(t, T(0))
    return (min(t, T(6))) * T(1 / 6)


@kernel
def hardswish(x, out):
    for i in range(x.size):
        out[i] = x[i] * _gate(x[i])


@kernel
def hardswish_vjp(g, x, out):
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        inside = g[i] * (v * T(1 / 3) + T(0.5)) if v < T(3) else g[i]
        out[i] = T(0) if v <= T(-3) else inside


@kernel
def hardsigmoid(x, out):
    for i in range(x.size):
        out[i] = _gate(x[i])


@kernel
def hardsigmoid_vjp(g, x, out):
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        out[i] = g[i] * T(1 / 6) if (v > T(-3)) & (v < T(3)) else T(0)


@kernel
def hardtanh(x, low, high, out):
    T = x.dtype.type
    for i in range(x.size):
        v = max(x[i], T(low))
        out[i] = min(v, T(high))


@kernel
def hardtanh_vjp(g, x, low, high, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = T(0) if (x[i] <= T(low)) | (x[i] >= T(high)) else g[i]


@kernel
def leaky_relu(x, slope, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = x[i] if x[i] > T(0) else x[i] * T(slope)


@kernel
def leaky_relu_vjp(g, x, slope, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = g[i] if x[i] > T(0) else g[i] * T(slope)


@kernel
def hardshrink(x, lambd, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = T(0) if abs(x[i]) <= T(lambd) else x[i]


@kernel
def softshrink(x, lambd, out):
    T = x.dtype.type
    for i in range(x.size):
        v = max(x[i], T(-lambd))
        out[i] = x[i] - (min(v, T(lambd)))


@kernel
def shrink_vjp(g, x, lambd, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = T(0) if (x[i] >= T(-lambd)) & (x[i] <= T(lambd)) else g[i]


# --- arithmetic ------------------------------------------------------------------------------------------------------


@kernel
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]


@kernel
def rsqrt(x, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = T(1) / np.sqrt(x[i])


@kernel
def addcmul(x, y, z, value, out):
    T = x.dtype.type
    for i in range(x.size):
        out[i] = x[i] + y[i] * z[i] * T(value)


@kernel
def lerp(x, y, w, out):
    T = x.dtype.type
    if abs(w) < 0.5:
        for i in range(x.size):
            out[i] = x[i] + T(w) * (y[i] - x[i])
    else:
        for i in range(x.size):
            out[i] = y[i] - (y[i] - x[i]) * T(1 - w)


@kernel
def hypot(x, y, out):
    """Of float32, in float64, which neither overflows nor rounds."""
    for i in range(x.size):
        a, b = f64(x[i]), f64(y[i])
        r = math.sqrt(a * a + b * b)
        out[i] = np.inf if (abs(a) == np.inf) | (abs(b) == np.inf) else r


# Of float32, in float64: below 2^24 the quotient of two float32 lies so far from a whole number that it does not
# equal, that rounding it in float64 leaves it on its side.  The kernels say whether all quotients were that small.


@kernel
def fmod(x, y, out):
    large = i32(0)
    for i in range(x.size):
        a, b = f64(x[i]), f64(y[i])
        q = np.trunc(a / b)
        large |= i32(0) if abs(q) < 16777216.0 else i32(1)
        out[i] = math.copysign(a - q * b, a)
    return large == 0


@kernel
def remainder(x, y, out):
    large = i32(0)
    for i in range(x.size):
        a, b = f64(x[i]), f64(y[i])
        q = np.trunc(a / b)
        large |= i32(0) if abs(q) < 16777216.0 else i32(1)
        r = f32(a - q * b)
        r = f32(r + y[i]) if (r != 0) & ((r < 0) != (b < 0)) else r
        out[i] = math.copysign(r, y[i]) if r == 0 else r
    return large == 0


@kernel
def floor_divide(x, y, out):
    large = i32(0)
    for i in range(x.size):
        q = np.floor(f64(x[i]) / f64(y[i]))
        large |= i32(0) if abs(q) < 16777216.0 else i32(1)
        out[i] = q
    return large == 0


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
