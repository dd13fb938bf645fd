"""Activations of NumPy arrays; those of large arrays that are worth it are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.blocks import fused, with_kernel
from ferro.cpu.kernels import activations as _kernels
from ferro.cpu.kernels.activations import gelu, gelu_vjp, softplus, softplus_vjp
from ferro.cpu.kernels.common import SMALL, has_kernel
from ferro.cpu.kernels.elementwise import over
from ferro.cpu.kernels.entries import entry
from ferro.cpu.pointwise import where

__all__ = ["elu", "gelu", "gelu_vjp", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
           "mish", "mish_vjp", "prelu", "relu", "relu_vjp", "silu", "silu_vjp", "softplus", "softplus_vjp",
           "softshrink", "threshold"]  # fmt: skip

silu, silu_vjp, mish, mish_vjp = map(entry, (_kernels.silu, _kernels.silu_vjp, _kernels.mish, _kernels.mish_vjp))
_zeros: dict[Any, Any] = {}


def _zero(dtype: Any) -> Any:
    """A 0-d zero: operations of two arrays are twice as fast on small ones as those with a Python number."""
    try:
        return _zeros[dtype]
    except KeyError:
        zero = _zeros[dtype] = np.zeros((), dtype)
        zero.flags.writeable = False
        return zero


@entry
def relu(x: Any) -> Any:
    """max(x, 0); nan stays nan."""
    return over("relu", x) if x.size >= SMALL and has_kernel(x, "relu") else np.maximum(x, _zero(x.dtype))


@entry
@with_kernel("relu_vjp")
def relu_vjp(g: Any, out: Any) -> Any:
    """g where out > 0 (or nan), else 0."""
    return where(out <= _zero(out.dtype), _zero(g.dtype), g)


@fused
def threshold(x: Any, threshold: float, value: float) -> Any:
    """x where x > threshold (or nan), else value."""
    return where(x <= threshold, np.asarray(value, x.dtype), x)


@with_kernel("leaky_relu")
def leaky_relu(x: Any, slope: float) -> Any:
    """x where x > 0, else slope x."""
    if 0 <= slope <= 1:
        return np.maximum(x, x * slope)
    return where(x > 0, x, x * slope)


@with_kernel("elu")
def elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    """scale x where x > 0, else scale alpha (exp(input_scale x) - 1)."""
    out = np.expm1(np.minimum(x, 0) * input_scale) * (alpha * scale)  # 0 where x > 0
    out += np.maximum(x, 0) * scale
    return out


@with_kernel("hardtanh")
def hardtanh(x: Any, low: float, high: float) -> Any:
    """x clamped to [low, high]."""
    return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


@with_kernel("hardswish")
def hardswish(x: Any) -> Any:
    """x min(max(x + 3, 0), 6) / 6."""
    return _gate(x) * x


def _gate(x: Any) -> Any:
    t = np.asarray(x + 3)
    np.maximum(t, _zero(t.dtype), out=t)
    np.minimum(t, 6, out=t)
    t /= 6
    return t


@with_kernel("hardsigmoid")
def hardsigmoid(x: Any) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return _gate(x)


@with_kernel("softshrink")
def softshrink(x: Any, lambd: float) -> Any:
    """x moved towards 0 by lambd."""
    return x - np.minimum(np.maximum(x, -lambd), lambd)


@with_kernel("hardshrink")
def hardshrink(x: Any, lambd: float) -> Any:
    """x where |x| > lambd (or nan), else 0."""
    return where(np.abs(x) <= lambd, _zero(x.dtype), x)


@with_kernel("logsigmoid")
def logsigmoid(x: Any) -> Any:
    """log(1 / (1 + e^-x)), without overflow."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@fused
def prelu(x: Any, weight: Any) -> Any:
    """x where x > 0, else weight x; weight already broadcasts against x."""
    return where(x > 0, x, weight * x)
