"""Logarithms to base 10 and the inverses of hyperbolic functions of one number, for kernels; see jit_math.py.

log q = 2 artanh((q - 1) / (q + 1)), and what is rounded away of the quotient is kept. The polynomials are fits of our own. Largest
errors in units in the last place: log10 0.56, atanh 0.91, asinh 0.90, acosh 0.57.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64, float32_of, float64_of, muladd
from ferro.cpu.kernels.jit_exact import exact
from ferro.cpu.kernels.jit_math import _split_log32, _split_log64
from ferro.native.jit import by_precision, device

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64


@device
def _artanh_rest32(z):
    """(artanh s - s) / s³ for z = s² up to 0.04."""
    return ((f32(0.118896746) * z + f32(0.142655657)) * z + f32(0.200001654)) * z + f32(0.333333331)


@device
def _artanh_rest64(z):
    w = z * z
    p = f64(0.06822097223218844)
    p = p * w + f64(0.07694552389725065)
    p = p * w + f64(0.1111111156265061)
    p = p * w + f64(0.20000000000004495)
    q = f64(0.06602544385233845)
    q = q * w + f64(0.09090865820452534)
    q = q * w + f64(0.14285714283404835)
    q = q * w + f64(0.3333333333333333)
    return p * z + q


artanh_rest = by_precision(_artanh_rest32, _artanh_rest64)
split_log = by_precision(_split_log32, _split_log64)


@exact
def _artanh(num, num_, den, den_):
    """s and w with s + w the inverse hyperbolic tangent of (num + num_) / (den + den_)."""
    T = type(num)
    inverse = T(1) / den
    s = num * inverse
    z = s * s
    return s, s * z * artanh_rest(z) + (muladd(-s, den, num) + (num_ - s * den_)) * inverse


@device
def _tens32(x):
    """The logarithm of 2 to base 10, twice that of e, both in two numbers."""
    return f32(0.301025390625), f32(4.60503898e-6), f32(0.8685889840126038), f32(-2.02061001e-8)


@device
def _tens64(x):
    return f64(0.30102999566383914), f64(1.42050232272661e-13), f64(0.8685889638065036), f64(2.19663930043353e-17)


@device
def _halves32(x):
    """Half of log 2 in two numbers."""
    return f32(0.3465576171875), f32(1.59730925e-5)


@device
def _halves64(x):
    return f64(0.3465735902798315), f64(1.4117645281515789e-13)


_tens, _halves = by_precision(_tens32, _tens64), by_precision(_halves32, _halves64)


@exact
def log10(x):
    T = type(x)
    two, two_, e, e_ = _tens(x)
    k, m = split_log(x)
    den = m + T(1)
    s, w = _artanh(m - T(1), T(0), den, m - (den - T(1)))
    y = e * s
    y_ = muladd(e, s, -y) + (e_ * s + e * w)
    large = k * two
    found = large + y
    found = found + (((large - found) + y) + (y_ + k * two_))
    found = found if x < T(np.inf) else x  # (nan too)
    bad = T(-np.inf) if x == T(0) else T(np.nan)
    return bad if x <= T(0) else found


@device
def _power_between32(n, d):
    """The whole number k next to log2(n / d), about, as a float, and 2^k."""
    k = i32(i32(i32(bits32(n) - bits32(d)) + i32(1 << 22)) >> i32(23))
    return f32(k), float32_of(i32(i32(k + i32(127)) << i32(23)))


@device
def _power_between64(n, d):
    k = i64((bits64(n) - bits64(d)) + i64(1 << 51)) >> i64(52)
    return f64(i32(k)), float64_of((k + i64(1023)) << i64(52))


@exact
def _atanh(x, between):
    # half of the logarithm of (1 + a) / (1 - a) = 2^k n / (2^k d)
    T = type(x)
    a = abs(x)
    n, d = T(1) + a, T(1) - a
    n_, d_ = a - (n - T(1)), (T(1) - d) - a
    k, power = between(n, d)
    d, d_ = power * d, power * d_
    num, den = ((T(1) - d) + a) - d_, n + d
    den_ = ((n - den) + d) + (n_ + d_)
    num, den, den_ = (a + a, T(2), T(0)) if k == T(0) else (num, den, den_)
    s, w = _artanh(num, T(0), den, den_)
    two, two_ = _halves(x)
    large = k * two
    found = large + s
    y = found + (((large - found) + s) + (w + k * two_))
    y = math.copysign(y, x)
    return y if a < T(1) else (x * T(np.inf) if a == T(1) else T(np.nan))


@exact
def _log_of_sum(given, x, r, r_, less, less_, between):
    """The logarithm of x + r + r_, for 0 <= x, r; less + less_ is what it is above 1. Of a large given number, of twice that."""
    T = type(x)
    far = given > T(2.0**30)  # computed 2^64 times too small, for the sum may be out of range
    x, r, r_ = (given * T(2.0**-64), given * T(2.0**-64), T(0)) if far else (x, r, r_)
    less, less_ = (x + r - T(1), T(0)) if far else (less, less_)
    h = x + r
    moved = h - x
    h_ = ((x - (h - moved)) + (r - moved)) + r_
    k, power = between(T(1), h)
    h, h_ = h * power, h_ * power
    num, num_ = (less, less_) if k == T(0) else (h - T(1), h_)
    base = T(2) if k == T(0) else h + T(1)
    den = T(2) + less if k == T(0) else base
    den_ = ((T(2) - den) + less) + less_ if k == T(0) else (h - (base - T(1))) + h_
    s, w = _artanh(num, num_, den, den_)
    two, two_ = _halves(x)
    k = (T(64) if far else T(0)) - k
    large = k * two
    found = large + s
    y = found + (((large - found) + s) + (w + k * two_))
    return y + y


@exact
def _asinh(x, between):
    # log(a + r) for the root r of 1 + a²; a + (r - 1) = a + a² / (r + 1) is what it is above 1
    T = type(x)
    a = abs(x)
    c = min(a, T(2.0**30))
    square = c * c
    square_ = muladd(c, c, -square)
    q = T(1) + square
    moved = q - T(1)
    q_ = (T(1) - (q - moved)) + (square - moved) + square_
    r = np.sqrt(q)
    above = r + T(1)
    inverse = T(1) / (r * above)
    r_ = (muladd(-r, r, q) + q_) * (above * inverse * T(0.5))
    beyond = square * (r * inverse)
    less = c + beyond
    less_ = (c - less) + beyond
    y = _log_of_sum(a, c, r, r_, less, less_, between)
    return math.copysign(y if (a > T(1e-8)) & (a < T(np.inf)) else a, x)


@exact
def _acosh(x, between):
    # log(x + r) for the root r of x² - 1
    T = type(x)
    c = min(x, T(2.0**30))
    square = c * c
    square_ = muladd(c, c, -square)
    q = (square - T(1)) + square_
    q_ = ((square - T(1)) - q) + square_
    r = np.sqrt(q)
    r_ = (muladd(-r, r, q) + q_) * (T(0.5) / r) if r > T(0) else T(0)
    over = c - T(1)
    less = over + r
    less_ = ((r - less) + over) + r_
    y = _log_of_sum(x, c, r, r_, less, less_, between)
    return y if (x >= T(1)) & (x < T(np.inf)) else (x if x >= T(1) else T(np.nan))


@exact
def _atanh32(x):
    return _atanh(x, _power_between32)


@exact
def _atanh64(x):
    return _atanh(x, _power_between64)


@exact
def _asinh32(x):
    return _asinh(x, _power_between32)


@exact
def _asinh64(x):
    return _asinh(x, _power_between64)


@exact
def _acosh32(x):
    return _acosh(x, _power_between32)


@exact
def _acosh64(x):
    return _acosh(x, _power_between64)


atanh = by_precision(_atanh32, _atanh64)
asinh = by_precision(_asinh32, _asinh64)
acosh = by_precision(_acosh32, _acosh64)
