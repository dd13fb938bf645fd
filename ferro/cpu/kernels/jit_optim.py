"""Compiled kernels of optimiser steps: one pass over a parameter, in place."""

from __future__ import annotations

import math

from ferro.cpu.kernels.jit_bits import muladd
from ferro.native.jit import kernel


@kernel
def sgd_step(p, buffer, g, lr, momentum, dampening, weight_decay, nesterov, first):
    """A buffer without elements is none.

    Without weight_decay p takes no part in d: 0 times an infinite p would be nan.
    """
    T = p.dtype.type
    for i in range(p.size):
        d = g[i] + p[i] * T(weight_decay) if weight_decay else g[i]
        if buffer.size:
            b = d if first else muladd(buffer[i], T(momentum), d * T(1.0 - dampening))
            buffer[i] = b
            d = d + b * T(momentum) if nesterov else b
        p[i] -= d * T(lr)


@kernel
def adam_update(p, mean, square, largest, g, size, beta1, beta2, eps, weight_decay, shrink):
    """`size` and `eps` hold the corrections for the start at 0, `shrink` is what p is multiplied by beforehand."""
    T = p.dtype.type
    if mean.size != p.size or square.size != p.size:
        return False
    for i in range(p.size):
        x = p[i] * T(shrink)
        d = g[i] + x * T(weight_decay) if weight_decay else g[i]
        m = mean[i] + (d - mean[i]) * T(1 - beta1)
        v = muladd(square[i], T(beta2), d * d * T(1 - beta2))
        mean[i] = m
        square[i] = v
        if largest.size:
            v = max(v, largest[i])  # in this order nan, once in v, is kept
            largest[i] = v
        p[i] = x - m / (T(math.sqrt(v)) + T(eps)) * T(size)
    return True
