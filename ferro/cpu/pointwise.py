"""Pointwise functions of NumPy arrays: arithmetic, exponentials, circles, comparisons, rounding, complex parts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ferro.cpu.blocks import fused
from ferro.cpu.elementwise import function_of as _function_of
from ferro.cpu.elementwise import primitive as _primitive
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.entries import declare as _declare_entry
from ferro.cpu.kernels.entries import entry as _entry
from ferro.cpu.masks import select
from ferro.cpu.namespace import cpu
from ferro.elementwise import elementwise as _declare
from ferro.native import isa
from ferro.native.extensions import special as _special

NEED_WIDENING = "V"  # the kind of bfloat16


sqrt, abs = np.sqrt, np.abs
isnan, isfinite, isinf, signbit = np.isnan, np.isfinite, np.isinf, np.signbit
gcd, lcm = np.gcd, np.lcm
logical_or, logical_xor = np.logical_or, np.logical_xor
maximum, minimum, fmax, fmin = np.maximum, np.minimum, np.fmax, np.fmin
floor, ceil, trunc = np.floor, np.ceil, np.trunc
conj, zeros_like = np.conj, np.zeros_like

# Python's operators have entries, too: those who call them put them before, see bound.py.
for _name in ("add", "sub", "mul", "truediv"):
    _declare_entry(_name, "x ~ -> x +", f"jit_small.{_name}", f"jit_broadcast.{_name} jit_broadcast.{_name}_swapped")
for _name in ("maximum", "minimum"):
    _declare_entry(_name, "x ~ -> x +", f"jit_small.{_name}")
for _name in ("abs", "neg", "sqrt"):
    _declare_entry(_name, "x -> x +", f"jit_small.{_name}")


def log1p_complex(x: Any) -> Any:
    """log(1 + x) of complex numbers: near 0 the real part is half of log1p(|1 + x|^2 - 1), which NumPy's rounds away."""
    real, imag = x.real, x.imag
    with np.errstate(all="ignore"):
        excess = real * (2 + real) + imag * imag
        small = np.where(excess == 0, real, log1p(excess) / 2)
        out = np.empty_like(x)
        out.real = np.where(np.hypot(real, imag) < 0.5, small, log(np.hypot(1 + real, imag)))
    out.imag = atan2(imag, 1 + real)
    return out


def typed(value: Any, like: Any) -> Any:
    """A Python number as a scalar of the dtype of `like`."""
    return like.dtype.type(value)


@cache
def _one(dtype: Any) -> Any:
    """A 0-d one: small arrays combine twice as fast with an array as with a Python number."""
    found = np.ones((), dtype)
    found.flags.writeable = False
    return found


@cache
def _zero(dtype: Any) -> Any:
    """A 0-d zero."""
    found = np.zeros((), dtype)
    found.flags.writeable = False
    return found


# -- arithmetic --------------------------------------------------------------------------------------------------------


def _from_nearer(xp: Any, x: Any, y: Any, /, w: Any) -> Any:
    near = xp.abs(w) < 0.5
    return xp.where(near, x, y) + (y - x) * xp.where(near, w, w - 1)


@fused
def lerp(x: Any, y: Any, w: Any) -> Any:
    """x + w (y - x), from the nearer end."""
    way = y - x
    if not isinstance(w, np.ndarray):
        return x + w * way if np.abs(w) < 0.5 else y - way * (1 - w)
    return np.where(np.abs(w) < 0.5, x + w * way, y - way * (1 - w))


lerp_number = _function_of(
    _declare(_from_nearer, name="lerp_number", entry="x"), lambda x, y, w: lerp(x, y, typed(w, x))
)
addcmul = _function_of(
    _declare(lambda xp, x, y, z, /, value: x + y * z * value, name="addcmul", entry="x"),
    lambda x, y, z, value: x + y * z if value == 1 else x + y * z * typed(value, x),
)
reciprocal = _function_of(_declare(lambda xp, x: 1 / x, name="reciprocal", entry="x"), np.reciprocal)
addcdiv = _function_of(
    _declare(lambda xp, x, y, z, /, value: x + y / z * value, name="addcdiv", entry="x"),
    lambda x, y, z, value: x + y / z * typed(value, x),
)
add_scaled = _function_of(
    _declare(lambda xp, x, y, /, alpha: x + y * alpha, name="add_scaled", entry="x"),
    lambda x, y, alpha: x + y * typed(alpha, x),
)
rsqrt = _function_of(
    _declare(lambda xp, x: 1 / xp.sqrt(x), name="rsqrt", entry="x"), lambda x: np.reciprocal(np.sqrt(x))
)


# -- exponentials and circles ------------------------------------------------------------------------------------------


exp = _primitive("exp", np.exp, entry="many")
sin = _primitive("sin", np.sin, entry="many")
cos = _primitive("cos", np.cos, entry="many")


_FUSED = (
    isa.LEVEL == "avx2"
)  # NumPy has no whole registers for most, and kernels fused multiplications, which some need


