"""Compiled kernels of powers of float64, right to 0.7 units in the last place, and of float32, right to 0.52.

x^y is 2^(y log2 x); the logarithm is a sum of two numbers, since y multiplies its error. Powers of float32 are computed in
float64, where one number is enough. The polynomials are fits of our own.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits64, float64_of
from ferro.cpu.kernels.jit_exact import exact, fma
from ferro.native.jit import apart, device, kernel, once

f64, i64, u64 = np.float64, np.int64, np.uint64
_WHOLE = 1.5 * 2**52  # added, it rounds to a whole number, which then stands in the low bits of the sum
_ROOT = 0x3FE6A09E667F3BCD  # the bits of the root of 1/2
_ONE, _EXPONENT = 1023 << 52, 0x7FF << 52  # those of 1, and of all exponents
_STEPS = 64 << 52  # a power of 2^64


@exact
def _log2(a):
    """log2 a of a positive, finite number, as a sum of two numbers, wrong by less than 2^-64 of it.

    a = 2^e m with 0.7 < m < 1.42, and log2 m = s (C0 + s² (C1 + s² p(s²))) for s = (m - 1) / (m + 1).
    """
    tiny = a < 2.0**-1022
    bits = bits64(a * (2.0**54 if tiny else 1.0))
    power = bits - i64(_ROOT - _ONE)
    e = float64_of(i64(u64(power) >> u64(52)) | bits64(2.0**52)) - (2.0**52 + (1077.0 if tiny else 1023.0))
    m = float64_of(bits - (power & i64(_EXPONENT)) + i64(_ONE))
    above, below = m + 1.0, m - 1.0
    inverse = 1.0 / above
    s = below * inverse
    lost = fma(-s, above, below)  # of m - 1, which is exact; of m + 1 this is lost: 1 - ((m + 1) - m), up to sign
    s_ = fma(-s, m - (above - 1.0), lost) * inverse
    z = s * s
    z_ = fma(s, s, -z) + 2.0 * s * s_
    w = z * z
    even = fma(fma(fma(0.16888529114458137, w, 0.2219527885851067), w, 0.3205988979671547), w, 0.5770780163555853)
    odd = fma(fma(fma(0.16912971664122153, w, 0.19238056603036385), w, 0.2623081914681522), w, 0.4121985831111439)
    p = z * fma(odd, z, even)
    t = 0.9617966939259756 + p
    t_ = (0.9617966939259756 - t) + p + 5.0577616648125907e-17
    u = z * t
    u_ = fma(z, t, -u) + fma(z, t_, z_ * t)
    v = 2.8853900817779268 + u
    v_ = (2.8853900817779268 - v) + u + (4.0710547481862066e-17 + u_)
    y = s * v
    y_ = fma(s, v, -y) + fma(s, v_, s_ * v)
    found = e + y
    return found, (e - found) + y + y_


@device
def _rough_log2(a):
    """As `_log2`, of a number that was a float32: one number, wrong by 2^-45 of it."""
    bits = bits64(a)
    power = bits - i64(_ROOT - _ONE)
    e = float64_of(i64(u64(power) >> u64(52)) | bits64(2.0**52)) - (2.0**52 + 1023.0)
    m = float64_of(bits - (power & i64(_EXPONENT)) + i64(_ONE))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = (0.28288502340748234 * z + 0.31990680380701336) * z + 0.41220922406110433
    p = ((p * z + 0.5770779426603044) * z + 0.9617966941122649) * z + 2.885390081777851
    return e + s * p


@exact
def _two_to(h, rest):
    """2^(h + rest), where rest is about a rounding of h."""
    h = max(min(h, 1030.0), -1080.0)
    t = h + _WHOLE
    near = h - (t - _WHOLE)
    r = near + rest
    q = r * 0.6931471805599453
    q_ = fma(r, 0.6931471805599453, -q) + fma(r, 2.3190468138462996e-17, ((near - r) + rest) * 0.6931471805599453)
    w = q * q
    odd = fma(fma(2.5105217004720745e-8, w, 2.7557255400206422e-6), w, 1.9841269874820627e-4)
    odd = fma(fma(odd, w, 0.008333333333326136), w, 0.1666666666666667)
    even = fma(fma(2.0914686968086876e-9, w, 2.75572736431103e-7), w, 2.4801587325547743e-5)
    even = fma(fma(fma(even, w, 0.0013888888888883748), w, 0.04166666666666667), w, 0.5)
    above = fma(fma(odd, q, even), w, q_)
    beyond = q + above
    y = 1.0 + beyond
    y = y + (((1.0 - y) + beyond) + ((q - beyond) + above))
    # What is out of the range of normal numbers is computed 2^64 times too large or too small, and so rounds once.
    small, large = h < -1021.0, h > 1022.0
    step = (i64(_STEPS) if small else i64(0)) - (i64(_STEPS) if large else i64(0))
    y = float64_of(bits64(y) + (bits64(t) << i64(52)) + step)
    return y * (2.0**-64 if small else (2.0**64 if large else 1.0))


@exact
def _rough_two_to(h):
    """2^h to 2^-34 of it, as far as float32 goes."""
    h = max(min(h, 200.0), -200.0)
    t = h + _WHOLE
    r = h - (t - _WHOLE)
    p = fma(fma(1.5303700711365693e-05, r, 0.00015469729214118296), r, 0.0013333478473685416)
    p = fma(fma(fma(p, r, 0.009618025613318034), r, 0.055504109063258665), r, 0.24022651213498092)
    p = fma(fma(p, r, 0.6931471805568324), r, 0.9999999999595618)
    return float64_of(bits64(p) + (bits64(t) << i64(52)))


@exact
def _settled(found, h, x, y, a):
    """What was found for 2^h, h being y log2 a and a = |x|, with the sign and the exceptions of C's pow."""
    found = h if math.isnan(h) else found
    whole, half = np.floor(y) == y, y * 0.5
    found = np.nan if (x < 0.0) & (not whole) & (a < np.inf) else found
    found = 1.0 if (y == 0.0) | (x == 1.0) | ((a == 1.0) & (abs(y) == np.inf)) else found
    return math.copysign(found, x) if whole & (np.floor(half) != half) else found


