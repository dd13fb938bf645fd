"""Sine, cosine and the inverses of sine, cosine and tangent of one number, for kernels; see jit_math.py."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64, float32_of, float64_of
from ferro.cpu.kernels.jit_math import WHOLE32, WHOLE64
from ferro.native.jit import by_precision, device

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64


@device
def _sine_beside32(a, t, n):
    """The sine of a - n π, its sign changed if the last bit of t is 1; n is within 1/2 of a / π."""
    r = a - n * f32(3.1415927)  # π in three parts; a fused multiplication loses no bit of a product
    r = r + n * f32(8.74227766e-8)
    r = r + n * f32(3.430249e-15)
    z = r * r
    p = f32(-2.3292818e-8)
    p = p * z + f32(2.751307e-6)
    p = p * z + f32(-0.00019840807)
    p = p * z + f32(0.008333331)
    p = p * z + f32(-0.16666667)
    return float32_of(i32(bits32(r + (r * z) * p) ^ i32(bits32(t) << i32(31))))


@device
def _sine_beside64(a, t, n):
    """As `_sine_beside32`."""
    r = a - n * f64(3.141592653589793)
    r = r - n * f64(1.2246467991473532e-16)
    r = r + n * f64(2.9947698097183397e-33)
    z = r * r
    p = f64(2.7215733440406776e-15)
    p = p * z + f64(-7.643056834692467e-13)
    p = p * z + f64(1.6058943500654907e-10)
    p = p * z + f64(-2.5052106979622302e-08)
    p = p * z + f64(2.7557319212728634e-06)
    p = p * z + f64(-0.00019841269841221627)
    p = p * z + f64(0.00833333333333324)
    p = p * z + f64(-0.16666666666666666)
    return float64_of(bits64(r + (r * z) * p) ^ (bits64(t) << i64(63)))


@device
def _sine32(x):
    a = abs(x)
    t = a * f32(0.31830988618) + WHOLE32
    y = _sine_beside32(a, t, t - WHOLE32)
    return float32_of(i32(bits32(y) ^ (bits32(x) & i32(-0x80000000))))


@device
def _sine64(x):
    a = abs(x)
    t = a * f64(0.3183098861837907) + WHOLE64
    y = _sine_beside64(a, t, t - WHOLE64)
    return float64_of(bits64(y) ^ (bits64(x) & i64(-0x8000000000000000)))


@device
def _cosine32(x):
    a = abs(x)
    t = (a * f32(0.31830988618) + f32(0.5)) + WHOLE32
    return _sine_beside32(a, t, (t - WHOLE32) - f32(0.5))


@device
def _cosine64(x):
    a = abs(x)
    t = (a * f64(0.3183098861837907) + f64(0.5)) + WHOLE64
    return _sine_beside64(a, t, (t - WHOLE64) - f64(0.5))


# The largest numbers of which `sine` and `cosine` are right: beyond, n π in three parts has lost digits.
CIRCLES = {f32: f32(1e5), f64: f64(1e8)}

sine = by_precision(_sine32, _sine64)
cosine = by_precision(_cosine32, _cosine64)


# --- and their inverses ----------------------------------------------------------------------------------------------


@device
def _atan_rest32(z):
    """(atan w - w) / w³ for z = w², |w| <= tan(π/8)."""
    p = f32(-0.060330085)
    p = p * z + f32(0.105813969)
    p = p * z + f32(-0.142429599)
    p = p * z + f32(0.199985326)
    return p * z + f32(-0.333333186)


@device
def _atan_rest64(z):
    p = f64(0.01513281099544166)
    p = p * z + f64(-0.033431312252257886)
    p = p * z + f64(0.045026410529035464)
    p = p * z + f64(-0.05218462535956803)
    p = p * z + f64(0.0587708411491015)
    p = p * z + f64(-0.06666239792410315)
    p = p * z + f64(0.07692284199275895)
    p = p * z + f64(-0.09090908238965907)
    p = p * z + f64(0.11111111091865898)
    p = p * z + f64(-0.14285714285469026)
    p = p * z + f64(0.19999999999998538)
    return p * z + f64(-0.3333333333333333)


@device
def _atan32(x):
    # atan a = π/4 + atan((a - 1) / (a + 1)) above tan(π/8), π/2 - atan(1 / a) above tan(3π/8)
    a = abs(x)
    high, low = a > f32(2.4142137), a > f32(0.41421357)
    over, under = (f32(-1) if high else a - f32(1)), (a if high else a + f32(1))
    w = over / under if low else a
    z = w * w
    y = w * z * _atan_rest32(z) + ((f32(-4.371139e-8) if high else f32(-2.1855695e-8)) if low else f32(0)) + w
    y = y + ((f32(1.5707964) if high else f32(0.78539819)) if low else f32(0))
    return math.copysign(y if a < f32(np.inf) else (f32(1.5707964) if a == f32(np.inf) else a), x)


@device
def _atan64(x):
    a = abs(x)
    high, low = a > f64(2.414213562373095), a > f64(0.4142135623730950)
    over, under = (f64(-1) if high else a - f64(1)), (a if high else a + f64(1))
    w = over / under if low else a
    z = w * w
    y = (
        w * z * _atan_rest64(z)
        + ((f64(6.123233995736766e-17) if high else f64(3.061616997868383e-17)) if low else f64(0))
        + w
    )
    y = y + ((f64(1.5707963267948966) if high else f64(0.7853981633974483)) if low else f64(0))
    return math.copysign(y if a < f64(np.inf) else (f64(1.5707963267948966) if a == f64(np.inf) else a), x)


@device
def _asin_beyond32(z):
    """(asin √z / √z - 1) / z up to 1/4."""
    p = f32(0.0378076705)
    p = p * z + f32(0.0143341698)
    p = p * z + f32(0.0317997234)
    p = p * z + f32(0.0445235929)
    p = p * z + f32(0.0750042918)
    return p * z + f32(0.166666622)


@device
def _asin_beyond64(z):
    p = f64(0.032013624832584284)
    p = p * z + f64(-0.01625990303962391)
    p = p * z + f64(0.019469216829225932)
    p = p * z + f64(0.006583831569711913)
    p = p * z + f64(0.012147170745582697)
    p = p * z + f64(0.013890198492331923)
    p = p * z + f64(0.017359013747032595)
    p = p * z + f64(0.022371818419924427)
    p = p * z + f64(0.030381955911279044)
    p = p * z + f64(0.044642856926635104)
    p = p * z + f64(0.07500000000189412)
    return p * z + f64(0.16666666666666174)


@device
def _asin32(x):
    # asin a = π/2 - 2 asin √((1 - a) / 2)
    a = abs(x)
    far = a > f32(0.5)
    z = (f32(1) - a) * f32(0.5) if far else a * a
    w = np.sqrt(z) if far else a
    y = w * z * _asin_beyond32(z)
    far_y = (f32(1.5707964) - (w + w)) - ((y + y) + f32(4.371139e-8))
    return math.copysign(far_y if far else y + w, x)


@device
def _asin64(x):
    a = abs(x)
    far = a > f64(0.5)
    z = (f64(1) - a) * f64(0.5) if far else a * a
    w = np.sqrt(z) if far else a
    y = w * z * _asin_beyond64(z)
    far_y = (f64(1.5707963267948966) - (w + w)) - ((y + y) - f64(6.123233995736766e-17))
    return math.copysign(far_y if far else y + w, x)


@device
def _acos32(x):
    a = abs(x)
    far = a > f32(0.5)
    z = (f32(1) - a) * f32(0.5) if far else a * a
    w = np.sqrt(z) if far else a
    y = w * z * _asin_beyond32(z) + w
    y = y if far else math.copysign(y, x)
    near = f32(1.5707964) - (y + f32(4.371139e-8))
    twice = y + y
    return (twice if x > f32(0) else f32(3.1415927) - (twice + f32(8.742278e-8))) if far else near


@device
def _acos64(x):
    a = abs(x)
    far = a > f64(0.5)
    z = (f64(1) - a) * f64(0.5) if far else a * a
    w = np.sqrt(z) if far else a
    y = w * z * _asin_beyond64(z) + w
    y = y if far else math.copysign(y, x)
    near = f64(1.5707963267948966) - (y - f64(6.123233995736766e-17))
    twice = y + y
    return (twice if x > f64(0) else f64(3.141592653589793) - (twice - f64(1.2246467991473532e-16))) if far else near


atan_rest = by_precision(_atan_rest32, _atan_rest64)
atan = by_precision(_atan32, _atan64)
asin = by_precision(_asin32, _asin64)
acos = by_precision(_acos32, _acos64)
