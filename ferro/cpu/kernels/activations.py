"""erf, sigmoid, gelu, silu, mish and softplus of NumPy arrays, and their derivatives."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.common import has_kernel, in_float32, is_half
from ferro.cpu.kernels.elementwise import over
from ferro.native.extensions import special

_ROOT_HALF = 0.7071067811865476  # 1 / √2
_ROOT_TWO_OVER_PI = 0.7978845608028654  # √(2 / π)
_NORMAL = 0.3989422804014327  # 1 / √(2 π)
_FAR, _GONE = (
    40,
    800,
)  # numbers beyond which a normal density and an exponential are 0: slopes there are those at infinity
_CUBE = 0.044715  # the coefficient of gelu's approximation by tanh


def erf(x: np.ndarray) -> np.ndarray:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt."""
    if has_kernel(x, "erf"):
        return over("erf", x)
    if is_half(x):
        return in_float32(erf, x)
    return special("erf")(x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    if has_kernel(x, "sigmoid"):
        return over("sigmoid", x)
    if is_half(x):
        return in_float32(sigmoid, x)
    if x.dtype.kind == "f":
        e = np.exp(-np.abs(x))  # e⁻ˣ would overflow where the result is small, but not 0
        return np.where(x >= 0, 1, e) / (1 + e)
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def sigmoid_vjp(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    """g times the conjugate slope of sigmoid, from its result."""
    if has_kernel(out, "sigmoid_vjp"):
        return over("sigmoid_vjp", g, out)
    if is_half(out):
        return in_float32(sigmoid_vjp, g, out)
    return g * (out * (1 - out)).conj()


def _tail(x: np.ndarray) -> np.ndarray:
    """1 + erf(x / √2); of float32 by erfc, which keeps its digits where it is small, as the kernel does."""
    return special("erfc")(x * -_ROOT_HALF) if x.dtype.itemsize == 4 else 1 + erf(x * _ROOT_HALF)


def gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    """x Φ(x) with the normal distribution function Φ, or its approximation if `approximate` is "tanh"."""
    if has_kernel(x, "gelu_tanh" if approximate == "tanh" else "gelu"):
        return over("gelu_tanh" if approximate == "tanh" else "gelu", x)
    if is_half(x):
        return in_float32(gelu, x, approximate)
    with np.errstate(over="ignore", invalid="ignore"):
        if approximate == "tanh":
            return x * 0.5 * (1 + np.tanh((x + x * x * x * _CUBE) * _ROOT_TWO_OVER_PI))
        return x * 0.5 * _tail(x)


def gelu_vjp(g: np.ndarray, x: np.ndarray, approximate: str) -> np.ndarray:
    """g times the slope of gelu at x: Φ(x) + x φ(x)."""
    if has_kernel(x, "gelu_tanh_vjp" if approximate == "tanh" else "gelu_vjp"):
        return over("gelu_tanh_vjp" if approximate == "tanh" else "gelu_vjp", g, x)
    if is_half(x):
        return in_float32(gelu_vjp, g, x, approximate)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x = np.minimum(np.maximum(x, -_FAR), _FAR)
        square = x * x
        if approximate == "tanh":
            t = np.tanh(x * (1 + square * _CUBE) * _ROOT_TWO_OVER_PI)
            return g * 0.5 * ((1 + t) + x * (1 - t * t) * (1 + square * (3 * _CUBE)) * _ROOT_TWO_OVER_PI)
        return g * (0.5 * _tail(x) + x * np.exp(square * -0.5) * _NORMAL)


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)."""
    if has_kernel(x, "silu"):
        return over("silu", x)
    if is_half(x):
        return in_float32(silu, x)
    with np.errstate(invalid="ignore"):
        return x * sigmoid(x)


def silu_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the conjugate slope of silu at x: s (1 + x (1 - s)) with s = sigmoid(x)."""
    if has_kernel(x, "silu_vjp"):
        return over("silu_vjp", g, x)
    if is_half(x):
        return in_float32(silu_vjp, g, x)
    s = sigmoid(x)
    if x.dtype.kind == "f":
        x = np.minimum(np.maximum(x, -_GONE), _GONE)
    with np.errstate(invalid="ignore"):
        return g * (s * (1 + x * (1 - s))).conj()


def mish(x: np.ndarray) -> np.ndarray:
    """x tanh(log(1 + eˣ)) = x n / (n + 2) with n = eˣ (eˣ + 2)."""
    if has_kernel(x, "mish"):
        return over("mish", x)
    if is_half(x):
        return in_float32(mish, x)
    e = np.exp(np.minimum(x, 20))  # beyond, tanh is 1
    n = e * (e + 2)
    with np.errstate(invalid="ignore"):
        return x * (n / (n + 2))


def mish_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the slope of mish at x: t + x (1 - t²) sigmoid(x), where 1 - t² = 4 (n + 1) / (n + 2)².

    Beyond 20 it is 1 to rounding, but the two factors of its last term, one large and one small, must be taken at 20.
    """
    if has_kernel(x, "mish_vjp"):
        return over("mish_vjp", g, x)
    if is_half(x):
        return in_float32(mish_vjp, g, x)
    x = np.minimum(np.maximum(x, -_GONE), 20)
    e = np.exp(x)
    n = e * (e + 2)
    with np.errstate(invalid="ignore"):
        return g * (n / (n + 2) + x * (e / (1 + e)) * (4 * (n + 1) / ((n + 2) * (n + 2))))


def softplus(x: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    """log(1 + exp(beta x)) / beta where beta x <= threshold, else x."""
    if has_kernel(x, "softplus"):
        return over("softplus", x, parameters=(float(beta), float(threshold)))
    if is_half(x):
        return in_float32(softplus, x, beta, threshold)
    scaled = x * beta
    smooth = (np.log1p(np.exp(-np.abs(scaled))) + np.maximum(scaled, 0)) / beta
    return np.where(scaled > threshold, x, smooth)


def softplus_vjp(g: np.ndarray, x: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    """g times the slope of softplus at x: sigmoid(beta x) where beta x <= threshold, else 1."""
    if has_kernel(x, "softplus_vjp"):
        return over("softplus_vjp", g, x, parameters=(float(beta), float(threshold)))
    if is_half(x):
        return in_float32(softplus_vjp, g, x, beta, threshold)
    scaled = x * beta
    return np.where(scaled > threshold, g, g * sigmoid(scaled))
