"""The normal distribution's functions of one number, for kernels: erf, gelu and its slope; see jit_math.py."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits64, float64_of, muladd
from ferro.cpu.kernels.jit_math import WHOLE32, exp, split_exp64, times_power, two_to_the
from ferro.native.jit import by_precision, device

f32, f64, i64 = np.float32, np.float64, np.int64


@device
def erf_near32(x):
    """erf x for |x| <= 0.93."""
    z = x * x
    p = f32(8.31675884e-5)
    p = p * z + f32(-0.00081300086)
    p = p * z + f32(0.0051999063)
    p = p * z + f32(-0.0268589414)
    p = p * z + f32(0.112836872)
    p = p * z + f32(-0.376126332)
    p = p * z + f32(0.12837917)
    return x + x * p


@device
def _erf32(x):
    a = abs(x)
    near = erf_near32(x)
    c = min(a, f32(4))  # beyond, erf is 1
    q = f32(0.000282676475)
    q = q * c + f32(-0.00439042602)
    q = q * c + f32(0.0320666443)
    q = q * c + f32(-0.149941569)
    q = q * c + f32(-0.919259684)
    q = q * c + f32(-1.62689204)
    q = q * c + f32(-0.000282298553)
    t = q + WHOLE32
    far = math.copysign(f32(1) - times_power(two_to_the(q - (t - WHOLE32)), t), x)
    return far if a >= f32(0.93) else near


@device
def _erf64_near(z):
    """erf(x) / x - 1 for z = x² <= 1."""
    # Here and below in two halves, even and odd: one after the other, each step would wait four cycles for the one before.
    w = z * z
    p = f64(5.945254692966e-11)
    p = p * w + f64(1.4657878770395011e-08)
    p = p * w + f64(1.6460972802586814e-06)
    p = p * w + f64(0.00012055331036866374)
    p = p * w + f64(0.005223977624780856)
    p = p * w + f64(0.11283791670954857)
    p = p * w + f64(0.1283791670955126)
    q = f64(-1.1365661793395931e-09)
    q = q * w + f64(-1.6350025065539813e-07)
    q = q * w + f64(-1.4925593506029411e-05)
    q = q * w + f64(-0.0008548326978741403)
    q = q * w + f64(-0.026866170645072893)
    q = q * w + f64(-0.3761263890318375)
    return q * z + p


@device
def _erf64_far(c):
    """log(1 - erf c) + c² for 1 <= c <= 6."""
    u = c * f64(0.4) - f64(1.4)
    w = u * u
    p = f64(4.1222495226835586e-05)
    p = p * w + f64(0.0010089725581910838)
    p = p * w + f64(0.0022525899508422957)
    p = p * w + f64(0.0008936629195575211)
    p = p * w + f64(0.000807330862209372)
    p = p * w + f64(0.005935005947888697)
    p = p * w + f64(0.03412889459707005)
    p = p * w + f64(0.20779342111196028)
    p = p * w + f64(-1.8624374021790953)
    q = f64(0.00031631161209354664)
    q = q * w + f64(0.0018962812988038602)
    q = q * w + f64(0.0017199175583537667)
    q = q * w + f64(-0.00017813203641849152)
    q = q * w + f64(-0.002439295725772462)
    q = q * w + f64(-0.01438614101409563)
    q = q * w + f64(-0.08165076263943162)
    q = q * w + f64(-0.6652489708564336)
    return q * u + p


@device
def _erf64(x):
    a = abs(x)
    near = x + x * _erf64_near(a * a)
    c = min(a, f64(6))  # beyond, erf is 1
    y, t = split_exp64(_erf64_far(c) - c * c)
    far = math.copysign(f64(1) - float64_of(bits64(y) + (bits64(t) << i64(52))), x)
    return near if a < f64(1) or math.isnan(x) else far


_FAR = f32(13.2)  # beyond, the normal density is not a normal number, and counts as 0


@device
def _density_and_tail(a):
    """exp(-a²/2), and the ratio to it of Φ(-a), for 0 <= a < _FAR."""
    s = a * a
    t = muladd(s, f32(-0.7213475204444817), WHOLE32)
    e = times_power(two_to_the(muladd(s, f32(-0.7213475204444817), WHOLE32 - t)), t)
    p = f32(0.00401165944) * a + f32(0.039926303)
    p = p * a + f32(0.181134353)
    p = p * a + f32(0.435452259)
    p = p * a + f32(0.5)
    q = f32(0.0100555935) * a + f32(0.10008787)
    q = q * a + f32(0.463925338)
    q = q * a + f32(1.19376595)
    q = q * a + f32(1.66878943)
    q = q * a + f32(1)
    return e, p / q


@device
def _gelu32(x):
    # x Φ(x) = max(x, 0) - |x| Φ(-|x|)
    a = abs(x)
    e, r = _density_and_tail(a)
    y = x if x > f32(0) else x * f32(0)
    return y - a * (e * r) if a < _FAR else y


@device
def _gelu_slope32(x):
    # Φ(x) + x φ(x)
    a = abs(x)
    e, r = _density_and_tail(a)
    left = f32(0) if a >= _FAR else e * (r - a * f32(0.3989422804014327))  # the limit at infinity
    return f32(1) - left if x > f32(0) else left


@device
def _normal64(x):
    return f64(0.5) * (f64(1) + _erf64(x * f64(0.7071067811865476)))


@device
def _gelu64(x):
    return x * _normal64(x)


@device
def _gelu_slope64(x):
    c = max(x, f64(-40))  # beyond, the density is 0, also at infinity
    c = min(c, f64(40))
    return _normal64(x) + c * exp(c * c * f64(-0.5)) * f64(0.3989422804014327)


erf_ = by_precision(_erf32, _erf64)
gelu_ = by_precision(_gelu32, _gelu64)
gelu_slope = by_precision(_gelu_slope32, _gelu_slope64)
