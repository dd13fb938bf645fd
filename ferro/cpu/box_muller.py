"""Normal numbers from pairs of uniform ones, rounded as PyTorch's code for processors with AVX2 rounds them.

Box and Muller (1958), "A note on the generation of random normal deviates".  In float32, PyTorch takes the logarithm, sine
and cosine of the Cephes library (Moshier, "Methods and Programs for Mathematical Functions", 1989) with fused multiplications
and additions.  Here each of those is one in float64, rounded to float32 afterwards: the same number but for one in about 2^29.
"""

from __future__ import annotations

from typing import Any

import numpy as np

f4, f8, i4 = np.float32, np.float64, np.int32

BLOCK = 16  # numbers that are made together: eight pairs, the first members before the second ones
LOG = [
    f4(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
]
SINE = [f4(c) for c in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
COSINE = [f4(c) for c in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)]
QUARTER = [
    f4(c) for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
]  # minus pi / 4, in three parts
LOG_2 = f4(-2.12194440e-4), f4(0.693359375)  # ln 2 in two parts
TWO_PI, ROOT_HALF, OCTANTS = f4(2 * np.pi), f4(0.707106781186547524), f4(1.27323954473516)  # the last is 4 / pi
# the same in float64, in which the formulas here are computed
_LOG, _SINE, _COSINE, _QUARTER = [[float(c) for c in part] for part in (LOG, SINE, COSINE, QUARTER)]
_LOW, _HIGH, _TWO_PI, _ROOT_HALF, _OCTANTS = map(float, (*LOG_2, TWO_PI, ROOT_HALF, OCTANTS))


def normals(u: Any, mean: float, std: float) -> Any:
    """Normal numbers, in place of uniform ones on [0, 1): an array (blocks, 16) of float32 or float64."""
    kind = u.dtype.type
    first, second = u[:, :8].astype(f8), u[:, 8:].astype(f8)
    if kind is f4:
        radius = _rounded(np.sqrt(-2 * _log(1 - first)))
        sine, cosine = [_rounded(part * radius) for part in _sine_and_cosine(_rounded(_TWO_PI * second))]
    else:
        radius = np.sqrt(-2 * np.log(1 - first))
        angle = 2 * np.pi * second
        sine, cosine = np.sin(angle) * radius, np.cos(angle) * radius
    if mean != 0 or std != 1:
        with np.errstate(over="ignore"):
            scale, shift = kind(std), kind(mean)
        sine, cosine = [fma(part.astype(kind), scale, shift) for part in (sine, cosine)]
    u[:, :8], u[:, 8:] = cosine, sine
    return u


def fma(a: Any, b: Any, c: Any) -> Any:
    """a b + c of numbers of one dtype, a an array, rounded once (but for one number in many)."""
    with np.errstate(all="ignore"):
        if a.dtype == f4:
            return (a.astype(f8) * f8(b) + c).astype(f4)
        high, low = _product(a, f8(b))
        total = high + c
        back = total - high
        exact = total + (((high - (total - back)) + (c - back)) + low)
        return np.where(np.isfinite(exact), exact, total)  # (the parts of infinite and very large numbers are nan)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """The product in float64 and its rounding error (Dekker 1971, "A floating-point technique for extending the available precision")."""
    high = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Any) -> tuple[Any, Any]:
    big = a * 134217729.0  # 2^27 + 1
    high = big - (big - a)
    return high, a - high


def _rounded(x: Any) -> Any:
    """Numbers in float64, rounded to float32 and still in float64: after each step that is one in float32."""
    return x.astype(f4).astype(f8)


def _log(x: Any) -> Any:
    """The natural logarithm of numbers of (0, 1] in float32."""
    m, e = np.frexp(x)  # m in [1/2, 1)
    small = m < _ROOT_HALF
    e = e - small.astype(f8)
    m = np.where(small, m + m, m) - 1
    z = _rounded(m * m)
    y = _LOG[0]
    for c in _LOG[1:]:
        y = _rounded(y * m + c)
    y = _rounded(y * m)
    y = _rounded(y * z + _rounded(e * _LOW))
    y = _rounded(z * -0.5 + y)
    return _rounded(e * _HIGH + _rounded(m + y))


def _sine_and_cosine(x: Any) -> tuple[Any, Any]:
    """Sine and cosine of angles of [0, 2 pi) in float32."""
    octant = (_rounded(x * _OCTANTS).astype(i4) + i4(1)) & i4(-2)  # x * 4 / pi, up to the next even number
    for part in _QUARTER:
        x = _rounded(octant * part + x)
    z = _rounded(x * x)
    c = _rounded(_rounded(_COSINE[0] * z + _COSINE[1]) * z + _COSINE[2])
    c = _rounded(_rounded(_rounded(c * z) * z + z * -0.5) + 1)
    s = _rounded(_rounded(_SINE[0] * z + _SINE[1]) * z + _SINE[2])
    s = _rounded(_rounded(s * z) * x + x)
    swapped = (octant & i4(2)) != 0
    sine, cosine = np.where(swapped, c, s), np.where(swapped, s, c)
    sine[(octant & i4(4)) != 0] *= -1
    cosine[((octant - i4(2)) & i4(4)) == 0] *= -1
    return sine, cosine