@exact
def power_of(x, y):
    """x^y, with the exceptions of C's pow."""
    a = abs(x)
    log, rest = _log2(a)
    log = log if a < np.inf else a  # (nan too)
    log = -np.inf if a == 0.0 else log
    h = y * log
    within = abs(h) < 1100.0
    return _settled(_two_to(h, fma(y, log, -h) + y * rest if within else 0.0), h, x, y, a)


@exact
def rough_power_of(x, y):
    """As `power_of`, of numbers that were float32, and to be rounded to one."""
    a = abs(x)
    log = _rough_log2(a) if a < np.inf else a
    h = y * (-np.inf if a == 0.0 else log)
    return _settled(_rough_two_to(h), h, x, y, a)


@device
def raised(x, y, size):
    """The power of numbers of so many bytes, which the compiler knows."""
    return rough_power_of(f64(x), f64(y)) if size == 4 else power_of(f64(x), f64(y))


@kernel
def power(x, y, out):
    apart()
    for i in range(out.size):
        out[i] = raised(x[i], y[i], out.itemsize)


@kernel
def power_number(x, y, out):
    apart()
    for i in range(out.size):
        out[i] = raised(x[i], y, out.itemsize)


@kernel
def _power_of_number(x, y, out):
    apart()
    for i in range(out.size):
        out[i] = raised(x, y[i], out.itemsize)


@once
def powers(x, y, out):
    """Powers of which x or y may hold one number for all, as a step of a program."""
    if y.size != out.size:
        power_number(x, y[0], out)
    elif x.size != out.size:
        _power_of_number(x[0], y, out)
    else:
        power(x, y, out)
