"""Activations of NumPy arrays, and the derivatives among them that have a fused form."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import ml_dtypes
import numpy as np

from ferro import cpu

HALF = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))
_zeros: dict[Any, Any] = {}


def widened(function: Callable) -> Callable:
    """The function computed in float32 where its first argument has a 16-bit dtype, and rounded once at the end."""

    @wraps(function)
    def wide(x: Any, *rest: Any) -> Any:
        if x.dtype in HALF:
            given = [r.astype(np.float32) if getattr(r, "dtype", None) in HALF else r for r in rest]
            return function(x.astype(np.float32), *given).astype(x.dtype)
        return function(x, *rest)

    return wide


def _zero(dtype: Any) -> Any:
    """A 0-d zero: operations of two arrays are twice as fast on small ones as those with a Python number."""
    try:
        return _zeros[dtype]
    except KeyError:
        zero = _zeros[dtype] = np.zeros((), dtype)
        zero.flags.writeable = False
        return zero


def relu(x: Any) -> Any:
    """max(x, 0); nan stays nan."""
    return np.maximum(x, _zero(x.dtype))


def relu_vjp(g: Any, out: Any) -> Any:
    """g where out > 0 (or nan), else 0."""
    zero = _zero(out.dtype)
    return np.where(out <= zero, _zero(g.dtype), g)


def threshold(x: Any, threshold: float, value: float) -> Any:
    """x where x > threshold (or nan), else value."""
    return np.where(x <= threshold, np.asarray(value, x.dtype), x)


@widened
def leaky_relu(x: Any, slope: float) -> Any:
    """x where x > 0, else slope x."""
    return np.where(x > 0, x, x * slope)


@widened
def elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    """scale x where x > 0, else scale alpha (exp(input_scale x) - 1)."""
    negative = np.expm1(np.minimum(x, 0) * input_scale)
    return np.where(x <= 0, negative * (alpha * scale), x * scale)


def hardtanh(x: Any, low: float, high: float) -> Any:
    """x clamped to [low, high]."""
    return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


@widened
def hardswish(x: Any) -> Any:
    """x min(max(x + 3, 0), 6) / 6."""
    return x * np.minimum(np.maximum(x + 3, 0), 6) / 6


@widened
def hardsigmoid(x: Any) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return np.minimum(np.maximum(x + 3, 0), 6) / 6


@widened
def gelu(x: Any, approximate: str) -> Any:
    """x times the normal distribution function of x, or its approximation by tanh."""
    if approximate == "tanh":
        return x * 0.5 * (1 + np.tanh((x + x * x * x * 0.044715) * 0.7978845608028654))
    return x * 0.5 * (1 + cpu.erf(x * 0.7071067811865476))


@widened
def gelu_vjp(g: Any, x: Any, approximate: str) -> Any:
    """g times the slope of gelu at x."""
    square = x * x
    if approximate == "tanh":
        t = np.tanh(x * (1 + square * 0.044715) * 0.7978845608028654)
        return g * 0.5 * ((1 + t) + x * (1 - t * t) * (1 + square * (3 * 0.044715)) * 0.7978845608028654)
    return g * (0.5 * (1 + cpu.erf(x * 0.7071067811865476)) + x * np.exp(square * -0.5) * 0.3989422804014327)


@widened
def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    return x * cpu.sigmoid(x)


@widened
def silu_vjp(g: Any, x: Any) -> Any:
    """g times the (conjugate) slope of silu at x."""
    s = cpu.sigmoid(x)
    return g * (s + x * s * (1 - s)).conj()


@widened
def mish(x: Any) -> Any:
    """x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2)."""
    e = np.exp(np.minimum(x, 20))
    n = e * (e + 2)
    return x * (n / (n + 2))


@widened
def softplus(x: Any, beta: float, threshold: float) -> Any:
    """log(1 + exp(beta x)) / beta where beta x <= threshold, else x."""
    scaled = x * beta
    smooth = (np.log1p(np.exp(-np.abs(scaled))) + np.maximum(scaled, 0)) / beta
    return np.where(scaled > threshold, x, smooth)


@widened
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))


@widened
def softshrink(x: Any, lambd: float) -> Any:
    """x moved towards 0 by lambd."""
    return np.where(np.abs(x) <= lambd, 0 * x, x - np.sign(x) * lambd)


def hardshrink(x: Any, lambd: float) -> Any:
    """x where |x| > lambd (or nan), else 0."""
    return np.where(np.abs(x) <= lambd, _zero(x.dtype), x)


@widened
def logsigmoid(x: Any) -> Any:
    """log(1 / (1 + e^-x)), without overflow."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@widened
def prelu(x: Any, weight: Any) -> Any:
    """x where x > 0, else weight x; weight already broadcasts against x."""
    return np.where(x > 0, x, weight * x)
