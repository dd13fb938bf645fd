"""Compiled kernels of whole quotients and their remainders, exact for all numbers of float32 and float64.

Up to 2^51 the quotient that a division gives is off by at most one, and what remains of it is computed exactly by a fused
multiplication: it has no more bits than the numbers. Where a quotient is larger, the block is gone through again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from ferro.cpu.kernels.jit_bits import bits64, float64_of
from ferro.cpu.kernels.jit_exact import exact, fma
from ferro.native.jit import _INSIDE, apart, by_precision, device, kernel

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
_OPTIONS: Any = _INSIDE
_BLOCK = 1024  # numbers whose quotients are looked at, while they are in the cache


@exact
def _divided(a, b):
    """The quotient of two numbers rounded towards zero, and the remainder, with the sign of a."""
    q = np.trunc(a / b)
    r = a if (abs(b) == np.inf) & (abs(a) < np.inf) else fma(-q, b, a)
    over = (r != 0.0) & ((r < 0.0) != (a < 0.0))  # the quotient was rounded up to the next whole number
    q, r = (q - math.copysign(1.0, q), r + math.copysign(b, a)) if over else (q, r)
    return q, math.copysign(r, a)


@device
def _shortly_divided(x, y):
    """The same of two float32 in float64, where the quotient lies so far from a whole number, if it is none and below 2^24, that
    nothing is rounded up to it.
    """
    a, b = f64(x), f64(y)
    q = np.trunc(a / b)
    r = a if (abs(y) == f32(np.inf)) & (abs(x) < f32(np.inf)) else a - q * b
    return f32(q), math.copysign(f32(r), x)


def _quotient(x: Any, y: Any) -> Any:
    return _divided(x, y)


@overload(_quotient, jit_options=_OPTIONS)
def _quotient_of(x, y):
    chosen = _shortly_divided if x.bitwidth == 32 else _divided
    return lambda x, y: chosen(x, y)


@device
def _exponent(x):
    """The whole part of log2 x, plus 1023, of a positive number."""
    tiny = x < 2.0**-1022
    return (bits64(x * 2.0**54 if tiny else x) >> i64(52)) - (i64(54) if tiny else i64(0))


@exact
def _far(a, b):
    """The remainder of two numbers whose quotient is large: multiples of b are taken from it, up to 2^51 at a time."""
    r, b = abs(a), abs(b)
    if not ((r < np.inf) & (b > 0.0)):
        return np.nan
    while r >= b:
        steps = min(max(_exponent(r) - _exponent(b) - i64(50), i64(0)), i64(2046))
        half = steps >> i64(1)  # (2^steps may be too large)
        part = b * float64_of((half + i64(1023)) << i64(52)) * float64_of((steps - half + i64(1023)) << i64(52))
        _, r = _divided(r, part)
    return math.copysign(r, a)


@device
def _as_dividend(x, y, q, r):
    return r


@device
def _as_divisor(x, y, q, r):
    T = type(x)
    r = T(r + y) if (r != T(0)) & ((r < T(0)) != (y < T(0))) else r
    return math.copysign(r, y) if r == T(0) else r


@device
def _down(x, y, q, r):
    T = type(x)
    q = q - T(1) if (r != T(0)) & ((r < T(0)) != (y < T(0))) else q
    return q if q != T(0) else math.copysign(T(0), x / y)


@device
def _far_down(x, y, q, r):
    """As NumPy and PyTorch round a quotient that is too large to be exact."""
    T = type(x)
    if y == T(0):
        return x / y
    q = (x - r) / y
    q = q - T(1) if (r != T(0)) & ((r < T(0)) != (y < T(0))) else q
    down = np.floor(q)
    down = down + T(1) if q - down > T(0.5) else down
    return down if q != T(0) else math.copysign(T(0), x / y)


def _quotients(near, far):
    """The kernel of near(x, y, quotient, remainder), and of `far` where the quotient is not below `_limit`."""

    def run(x, y, out):
        apart()
        T = x.dtype.type
        limit, none = _limit(T(0))
        I = type(none)  # noqa: E741 (the integers of that size)
        for start in range(0, out.size, _BLOCK):
            x_, y_, out_ = x[start : start + _BLOCK], y[start : start + _BLOCK], out[start : start + _BLOCK]
            large = none
            for i in range(out_.size):
                a, b = x_[i], y_[i]
                q, r = _quotient(a, b)
                large = I(large | (I(0) if abs(q) < limit else I(1)))
                out_[i] = near(a, b, q, r)
            if large != none:
                for i in range(out_.size):
                    a, b = x_[i], y_[i]
                    q, r = _quotient(a, b)
                    if not abs(q) < limit:
                        out_[i] = far(a, b, q, T(_far(f64(a), f64(b))))

    return kernel(run)


_limit = by_precision(device(lambda x: (f32(2.0**24), i32(0))), device(lambda x: (f64(2.0**51), i64(0))))
fmod, remainder = _quotients(_as_dividend, _as_dividend), _quotients(_as_divisor, _as_divisor)
floor_divide = _quotients(_down, _far_down)
