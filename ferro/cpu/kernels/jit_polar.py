"""Angle and length of points of the plane, for kernels; see jit_math.py.

Largest errors in units in the last place: angles 0.8 (1.2 where a side is subnormal), lengths 0.76.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from ferro.cpu.kernels.jit_bits import muladd
from ferro.cpu.kernels.jit_circles import atan_rest
from ferro.cpu.kernels.jit_exact import exact
from ferro.native.jit import _INSIDE, by_precision, device

f32, f64 = np.float32, np.float64
_OPTIONS: Any = _INSIDE


@device
def _quarters32(q):
    """q quarters of π, in two numbers."""
    high = f32(2.356194496154785) if q == f32(3) else q * f32(0.7853981852531433)
    return high, (f32(-5.96244023e-9) if q == f32(3) else q * f32(-2.1855695e-8))


@device
def _quarters64(q):
    high = f64(2.356194490192345) if q == f64(3) else q * f64(0.7853981633974483)
    return high, (f64(9.184850993605148e-17) if q == f64(3) else q * f64(3.061616997868383e-17))


@device
def _scale32(large):
    """A power of 2 with which the sum of a number and a smaller one, and what a division leaves of them, stay in range."""
    return f32(2.0**-2) if large > f32(2.0**100) else (f32(2.0**60) if large < f32(2.0**-60) else f32(1))


@device
def _scale64(large):
    return f64(2.0**-2) if large > f64(2.0**1000) else (f64(2.0**400) if large < f64(2.0**-400) else f64(1))


_quarters, _scale = by_precision(_quarters32, _quarters64), by_precision(_scale32, _scale64)


@exact
def angle_of(y, x):
    # of the quotient q <= 1 of the sides: above tan(π/8) atan q = π/4 + atan((q - 1) / (q + 1))
    T = type(x)
    a, b = abs(y), abs(x)
    steep = a > b
    large, small = (a, b) if steep else (b, a)
    alike = (small == large) & (large > T(0))  # (infinities, too)
    edge = (large == T(np.inf)) | (large == T(0))
    small = T(1) if alike else (T(0) if edge else small)
    large = T(1) if alike | edge else large
    scale = _scale(large)
    large, small = large * scale, small * scale
    far = small > large * T(0.41421356237309503)
    num, den = (small - large, small + large) if far else (small, large)
    num_ = small - (num + large) if far else T(0)
    den_ = small - (den - large) if far else T(0)
    inverse = T(1) / den
    s = num * inverse
    s_ = (muladd(-s, den, num) + (num_ - s * den_)) * inverse
    z = s * s
    s_ = s_ + s * z * atan_rest(z)
    left = math.copysign(T(1), x) < T(0)
    down = steep != left  # whether it is subtracted from quarters of π
    s, s_ = (-s, -s_) if down else (s, s_)
    quarters = (T(2) if steep else (T(4) if left else T(0))) + ((T(-1) if down else T(1)) if far else T(0))
    high, high_ = _quarters(quarters)
    found = high + s
    found = found + (((high - found) + s) + (s_ + high_))
    return math.copysign(found if (a == a) & (b == b) else a + b, y)  # noqa: PLR0124 (nan)


@exact
def _hypot64(x, y):
    """The root of the sum of squares, and what Newton's step adds whose residue is computed exactly.

    C. F. Borges, An improved algorithm for hypot(a, b), ACM Transactions on Mathematical Software 47 (2021), algorithm 1019.
    """
    a, b = abs(x), abs(y)
    large, small = (a, b) if a > b else (b, a)
    scale = 2.0**-600 if large > 2.0**500 else (2.0**600 if large < 2.0**-400 else 1.0)
    large, small = large * scale, small * scale
    h = np.sqrt(muladd(large, large, small * small))
    square, side = h * h, large * large
    excess = muladd(-small, small, square - side) + muladd(h, h, -square) - muladd(large, large, -side)
    h = h - excess / (h + h) if h > 0.0 else h
    endless = (a == np.inf) | (b == np.inf)
    return np.inf if endless else h / scale


@exact
def _hypot32(x, y):
    a, b = f64(x), f64(y)  # where nothing overflows
    r = np.sqrt(a * a + b * b)
    return f32(np.inf if (abs(a) == np.inf) | (abs(b) == np.inf) else r)


def length_of(x: Any, y: Any) -> Any:
    """The length of a point."""
    return math.hypot(x, y)


@overload(length_of, jit_options=_OPTIONS)
def _length_of(x, y):
    chosen = _hypot32 if x.bitwidth == 32 else _hypot64
    return lambda x, y: chosen(x, y)
