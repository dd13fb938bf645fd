"""The tangent of one number, for kernels; see jit_math.py and jit_circles.py. The polynomials are fits of our own.

tan x is sin r / cos r or -cos r / sin r for the rest r of a multiple of π/2. Largest errors in units in the
last place: 0.51 of float32, 1.2 of float64.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64, float32_of, float64_of, muladd
from ferro.cpu.kernels.jit_exact import exact
from ferro.cpu.kernels.jit_math import WHOLE64
from ferro.native.jit import by_precision, device

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64


@device
def _tan32(x):
    # in float64, where two parts of π/2 are enough: the first has 27 bits, so that its multiples are exact
    a = f64(abs(x))
    t = a * f64(0.6366197723675814) + WHOLE64
    n = t - WHOLE64
    r = (a - n * f64(1.570796325802803)) - n * f64(9.920935796805404e-10)
    z = r * r
    p = f64(2.7249620003645e-06)
    p = p * z + f64(-0.00019840084375832671)
    p = p * z + f64(0.008333331870340256)
    p = p * z + f64(-0.16666666663844046)
    sine = p * z * r + r
    p = f64(-2.73007039742955e-07)
    p = p * z + f64(2.4800598407857676e-05)
    p = p * z + f64(-0.001388888766836975)
    p = p * z + f64(0.04166666666431182)
    p = p * z + f64(-0.5)
    cosine = p * z + f64(1)
    odd = (bits64(t) & i64(1)) != i64(0)
    y = f32((-cosine if odd else sine) / (sine if odd else cosine))
    return float32_of(i32(bits32(y) ^ i32(bits32(x) & i32(-0x80000000))))


@device
def _sine_rest(z):
    """(sin r - r) / r³ for z = r², |r| <= π/4."""
    p = f64(-7.586636867766497e-13)
    p = p * z + f64(1.6058530596390244e-10)
    p = p * z + f64(-2.5052106225992787e-08)
    p = p * z + f64(2.7557319219320575e-06)
    p = p * z + f64(-0.0001984126984126504)
    p = p * z + f64(0.008333333333333331)
    return p * z + f64(-0.16666666666666666)


@device
def _cosine_rest(z):
    """(cos r - 1 + r² / 2) / r⁴, likewise."""
    p = f64(-1.1382544623404291e-11)
    p = p * z + f64(2.087614504910828e-09)
    p = p * z + f64(-2.7557317265876615e-07)
    p = p * z + f64(2.48015872987544e-05)
    p = p * z + f64(-0.0013888888888887389)
    return p * z + f64(0.041666666666666664)


@exact
def _beside64(a):
    """The rest of a multiple of π/2 in two numbers, and the sum in whose last bit stands whether the multiple is odd."""
    t = a * f64(0.6366197723675814) + WHOLE64
    n = t - WHOLE64
    near = (a - n * f64(1.570796325802803)) - n * f64(9.920935184482005e-10)  # exact: the parts of π/2 have 27 bits
    part = n * f64(6.123233932053594e-17)
    r = near - part
    moved = r - near
    return r, ((near - (r - moved)) - (part + moved)) - n * f64(6.36831716351095e-25), t


@exact
def _tan64(x):
    r, r_, t = _beside64(abs(x))
    z = r * r
    half = z * 0.5
    w = muladd(r * z, _sine_rest(z), r_)
    sine = r + w
    sine_ = (r - sine) + w
    head = 1.0 - half
    w = ((1.0 - head) - half) + muladd(z * z, _cosine_rest(z), -r * r_ - muladd(r, r, -z) * 0.5)
    cosine = head + w
    cosine_ = (head - cosine) + w
    odd = (bits64(t) & i64(1)) != i64(0)
    num, num_ = (-cosine, -cosine_) if odd else (sine, sine_)
    den, den_ = (sine, sine_) if odd else (cosine, cosine_)
    inverse = 1.0 / den
    y = num * inverse
    y = muladd(muladd(-y, den, num) + (num_ - y * den_), inverse, y)
    return float64_of(bits64(y) ^ (bits64(x) & i64(-0x8000000000000000)))


tangent = by_precision(_tan32, _tan64)
