"""Compiled kernels of erfc, erfinv and lgamma of float32 (float64 is SciPy's, see cpu/special.py), and of the neighbours of numbers.

The polynomials are near-minimax fits of our own (weighted least squares, 40 digits); without branches, as jit_math.py is.
Largest errors in units in the last place: erfc 2.9, erfinv 2.1, lgamma 0.5.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, float32_of, muladd, rank, unrank
from ferro.cpu.kernels.jit_math import WHOLE32, exp_beyond32, log, log_near_1
from ferro.cpu.kernels.jit_normal import erf_near32
from ferro.native.jit import apart, device, kernel, whole_registers

f32, f64, i32 = np.float32, np.float64, np.int32


# --- erfc ------------------------------------------------------------------------------------------------------------


@device
def _erfc32(x):
    """e^(-a²) times (a + 2) e^(a²) erfc a, a polynomial of u = (a - 2) / (a + 2), over a + 2; near 0 it is 1 - erf x.

    The variable is that of M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x²) erfc x in
    0 <= x < ∞ (1981), with 2 in the place of their constant.
    """
    a = min(abs(x), f32(10.5))  # beyond, erfc is 0
    high = float32_of(i32(bits32(a) & i32(-4096)))  # twelve bits, whose square is exact
    s, d = high * high, (a - high) * (a + high)
    t = (s + d) * f32(-1.4426950408889634) + WHOLE32
    n = t - WHOLE32
    r = (-s - n * f32(0.693359375)) + (n * f32(2.12194440e-4) - d)
    f = exp_beyond32(r) * (r * r) + r
    y = f + f32(1)
    rest = f - (y - f32(1))  # what was rounded away of e^r, and below of 1 / (a + 2)
    w = a + f32(2)
    v = f32(1) / w
    lost = v * (muladd(-w, v, f32(1)) - v * (a - (w - f32(2))))
    u = f32(1) - f32(4) * v
    p = f32(-0.000493782598)
    p = p * u + f32(-0.000788899547)
    p = p * u + f32(0.00301464768)
    p = p * u + f32(0.00646298858)
    p = p * u + f32(-0.0214963729)
    p = p * u + f32(-0.0364404123)
    p = p * u + f32(0.279471139)
    p = p * u + f32(-0.687160734)
    p = p * u + f32(1.02158272)
    # computed 2^64 times too large, so that what is below the normal numbers is rounded once
    m = p * v
    y = muladd(y, m, rest * m + y * (p * lost + muladd(p, v, -m)))
    y = y * float32_of(i32(i32(bits32(t) << i32(23)) + i32((127 + 64) << 23)))
    y = y * f32(2.0**-64)
    y = y if x >= f32(0) else f32(2) - y
    return y if abs(x) > f32(0.45) else f32(1) - erf_near32(x)  # (nan too)


@kernel
def erfc(x, out):
    apart()
    whole_registers()
    for i in range(out.size):
        out[i] = _erfc32(x[i])


# --- erfinv ----------------------------------------------------------------------------------------------------------


@device
def _erfinv32(x):
    """x times a polynomial of w = -log(1 - x²), another one where w is large.

    The variable is that of M. Giles, Approximating the erfinv function (GPU Computing Gems, Jade edition, 2011).
    """
    a = abs(x)
    square = (f32(1) - a) * (f32(1) + a)
    k = i32(i32(bits32(square) - i32(0x3F3504F3)) >> i32(23))  # 1 - x² = 2ᵏ (1 + z)
    z, e = float32_of(i32(bits32(square) - i32(k << i32(23)))) - f32(1), f32(k)
    w = -(z + (log_near_1(z) - e * f32(2.12194440e-4)) + e * f32(0.693359375))
    p = f32(-8.79105894e-09)
    p = p * w + f32(2.21031466e-07)
    p = p * w + f32(-1.9764704e-06)
    p = p * w + f32(3.98328535e-06)
    p = p * w + f32(4.45650715e-05)
    p = p * w + f32(-0.00012748139)
    p = p * w + f32(-0.00233429644)
    p = p * w + f32(0.011548654)
    p = p * w + f32(0.232013818)
    p = p * w + f32(0.88622692)
    u = w - f32(10)
    q = f32(-4.11555521e-11)
    q = q * u + f32(6.81544436e-10)
    q = q * u + f32(-4.17804749e-09)
    q = q * u + f32(5.91331372e-09)
    q = q * u + f32(3.04552329e-07)
    q = q * u + f32(-8.34840326e-06)
    q = q * u + f32(0.000171456341)
    q = q * u + f32(-0.00380755499)
    q = q * u + f32(0.158781677)
    q = q * u + f32(2.99574605)
    y = x * (p if w < f32(5) else q)
    far = x * f32(np.inf) if a == f32(1) else f32(np.nan)  # (nan too)
    return y if a < f32(1) else far


@kernel
def erfinv(x, out):
    apart()
    whole_registers()
    for i in range(out.size):
        out[i] = _erfinv32(x[i])


# --- lgamma ----------------------------------------------------------------------------------------------------------


@device
def _lgamma_near(t):
    """log(Γ(2 + t)) / t for |t| <= 1/2, to eleven digits."""
    p = f64(2.6095100070142788e-05)
    p = p * t + f64(-5.2743629218259439e-05)
    p = p * t + f64(9.706308664044829e-05)
    p = p * t + f64(-0.00022089708558518134)
    p = p * t + f64(0.00051014256652091633)
    p = p * t + f64(-0.0011930487379246952)
    p = p * t + f64(0.0028904656243773424)
    p = p * t + f64(-0.007385533794477735)
    p = p * t + f64(0.020580810232313586)
    p = p * t + f64(-0.067352301418737381)
    p = p * t + f64(0.32246703340316579)
    return p * t + f64(0.42278433509971153)


@device
def _stirling(w):
    """What Stirling's series leaves of log Γ(w) behind (w - 1/2) log w - w, for w >= 8."""
    # M. Abramowitz and I. Stegun, Handbook of mathematical functions (1964), equation 6.1.41
    v = f64(1) / w
    z = v * v
    p = f64(-3617 / 122400)
    p = p * z + f64(1 / 156)
    p = p * z + f64(-691 / 360360)
    p = p * z + f64(1 / 1188)
    p = p * z + f64(-1 / 1680)
    p = p * z + f64(1 / 1260)
    p = p * z + f64(-1 / 360)
    p = p * z + f64(1 / 12)
    return p * v + f64(0.9189385332046728)


