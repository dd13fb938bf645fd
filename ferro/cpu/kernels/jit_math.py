"""Functions of one number that kernels call: exponentials, logarithms, tanh and sigmoid.

The polynomials are minimax fits of our own (Remez exchange, 40 digits). Largest errors in units in the last place:
exp 1.0, tanh 1.4, log1p 1.9, expm1 1.5, sigmoid 1.9. Others: jit_circles.py, jit_normal.py.

Note [Functions without branches].  Vectors of numbers have no branches: both sides are computed, and one is chosen. So
each function is one formula where possible, and exceptions (nan, infinities, results below the normal numbers) are
choices at its end. Adding 1.5 · 2²³ rounds a float32 to a whole number, which then stands in the low bits of the sum.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64, float32_of, float64_of
from ferro.native.jit import by_precision, device

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
WHOLE32, WHOLE64 = f32(1.5 * 2**23), f64(1.5 * 2**52)  # see Note [Functions without branches]

# --- functions of one number -----------------------------------------------------------------------------------------


@device
def two_to_the(r):
    """2^r for -1/2 <= r <= 1/2."""
    p = f32(0.00015352841)
    p = p * r + f32(0.0013399521)
    p = p * r + f32(0.0096184436)
    p = p * r + f32(0.055503309)
    p = p * r + f32(0.24022648)
    p = p * r + f32(0.69314720)
    return p * r + f32(1)


@device
def exp_beyond32(r):
    """(e^r - 1 - r) / r² for |r| <= log(2) / 2."""
    p = f32(0.00138131795)
    p = p * r + f32(0.00836941883)
    p = p * r + f32(0.0416684562)
    p = p * r + f32(0.166665148)
    return p * r + f32(0.499999931)


@device
def _split_exp(x):
    """y and t with e^x = y 2^n, 0.7 < y < 1.42, and the whole number n in the low bits of t: see `times_power`."""
    t = x * f32(1.4426950408889634) + WHOLE32
    n = t - WHOLE32
    r = x - n * f32(0.693359375)
    r = r + n * f32(2.12194440e-4)
    return (exp_beyond32(r) * r + f32(1)) * r + f32(1), t


@device
def times_power(y, t):
    """y 2^n, where neither is out of the range of normal numbers: n is added to the exponent."""
    return float32_of(i32(bits32(y) + i32(bits32(t) << i32(23))))


@device
def _exp32(x):
    c = max(x, f32(-104))
    y, t = _split_exp(c)
    tiny = c < f32(-86)  # results below 2^-126 are computed 2^64 times too large, and so round once
    y = float32_of(i32(bits32(y) + i32(i32(bits32(t) << i32(23)) + (i32(64 << 23) if tiny else i32(0)))))
    # (Where e^x is 0, as in masked places, it is multiplied by 0: a product that underflows takes 100 cycles.)
    small = f32(2.0**-64) if c > f32(-104) else f32(0)
    y = y * (small if tiny else f32(1))
    return y if x <= f32(88.72284) else x + f32(np.inf)


@device
def _exp_beyond64(r):
    """(e^r - 1 - r) / r² for |r| <= log(2) / 2."""
    w = r * r  # in two halves, even and odd: one after the other, each step would wait for the one before
    p = f64(2.4998991969945732e-8)
    p = p * w + f64(2.7557597187461963e-6)
    p = p * w + f64(1.9841269486162524e-4)
    p = p * w + f64(0.0083333333335076595913)
    p = p * w + f64(0.16666666666666386307)
    q = f64(2.7631687324728708e-7)
    q = q * w + f64(2.4801489352296403e-5)
    q = q * w + f64(0.001388888894691998508)
    q = q * w + f64(0.041666666666519152789)
    p = q * r + p
    return p * r + f64(0.50000000000000117013)


@device
def split_exp64(x):
    """As `_split_exp`."""
    t = x * f64(1.4426950408889634) + WHOLE64
    n = t - WHOLE64
    r = x - n * f64(0.693145751953125)
    r = r - n * f64(1.42860682030941723212e-6)
    return _exp_beyond64(r) * (r * r) + r + f64(1), t


@device
def _exp64(x):
    # As `_exp32`.
    c = max(x, f64(-746))
    y, t = split_exp64(c)
    tiny = c < f64(-708)
    y = float64_of(bits64(y) + (bits64(t) << i64(52)) + (i64(64 << 52) if tiny else i64(0)))
    small = f64(2.0**-64) if c > f64(-746) else f64(0)
    y = y * (small if tiny else f64(1))
    return y if x <= f64(709.782712893384) else x + f64(np.inf)


@device
def _tanh32(x):
    a = abs(x)
    z = a * a
    p = f32(-0.00571702794)
    p = p * z + f32(0.0206505715)
    p = p * z + f32(-0.053743493)
    p = p * z + f32(0.133314912)
    p = p * z + f32(-0.333332839)
    near = a + a * z * p
    y, t = _split_exp(f32(20) if a > f32(10) else a + a)  # beyond, tanh is 1
    far = f32(1) - f32(2) / (times_power(y, t) + f32(1))
    return math.copysign(far if a >= f32(0.625) else near, x)


@device
def _tanh64(x):
    a = abs(x)
    z = a * a
    p = f64(-1.610752634330152e-05)
    p = p * z + f64(7.721913713764996e-05)
    p = p * z + f64(-0.0002286332024234183)
    p = p * z + f64(0.0005863524641387243)
    p = p * z + f64(-0.0014549704698017811)
    p = p * z + f64(0.0035919915695055717)
    p = p * z + f64(-0.00886322131912906)
    p = p * z + f64(0.021869487601957296)
    p = p * z + f64(-0.0539682539324822)
    p = p * z + f64(0.13333333333264916)
    p = p * z + f64(-0.33333333333332876)
    near = a + a * z * p
    far = f64(1) - f64(2) / (_exp64(a + a) + f64(1))
    return math.copysign(near if a < f64(0.625) else far, x)


@device
def log_near_1(z):
    """log(1 + z) - z of a float32 from -0.3 to 0.42."""
    p = f32(0.0674663756)
    p = p * z + f32(-0.116756507)
    p = p * z + f32(0.118881629)
    p = p * z + f32(-0.124055896)
    p = p * z + f32(0.142195525)
    p = p * z + f32(-0.166679958)
    p = p * z + f32(0.200021186)
    p = p * z + f32(-0.250000096)
    p = p * z + f32(0.333333126)
    return z * z * (z * p - f32(0.5))


@device
def _artanh(s):
    """2 (artanh s - s) of a float64 up to 1/3."""
    z = s * s
    p = f64(0.17018585202268174)
    p = p * z + f64(0.08340096245074008)
    p = p * z + f64(0.12106087429583688)
    p = p * z + f64(0.13300973443956157)
    p = p * z + f64(0.15386559933043883)
    p = p * z + f64(0.1818174392452495)
    p = p * z + f64(0.22222223969739383)
    p = p * z + f64(0.28571428547853833)
    p = p * z + f64(0.40000000000157243)
    p = p * z + f64(0.6666666666666631)
    return s * z * p


@device
def _log1p_unit32(x):
    # for 0 <= x <= 1: log(1 + x) = log(2) e + log(1 + z) with |z| small and exact
    above = x > f32(0.41421356)
    z = (x - f32(1)) * f32(0.5) if above else x
    y = z + log_near_1(z)
    return y + f32(0.6931471805599453) if above else y


@device
def _log1p_unit64(x):
    s = x / (f64(2) + x)
    return f64(2) * s + _artanh(s)


@device
def _log1p32(x):
    # 1 + x = 2ᵏ (1 + z) with |z| small, and what is lost of x in 1 + x: log(1 + x) = k log 2 + log(1 + z)
    w = f32(1) + x
    k = i32(i32(bits32(w) - i32(0x3F3504F3)) >> i32(23))
    m = float32_of(i32(bits32(w) - i32(k << i32(23))))
    lost = x - (w - f32(1)) if x < f32(1) else f32(1) - (w - x)
    lost = lost * float32_of(i32(i32(i32(127) - k) << i32(23))) if k < i32(25) else f32(0)
    z = (m - f32(1)) + lost
    e = f32(k)
    y = z + (log_near_1(z) - e * f32(2.12194440e-4)) + e * f32(0.693359375)
    y = y if x < f32(np.inf) else x  # (nan too)
    bad = f32(-np.inf) if x == f32(-1) else f32(np.nan)
    return bad if x <= f32(-1) else y


@device
def _log1p64(x):
    # likewise; log(1 + z) = 2 artanh(s)
    w = f64(1) + x
    k = (bits64(w) - i64(0x3FE6A09E667F3BCD)) >> i64(52)
    m = float64_of(bits64(w) - (k << i64(52)))
    lost = x - (w - f64(1)) if x < f64(1) else f64(1) - (w - x)
    lost = lost * float64_of((i64(1023) - k) << i64(52)) if k < i64(55) else f64(0)
    t = (m - f64(1)) + lost
    s = t / (f64(2) + t)
    e = f64(k)
    y = f64(2) * s + (_artanh(s) + e * f64(1.90821492927058770e-10)) + e * f64(6.93147180369123816490e-01)
    y = y if x < f64(np.inf) else x
    bad = f64(-np.inf) if x == f64(-1) else f64(np.nan)
    return bad if x <= f64(-1) else y


@device
def _sigmoid32(x):
    a = -abs(x)
    c = max(a, f32(-104))
    y, t = _split_exp(c)
    tiny = c < f32(-86)  # as in `_exp32`
    power = i32(i32(bits32(t) << i32(23)) + (i32((127 + 64) << 23) if tiny else i32(127 << 23)))
    e = y * float32_of(power) * (f32(2.0**-64) if tiny else f32(1))
    b = f32(1) if x >= f32(0) else e
    return b - b * (e / (f32(1) + e))  # 1 / (1 + e) or e / (1 + e), rounded less often


@device
def _sigmoid64(x):
    e = _exp64(-abs(x))
    q = (f64(1) if x >= f64(0) else e) / (f64(1) + e)
    return q if x >= f64(0) else e - e * q  # e / (1 + e), rounded less often


@device
def _expm1_32(x):
    # 2ⁿ (eʳ - 1) + (2ⁿ - 1), both halved, for 2ⁿ alone may leave the range
    c = min(max(x, f32(-20)), f32(89))
    n = np.floor(c * f32(1.4426950408889634) + f32(0.5))
    r = c - n * f32(0.693359375)
    r = r + n * f32(2.12194440e-4)
    half = float32_of(i32((i32(n) + i32(126)) << i32(23)))
    y = half * (exp_beyond32(r) * (r * r) + r) + (half - f32(0.5))
    return x if math.isnan(x) else y + y


@device
def _expm1_64(x):
    # As `_expm1_32`.
    c = min(max(x, f64(-40)), f64(710))
    t = c * f64(1.4426950408889634) + WHOLE64
    n = t - WHOLE64
    r = c - n * f64(0.693145751953125)
    r = r - n * f64(1.42860682030941723212e-6)
    half = float64_of((bits64(t) << i64(52)) + i64(1022 << 52))
    y = half * (_exp_beyond64(r) * (r * r) + r) + (half - f64(0.5))
    return x if math.isnan(x) else y + y


@device
def _exp2_32(x):
    c = max(x, f32(-151))
    t = c + WHOLE32
    y = two_to_the(c - (t - WHOLE32))
    tiny = c < f32(-125)  # as in `_exp32`
    y = float32_of(i32(bits32(y) + i32(i32(bits32(t) << i32(23)) + (i32(64 << 23) if tiny else i32(0)))))
    y = y * (f32(2.0**-64) if tiny else f32(1))
    return y if x < f32(128) else x + f32(np.inf)


@device
def _exp2_64(x):
    c = max(x, f64(-1076))
    t = c + WHOLE64
    r = (c - (t - WHOLE64)) * f64(0.6931471805599453)
    y = _exp_beyond64(r) * (r * r) + r + f64(1)
    tiny = c < f64(-1021)
    y = float64_of(bits64(y) + (bits64(t) << i64(52)) + (i64(64 << 52) if tiny else i64(0)))
    y = y * (f64(2.0**-64) if tiny else f64(1))
    return y if x < f64(1024) else x + f64(np.inf)


@device
def _split_log32(x):
    """e and m with x = 2^e m, 0.7 < m < 1.42, of a positive number."""
    tiny = x < f32(2.0**-126)
    w = x * (f32(2.0**24) if tiny else f32(1))
    e = i32(i32(bits32(w) - i32(0x3F3504F3)) >> i32(23))
    m = float32_of(i32(bits32(w) - i32(e << i32(23))))
    return f32(e) - (f32(24) if tiny else f32(0)), m


@device
def _split_log64(x):
    tiny = x < f64(2.0**-1022)
    w = x * (f64(2.0**54) if tiny else f64(1))
    b = bits64(w) - i64(0x3FE6A09E667F3BCD)
    e = b >> i64(52)
    m = float64_of(bits64(w) - (e << i64(52)))
    return f64(i32(e)) - (f64(54) if tiny else f64(0)), m


@device
def _end_of_log32(x, y):
    """y, where x is positive and finite; else what a logarithm of x is."""
    y = y if x < f32(np.inf) else x  # (nan too)
    bad = f32(-np.inf) if x == f32(0) else f32(np.nan)
    return bad if x <= f32(0) else y


@device
def _end_of_log64(x, y):
    y = y if x < f64(np.inf) else x
    bad = f64(-np.inf) if x == f64(0) else f64(np.nan)
    return bad if x <= f64(0) else y


@device
def _log32(x):
    e, m = _split_log32(x)
    z = m - f32(1)
    return _end_of_log32(x, z + (log_near_1(z) - e * f32(2.12194440e-4)) + e * f32(0.693359375))


@device
def _log64(x):
    # log(1 + z) = z - z s + (2 artanh(s) - 2 s), for 2 s = z - z s
    e, m = _split_log64(x)
    z = m - f64(1)
    s = z / (f64(2) + z)
    small = e * f64(1.90821492927058770e-10) + (_artanh(s) - z * s)
    return _end_of_log64(x, e * f64(6.93147180369123816490e-01) + (z + small))


@device
def _log2_32(x):
    e, m = _split_log32(x)
    z = m - f32(1)
    y = log_near_1(z)
    return _end_of_log32(
        x, (z * f32(1.925963033500115e-8) + y * f32(1.4426950408889634)) + z * f32(1.44269502162933) + e
    )


@device
def _log2_64(x):
    e, m = _split_log64(x)
    z = m - f64(1)
    s = z / (f64(2) + z)
    y = _artanh(s) - z * s
    return _end_of_log64(
        x, (z * f64(2.0355273740931033e-17) + y * f64(1.4426950408889634)) + z * f64(1.4426950408889634) + e
    )


exp = by_precision(_exp32, _exp64)
tanh = by_precision(_tanh32, _tanh64)
sigmoid_ = by_precision(_sigmoid32, _sigmoid64)
log1p = by_precision(_log1p32, _log1p64)
log1p_unit = by_precision(_log1p_unit32, _log1p_unit64)  # of numbers between 0 and 1
expm1 = by_precision(_expm1_32, _expm1_64)
exp2 = by_precision(_exp2_32, _exp2_64)
log = by_precision(_log32, _log64)
log2 = by_precision(_log2_32, _log2_64)