def _in_registers(name: str, ufunc: np.ufunc, fused: bool = False) -> Any:
    """A ufunc that NumPy computes by whole registers where there is AVX-512, else one number after the other."""
    return _primitive(name, ufunc, entry="many") if _FUSED or (isa.LEVEL == "baseline" and not fused) else ufunc


exp2, expm1 = _in_registers("exp2", np.exp2), _in_registers("expm1", np.expm1)
log, log2, log1p = _in_registers("log", np.log), _in_registers("log2", np.log2), _in_registers("log1p", np.log1p)
tanh, atan = _in_registers("tanh", np.tanh), _in_registers("atan", np.arctan)
asin, acos = _in_registers("asin", np.arcsin), _in_registers("acos", np.arccos)
sinh, cosh, tan = [_in_registers(f.__name__, f, fused=True) for f in (np.sinh, np.cosh, np.tan)]
atan2 = np.arctan2
if _FUSED:
    atan2 = _function_of(_declare(lambda xp, y, x: xp.atan2(y, x), name="atan2", entry="x"), atan2)
asinh, acosh = _in_registers("asinh", np.arcsinh, fused=True), _in_registers("acosh", np.arccosh, fused=True)
log10, atanh = _in_registers("log10", np.log10, fused=True), _in_registers("atanh", np.arctanh, fused=True)


def _sigmoid(x: Any) -> Any:
    if x.dtype.kind == "c":
        return np.reciprocal(np.exp(-x) + _one(x.dtype))
    if x.size > 512 and x.dtype.kind == "f":  # from here on NumPy's exp, a vector at a time, makes up for four steps
        e = np.exp(-x)
        e += _one(x.dtype)
        return np.reciprocal(e, e)
    return _special("expit")(x)  # one step instead of four, and more accurate


sigmoid = _primitive("sigmoid", _sigmoid, entry="x")


_log_odds = _function_of(
    _declare(lambda xp, x: xp.log(x / (1 - x)), name="log_odds", entry="x"), lambda x: np.log(x / (1 - x))
)


def logit(x: Any, eps: float | None) -> Any:
    """ln(x / (1 - x)), x clamped to [eps, 1 - eps] first if eps is given."""
    return _log_odds(x) if eps is None else _clamped_logit(x, eps)


@fused
def _clamped_logit(x: Any, eps: float) -> Any:
    x = np.minimum(np.maximum(x, typed(eps, x)), typed(1 - eps, x))
    return np.log(x / (1 - x))


def _log_sum(xp: Any, x: Any, y: Any) -> Any:
    away = xp.where(x == y, 0, x - y)  # (the difference of equal infinities is none)
    return xp.maximum(x, y) + xp.log1p(xp.exp(-xp.abs(away)))


_logaddexp = _function_of(_declare(_log_sum, name="logaddexp"), np.logaddexp)


def logaddexp(x: Any, y: Any) -> Any:
    """ln(eˣ + eʸ)."""
    if x.dtype.kind != "c":
        return _logaddexp(x, y)
    larger = np.where(x.real >= y.real, x, y)
    smaller = np.where(x.real >= y.real, y, x)
    return np.where(np.isinf(larger) & (larger == smaller), larger, larger + np.log1p(np.exp(smaller - larger)))


logaddexp2 = np.logaddexp2


# x ln y, and 0 where x = 0 unless y is nan
xlogy = _function_of(
    _declare(
        lambda xp, x, y: xp.where((x == 0) & (y == y), 0, x * xp.log(y)),  # noqa: PLR0124
        name="xlogy",
        entry="x",
    ),
    lambda x, y: np.where((x == 0) & ~np.isnan(y), typed(0, x), x * np.log(y)),
)


frexp = np.frexp


@fused
def ldexp(x: Any, n: Any) -> Any:
    """x 2ⁿ for integers n."""
    return np.ldexp(x, n)


def _in_three_steps(x: Any) -> Any:
    scaled = x * typed(np.pi, x)
    zero = scaled == 0
    return np.where(zero, typed(1, x), np.sin(scaled) / np.where(zero, typed(1, x), scaled))


def _sinc(xp: Any, x: Any) -> Any:
    return xp.where(x == 0, 1, xp.sin(x * np.pi) / (x * np.pi))


sinc = _function_of(_declare(_sinc, name="sinc", entry="x"), _in_three_steps)  # sin(πx) / (πx), and 1 at 0


# -- choices -----------------------------------------------------------------------------------------------------------


