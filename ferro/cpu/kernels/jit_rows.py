"""Sums over the numbers of a row, which several kernels take."""

from __future__ import annotations

from ferro.cpu.kernels.jit import reduction
from ferro.cpu.kernels.jit_math import exp


@reduction
def total_of(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@reduction
def dot(x, y):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@reduction
def squares_from(x, mean):
    """The sum of (x - mean)²."""
    total = x.dtype.type(0)
    for j in range(x.size):
        d = x[j] - mean
        total += d * d
    return total


@reduction
def exp_in_place(x, top):
    """x = exp(x - top), and its sum."""
    total = x.dtype.type(0)
    for j in range(x.size):
        e = exp(x[j] - top)
        x[j] = e
        total += e
    return total
