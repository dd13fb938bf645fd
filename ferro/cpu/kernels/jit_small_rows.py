"""Compiled loops of declared array functions (cpu/array_function.py) for small arrays, where they differ from those for large ones."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_exponentials import sum_of_exp
from ferro.cpu.kernels.jit_norm import add_norm_weights, norm_slope
from ferro.cpu.kernels.jit_rows import largest
from ferro.native.jit import device, kernel, whole_registers

RUN = 256  # rows that may be added one after the other in the precision of the data


@kernel
def logsumexp(x, before, n, behind, out):
    whole_registers()
    if behind > 1 or n < 1:
        return False
    for r in range(before):
        row = x[r * n : r * n + n]
        top = largest(row)
        if abs(top) == np.inf:  # infinity - infinity must not arise
            top = x.dtype.type(0)
        out[r] = top + x.dtype.type(math.log(sum_of_exp(row, top)))
    return True


@device
def _norm_vjp(g, x, weight, mean, rstd, centred, out, g_weight, g_bias):
    """The gradients for weight and bias are added up in the precision of the data: the rows are few."""
    if x.shape[0] > RUN:
        return False
    g_weight[:] = 0
    g_bias[:] = 0
    for i in range(x.shape[0]):
        m = mean[i] if centred else x.dtype.type(0)
        norm_slope(g[i], x[i], weight, m, rstd[i], centred, out[i])
        add_norm_weights(g[i], x[i], m, rstd[i], g_weight, g_bias)
    return True


@kernel
def layer_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    return _norm_vjp(g, x, weight, mean, rstd, True, out, g_weight, g_bias)


@kernel
def rms_norm_vjp(g, x, weight, rstd, out, g_weight):
    return _norm_vjp(g, x, weight, rstd, rstd, False, out, g_weight, g_weight[:0])