@_entry("mask x ~ -> x", "jit_small.where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; both may be numbers."""
    return np.where(condition, x, y) if condition.size < SMALL else select(condition, x, y)


_one_slope = _function_of(
    _declare(lambda xp, x, /, slope: xp.where(x > 0, x, x * slope), name="one_slope", entry="x"),
    lambda x, slope: np.where(x > 0, x, x * typed(slope, x)),
)


def prelu(x: Any, w: Any) -> Any:
    """x where x > 0, else w x."""
    if w.size == 1 and w.dtype is x.dtype and x.ndim >= w.ndim:
        return _one_slope(x, float(w.item()))
    return cpu.where(x > 0, x, w * x)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high), of which low or high may be None; nan stays nan."""
    if low is not None and high is not None and x.size > SMALL and x.dtype.kind != NEED_WIDENING:
        if type(low) is type(high) is np.ndarray and low.shape == high.shape == x.shape:
            return cpu.minimum(cpu.maximum(x, low), high)
        return np.clip(x, low, high)
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def logical_not(x: Any) -> Any:
    """Where x = 0."""
    return np.equal(x, 0) if x.dtype.kind == "f" else np.logical_not(x)  # (of floats in a third of the time)


def logical_and(x: Any, y: Any) -> Any:
    """Where neither x nor y is 0."""
    if x.dtype.kind == y.dtype.kind == "f" and x.size > SMALL:
        return np.not_equal(x, 0) & np.not_equal(y, 0)
    return np.logical_and(x, y)


# -- signs and rounding ------------------------------------------------------------------------------------------------


def _sign(x: Any) -> Any:
    s = np.sign(x)
    if x.dtype.kind in "iu":
        return s
    if x.size > SMALL:
        bad = np.isnan(s)
        if bad.any():
            s[bad] = 0
        return s
    zero = _zero(s.dtype)
    return np.fmax(s, zero) + np.fmin(s, zero)


def _side(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, 1, xp.where(x < 0, -1, 0))


sign = _function_of(_declare(_side, name="sign", entry="x"), _sign)  # -1, 0 or 1; 0 for nan


def sgn(x: Any) -> Any:
    """x / |x|, and 0 at 0."""
    return np.sign(x) if x.dtype.kind == "c" else sign(x)


def round(x: Any, decimals: int) -> Any:
    """The nearest multiple of 10^-decimals; halves to the even neighbour."""
    if decimals == 0:
        return np.rint(x)
    return _round_decimals(x, decimals)


@fused
def _round_decimals(x: Any, decimals: int) -> Any:
    scale = typed(10.0 ** (decimals if decimals > 0 else -decimals), x)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


frac = _function_of(
    _declare(lambda xp, x: x - xp.trunc(x), name="frac", entry="x"), lambda x: x - np.trunc(x)
)  # with the sign of x
copysign = _function_of(_declare(lambda xp, x, y: xp.copysign(x, y), name="copysign", entry="x"), np.copysign)


def _replaced(x: Any, nan: float, posinf: float, neginf: float) -> Any:
    out = np.array(x, order="K")
    if x.dtype.kind == "c":
        out.real, out.imag = [nan_to_num(part, nan, posinf, neginf) for part in (x.real, x.imag)]
        return out
    if not np.isfinite(out).all():
        for bad, value in ((np.isnan(x), nan), (x == np.inf, posinf), (x == -np.inf, neginf)):
            np.copyto(out, typed(value, out), where=bad)
    return out


def _finite(xp: Any, x: Any, /, nan: float, posinf: float, neginf: float) -> Any:
    return xp.where(x != x, nan, xp.where(x == np.inf, posinf, xp.where(x == -np.inf, neginf, x)))  # noqa: PLR0124


# x with nan and the infinities replaced
nan_to_num = _function_of(_declare(_finite, name="nan_to_num", entry="x"), _replaced)


# 0 below 0, 1 above, the second number at 0
heaviside = _function_of(
    _declare(lambda xp, x, y: xp.where(x > 0, True, xp.where(x == 0, y, False)), name="heaviside", entry="x"),
    lambda x, at_zero: np.where(x == 0, at_zero, (x > 0).astype(at_zero.dtype)),
)


# -- complex numbers ---------------------------------------------------------------------------------------------------


def real(x: Any) -> Any:
    """The real part, a view."""
    return x.real


def imag(x: Any) -> Any:
    """The imaginary part, a view."""
    return x.imag


def complex(re: Any, im: Any) -> Any:
    """re + i im."""
    re, im = np.broadcast_arrays(re, im)
    out = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
    out.real, out.imag = re, im
    return out


def polar(r: Any, angle: Any) -> Any:
    """r e^(i angle)."""
    return complex(r * np.cos(angle), r * np.sin(angle))


@fused
def angle(x: Any) -> Any:
    """The angle of a complex number; of a real one π where it is negative, else 0, nan for nan."""
    if x.dtype.kind == "c":
        return atan2(x.imag, x.real)
    return np.where(np.isnan(x), x, np.where(x < 0, typed(np.pi, x), typed(0, x)))


def view_as_real(x: Any) -> Any:
    """A view in which a last dimension of 2 holds real and imaginary parts."""
    return x[..., None].view(x.real.dtype)


def view_as_complex(x: Any) -> Any:
    """A view that reads the last dimension, of size 2 and adjacent in memory, as real and imaginary parts."""
    return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


def as_complex(x: Any) -> Any:
    """The same numbers, whatever the strides."""
    return complex(x[..., 0], x[..., 1])