@device
def _sine(r):
    """sin(π r) / (π r) for |r| <= 1/2."""
    z = r * r
    p = f64(-6.6985798641733702e-06)
    p = p * z + f64(0.00014830206488673678)
    p = p * z + f64(-0.0023460503365048831)
    p = p * z + f64(0.026147843628768021)
    p = p * z + f64(-0.19075182380638667)
    p = p * z + f64(0.8117424252714508)
    p = p * z + f64(-1.6449340668480521)
    return p * z + f64(1)


@device
def _lgamma32(y):
    # in float64: beside zeros of the result, which lie at no float32, 2^-53 is what is left of 2^-24
    x = f64(y)
    left = x < f64(0.5)  # log|Γ(x)| = log(π / |sin π x|) - log Γ(1 - x)
    z = f64(1) - x if left else x
    near = (not left) & (z < f64(2.5))
    short = z < f64(8)  # log Γ(z) = log Γ(z + 6) - log(z (z + 1) ... (z + 5))
    w = z + f64(6) if short and not near else z
    product = (z * (z + f64(5))) * ((z + f64(1)) * (z + f64(4))) * ((z + f64(2)) * (z + f64(3)))
    product = product if short else f64(1)
    r = x - np.rint(x)
    quotient = product / (abs(r) * _sine(r)) if left else product
    log_w = log(w)
    far = (w - f64(0.5)) * log_w - w + _stirling(w) - log(quotient)
    below = z < f64(1.5)
    t = z - (f64(1) if below else f64(2))
    beside = t * _lgamma_near(t) - (log_w if below else f64(0))
    far = -far if left else far
    found = f32(beside if near else far)
    return found if abs(y) < f32(np.inf) else abs(y)  # (nan too)


@kernel
def lgamma(x, out):
    apart()
    whole_registers()
    for i in range(out.size):
        out[i] = _lgamma32(x[i])


# --- neighbours ------------------------------------------------------------------------------------------------------


@kernel
def nextafter(x, y, out):
    apart()
    T = x.dtype.type
    I = type(rank(T(0)))  # noqa: E741 (the integers of that size)
    least = unrank(I(1))
    for i in range(out.size):
        a, b = x[i], y[i]
        way = I(1) if a < b else I(-1)
        moved = math.copysign(least, b) if a == T(0) else unrank(I(rank(a) + way))
        moved = b if a == b else moved
        out[i] = a + b if (a != a) | (b != b) else moved  # noqa: PLR0124 (nan)
