"""Compiled kernels of exponentials, circles and activations, and of their derivatives: the functions of jit_math.py, element by element."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_math import (
    CIRCLES,
    bits32,
    cosine,
    erf_,
    exp,
    expm1,
    gelu_,
    gelu_slope,
    log1p,
    sigmoid_,
    silu_,
    silu_slope,
    sine,
    tanh,
)
from ferro.native.jit import kernel, whole_registers

_BLOCK = 4096  # numbers after which sines and cosines are looked at again, while they are in the cache

# --- exponentials, circles -------------------------------------------------------------------------------------------


@kernel
def erf(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = erf_(x[i])


@kernel
def erf_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        out[i] = g[i] * exp(-(x[i] * x[i])) * T(1.1283791670955126)  # 2 / √π


@kernel
def exponential(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def tanh_vjp(g, y, out):
    T = y.dtype.type
    for i in range(y.size):
        out[i] = g[i] * (T(1) - y[i] * y[i])


# Of float32. Sines and cosines of large numbers are computed one by one, in float64, over what stands there first.

_SIZE = np.int32(0x7FFFFFFF)  # the bits without the sign: integers in the order of the absolute values, nan at the end
_FAR = np.int32(CIRCLES.view(np.int32))


@kernel
def sin(x, out):
    whole_registers()
    for start in range(0, x.size, _BLOCK):
        a, y = x[start : start + _BLOCK], out[start : start + _BLOCK]
        largest = np.int32(0)
        for i in range(a.size):
            largest = max(largest, np.int32(bits32(a[i]) & _SIZE))
            y[i] = sine(a[i])
        if largest > _FAR:
            for i in range(a.size):
                if bits32(a[i]) & _SIZE > _FAR:
                    y[i] = math.sin(np.float64(a[i]))


@kernel
def cos(x, out):
    whole_registers()
    for start in range(0, x.size, _BLOCK):
        a, y = x[start : start + _BLOCK], out[start : start + _BLOCK]
        largest = np.int32(0)
        for i in range(a.size):
            largest = max(largest, np.int32(bits32(a[i]) & _SIZE))
            y[i] = cosine(a[i])
        if largest > _FAR:
            for i in range(a.size):
                if bits32(a[i]) & _SIZE > _FAR:
                    y[i] = math.cos(np.float64(a[i]))


@kernel
def sin_vjp(g, x, out):
    whole_registers()
    for start in range(0, x.size, _BLOCK):
        h, a, y = g[start : start + _BLOCK], x[start : start + _BLOCK], out[start : start + _BLOCK]
        largest = np.int32(0)
        for i in range(a.size):
            largest = max(largest, np.int32(bits32(a[i]) & _SIZE))
            y[i] = h[i] * cosine(a[i])
        if largest > _FAR:
            for i in range(a.size):
                if bits32(a[i]) & _SIZE > _FAR:
                    y[i] = h[i] * np.float32(math.cos(np.float64(a[i])))


@kernel
def cos_vjp(g, x, out):
    whole_registers()
    for start in range(0, x.size, _BLOCK):
        h, a, y = g[start : start + _BLOCK], x[start : start + _BLOCK], out[start : start + _BLOCK]
        largest = np.int32(0)
        for i in range(a.size):
            largest = max(largest, np.int32(bits32(a[i]) & _SIZE))
            y[i] = -h[i] * sine(a[i])
        if largest > _FAR:
            for i in range(a.size):
                if bits32(a[i]) & _SIZE > _FAR:
                    y[i] = -h[i] * np.float32(math.sin(np.float64(a[i])))


# --- activations -----------------------------------------------------------------------------------------------------


@kernel
def sigmoid(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = sigmoid_(x[i])


@kernel
def sigmoid_vjp(g, y, out):
    T = y.dtype.type
    for i in range(y.size):
        out[i] = g[i] * y[i] * (T(1) - y[i])


@kernel
def gelu(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = gelu_(x[i])


@kernel
def gelu_vjp(g, x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = g[i] * gelu_slope(x[i])


@kernel
def gelu_tanh(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        t = tanh((v + v * v * v * T(0.044715)) * T(0.7978845608028654))
        out[i] = v * T(0.5) * (T(1) + t)


@kernel
def gelu_tanh_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = max(x[i], T(-64))  # beyond, the slope is 0 or 1, also at infinity
        v = min(v, T(64))
        square = v * v
        t = tanh(v * (T(1) + square * T(0.044715)) * T(0.7978845608028654))
        slope = v * (T(1) - t * t) * (T(1) + square * T(0.134145)) * T(0.7978845608028654)
        out[i] = g[i] * T(0.5) * ((T(1) + t) + slope)


@kernel
def silu(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = silu_(x[i])


@kernel
def silu_vjp(g, x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = g[i] * silu_slope(x[i])


@kernel
def mish(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        e = exp(min(x[i], T(20)))  # beyond, tanh(softplus(x)) is 1
        n = e * (e + T(2))
        out[i] = x[i] * (n / (n + T(2)))


@kernel
def mish_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = max(x[i], T(-800))  # beyond, the slope is 0, and beyond 20 it is 1, also at infinity
        v = min(v, T(20))
        e = exp(v)
        n = e * (e + T(2))
        t = n / (n + T(2))
        slope = v * (e / (T(1) + e)) * (T(4) * (n + T(1)) / ((n + T(2)) * (n + T(2))))
        out[i] = g[i] * (t + slope)


@kernel
def softplus(x, beta, threshold, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        u = x[i] * T(beta)
        smooth = (max(u, T(0)) + log1p(exp(-abs(u)))) / T(beta)
        out[i] = x[i] if u > T(threshold) else smooth


@kernel
def softplus_vjp(g, x, beta, threshold, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        u = x[i] * T(beta)
        out[i] = g[i] if u > T(threshold) else g[i] * sigmoid_(u)


@kernel
def elu(x, alpha, scale, input_scale, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        left = expm1((min(v, T(0))) * T(input_scale)) * T(alpha * scale)
        out[i] = v * T(scale) if v > T(0) else left


@kernel
def elu_vjp(g, x, alpha, scale, input_scale, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        left = exp((min(v, T(0))) * T(input_scale)) * T(alpha * scale * input_scale)
        out[i] = g[i] * left if v <= T(0) else g[i] * T(scale)


@kernel
def logsigmoid(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        out[i] = (min(v, T(0))) - log1p(exp(-abs(v)))


@kernel
def logaddexp(x, y, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        a, b = x[i], y[i]
        d = T(0) if a == b else -abs(a - b)  # infinity - infinity must not arise
        out[i] = (max(b, a)) + log1p(exp(d))


@kernel
def bce_logits(x, y, out):
    """The cross-entropy of sigmoid(x) and the probability y."""
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        out[i] = (T(1) - y[i]) * v - ((min(v, T(0))) - log1p(exp(-abs(v))))


@kernel
def bce_logits_vjp(g, x, y, out):
    whole_registers()
    for i in range(x.size):
        out[i] = g[i] * (sigmoid_(x[i]) - y[i])
