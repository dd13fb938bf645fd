"""Compiled loops of declared array functions (cpu/array_function.py) for small arrays, where they differ from those for large ones."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels import jit_norm
from ferro.cpu.kernels.jit_softmax import log_softmax_columns, logsumexp_of, softmax_columns
from ferro.native.jit import device, kernel, whole_registers

RUN = 256  # rows that may be added one after the other in the precision of the data


@kernel
def logsumexp(x, before, n, behind, out):
    whole_registers()
    if behind > 1 or n < 1:
        return False
    for r in range(before):
        out[r] = logsumexp_of(x[r * n : r * n + n])
    return True


@kernel
def softmax_across(x, before, n, behind, out):
    softmax_columns(x.reshape(before, n, behind), behind, 0, before, out.reshape(before, n, behind))


@kernel
def log_softmax_across(x, before, n, behind, out):
    log_softmax_columns(x.reshape(before, n, behind), behind, 0, before, out.reshape(before, n, behind))


@device
def _norm_vjp(g, x, weight, mean, rstd, centred, out, g_weight, g_bias):
    """All gradients in one go, added up in the precision of the data: less than half the time of the loops for large ones."""
    T = x.dtype.type
    n = x.shape[1]
    if x.shape[0] > RUN:
        return False
    g_weight[:] = 0
    g_bias[:] = 0
    for i in range(x.shape[0]):
        m, r = mean[i] if centred else T(0), rstd[i]
        plain, product = T(0), T(0)
        for j in range(n):
            h = (x[i, j] - m) * r
            g_weight[j] += g[i, j] * h
            if centred:
                g_bias[j] += g[i, j]
            v = g[i, j] * weight[j] if weight.size else g[i, j]
            plain += v
            product += v * h
        plain = plain / T(n) if centred else T(0)
        product /= T(n)
        for j in range(n):
            v = g[i, j] * weight[j] if weight.size else g[i, j]
            out[i, j] = r * (v - plain - (x[i, j] - m) * r * product)
    return True


@kernel
def layer_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    return _norm_vjp(g, x, weight, mean, rstd, True, out, g_weight, g_bias)


@kernel
def rms_norm_vjp(g, x, weight, rstd, out, g_weight):
    return _norm_vjp(g, x, weight, rstd, rstd, False, out, g_weight, g_weight[:0])


_group_norm_vjp = jit_norm.group_norm_vjp


@kernel
def group_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    """The gradients for weight and bias are summed over the images."""
    ones, twos = np.empty(x.shape[:2]), np.empty(x.shape[:2])
    _group_norm_vjp(g, x, weight, mean, rstd, out, ones, twos)
    each, channels = x.shape[1], g_weight.size
    g_weight[:] = 0
    g_bias[:] = 0
    for i in range(x.shape[0]):
        for k in range(each):
            channel = (i * each + k) % channels
            g_weight[channel] += ones[i, k]
            g_bias[channel] += twos[i, k]
