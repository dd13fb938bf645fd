"""Sinh and cosh of one number, for kernels; see jit_math.py. The polynomials are fits of our own.

With x = n log 2 + r, e^x = 2^n (cosh r + sinh r) and e^-x = 2^-n (cosh r - sinh r): of two polynomials both follow, without a
division, and near 0, where n is 0, sinh x is sinh r. Largest errors in units in the last place: sinh 0.89,
cosh 0.74.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64, float32_of, float64_of, muladd
from ferro.cpu.kernels.jit_exact import exact
from ferro.cpu.kernels.jit_math import WHOLE32, WHOLE64
from ferro.native.jit import by_precision, device

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64


@device
def _sinh_rest32(z):
    """(sinh r - r) / r³ for z = r², |r| <= log(2) / 2."""
    return (f32(0.000198910307) * z + f32(0.00833331089)) * z + f32(0.166666667)


@device
def _sinh_rest64(z):
    p = f64(2.5100424157005067e-08)
    p = p * z + f64(2.7557268378684192e-06)
    p = p * z + f64(0.00019841269863105968)
    p = p * z + f64(0.008333333333330051)
    return p * z + f64(0.16666666666666669)


@device
def _cosh_rest32(z):
    """(cosh r - 1) / r², likewise."""
    return ((f32(2.48513379e-5) * z + f32(0.00138888665)) * z + f32(0.0416666667)) * z + f32(0.5)


@device
def _cosh_rest64(z):
    p = f64(2.0911264239196083e-09)
    p = p * z + f64(2.755728291148268e-07)
    p = p * z + f64(2.4801587317181886e-05)
    p = p * z + f64(0.0013888888888886545)
    p = p * z + f64(0.041666666666666664)
    return p * z + f64(0.5)


@exact
def _reduced32(a):
    """r, what was rounded away of it, and 2^n and 2^-n, both an eighth; a number above 90 counts as 90."""
    c = min(a, f32(90))
    t = c * f32(1.4426950408889634) + WHOLE32
    n = t - WHOLE32
    near = c - n * f32(0.693145751953125)
    r = near - n * f32(1.42860682e-6)
    up = float32_of(i32(i32(bits32(t) + i32(124)) << i32(23)))
    down = float32_of(i32(i32(i32(124) - bits32(t)) << i32(23)))
    return r, (near - r) - n * f32(1.42860682e-6), up, f32(0) if c > f32(40) else down


@exact
def _reduced64(a):
    c = min(a, f64(711))
    t = c * f64(1.4426950408889634) + WHOLE64
    n = t - WHOLE64
    near = c - n * f64(0.693147180559663)
    r = near - n * f64(2.8235290563031577e-13)
    up = float64_of((bits64(t) + i64(1020)) << i64(52))
    down = float64_of((i64(1020) - bits64(t)) << i64(52))
    return r, (near - r) - n * f64(2.8235290563031577e-13), up, f64(0) if c > f64(40) else down


sinh_rest = by_precision(_sinh_rest32, _sinh_rest64)
cosh_rest = by_precision(_cosh_rest32, _cosh_rest64)
_reduced = by_precision(_reduced32, _reduced64)


@exact
def _combined(r, r_, up, down):
    """(up + down) cosh r + (up - down) sinh r, times 4."""
    T = type(r)
    a, b = up + down, up - down
    a_ = (up - a) + down
    z = r * r
    y = b * r
    y_ = muladd(b, r, -y) + a_
    found = a + y
    small = y_ + (b * r_ + (a * z * cosh_rest(z) + y * z * sinh_rest(z)))
    return (found + (((a - found) + y) + small)) * T(4)


@exact
def sinh(x):
    T = type(x)
    a = abs(x)
    r, r_, up, down = _reduced(a)
    y = _combined(r, r_, up, -down)
    return math.copysign(y if a > T(1e-8) else a, x)  # (nan too)


@exact
def cosh(x):
    T = type(x)
    a = abs(x)
    r, r_, up, down = _reduced(a)
    y = _combined(r, r_, up, down)
    return y if a >= T(0) else a
