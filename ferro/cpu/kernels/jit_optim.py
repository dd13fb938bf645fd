"""Compiled kernels of optimiser steps: one pass over a parameter, in place."""

from __future__ import annotations

import math

from ferro.cpu.kernels.jit import kernel


@kernel
def sgd_step(p, g, buffer, lr, momentum, kept, weight_decay, nesterov, sign, first):
    """`kept` is the part of the gradient that enters the buffer; a buffer without elements is none."""
    T = p.dtype.type
    for i in range(p.size):
        d = g[i] * T(sign) + p[i] * T(weight_decay)
        if buffer.size:
            b = d if first else buffer[i] * T(momentum) + d * T(kept)
            buffer[i] = b
            d = d + b * T(momentum) if nesterov else b
        p[i] -= d * T(lr)


@kernel
def adam_step(p, g, mean, square, largest, size, root, beta1, beta2, eps, weight_decay, shrink, sign):
    """`size` is lr / (1 - beta1^step), `root` √(1 - beta2^step), `shrink` what p is multiplied by beforehand."""
    T = p.dtype.type
    for i in range(p.size):
        x = p[i] * T(shrink)
        d = g[i] * T(sign) + x * T(weight_decay)
        m = mean[i] + (d - mean[i]) * T(1 - beta1)
        v = square[i] * T(beta2) + d * d * T(1 - beta2)
        mean[i] = m
        square[i] = v
        if largest.size:
            v = max(largest[i], v)
            largest[i] = v
        p[i] = x - m / (T(math.sqrt(v)) / T(root) + T(eps)) * T(size)
