"""Compiled kernels that only fronts call (jit_front.py): arithmetic and reductions of small arrays.

Reductions get the numbers before, in and behind the reduced dimensions. Those behind are few: what is added one after
the other must not be many, or digits are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ferro.cpu.kernels.jit import device, kernel
from ferro.cpu.kernels.jit_rows import dot, squares_from, total_of

RUN = 256  # so many numbers may be added one after the other,
LONG = 8192  # and so many that lie side by side, of which dozens of sums are taken at once

# --- arithmetic ------------------------------------------------------------------------------------------------------


def _of_two(function: Callable[[Any, Any], Any]) -> Any:
    """The kernel of a function of two numbers; y is repeated until it is as long as x."""
    f = device(function)

    def run(x, y, out):
        if y.size == x.size:
            for i in range(x.size):
                out[i] = f(x[i], y[i])
        elif y.size == 1:
            v = y[0]
            for i in range(x.size):
                out[i] = f(x[i], v)
        else:
            for start in range(0, x.size, y.size):
                for j in range(y.size):
                    out[start + j] = f(x[start + j], y[j])

    run.__name__ = function.__name__
    return kernel(run)


add = _of_two(lambda a, b: a + b)
sub = _of_two(lambda a, b: a - b)
mul = _of_two(lambda a, b: a * b)
truediv = _of_two(lambda a, b: a / b)
maximum = _of_two(lambda a, b: a if (a >= b) | (a != a) else b)  # noqa: PLR0124 (nan)
minimum = _of_two(lambda a, b: a if (a <= b) | (a != a) else b)  # noqa: PLR0124


@kernel
def neg(x, out):
    for i in range(x.size):
        out[i] = -x[i]


@kernel
def sqrt(x, out):
    for i in range(x.size):
        out[i] = math.sqrt(x[i])


# --- reductions ------------------------------------------------------------------------------------------------------


@device
def _sums(x, before, n, behind, out):
    """The sums over the middle one of three dimensions; False if they would be inaccurate."""
    if n > (LONG if behind == 1 else RUN):
        return False
    if behind == 1:
        for r in range(before):
            out[r] = total_of(x[r * n : r * n + n])
        return True
    for r in range(before):
        sums = out[r * behind : r * behind + behind]
        sums[:] = 0
        for j in range(n):
            start = (r * n + j) * behind
            for i in range(behind):
                sums[i] += x[start + i]
    return True


@kernel
def sum(x, before, n, behind, out):
    return _sums(x, before, n, behind, out)


@kernel
def mean(x, before, n, behind, out):
    fine = _sums(x, before, n, behind, out)
    for i in range(out.size):
        out[i] /= x.dtype.type(n)
    return fine


@kernel
def var(x, correction, before, n, behind, out):
    T = x.dtype.type
    if n <= correction or n > (LONG if behind == 1 else RUN):
        return False
    for r in range(before):
        for i in range(behind):
            start = r * n * behind + i
            if behind == 1:
                row = x[start : start + n]
                total = squares_from(row, total_of(row) / T(n))
            else:
                total = T(0)
                for j in range(n):
                    total += x[start + j * behind]
                m = total / T(n)
                total = T(0)
                for j in range(n):
                    d = x[start + j * behind] - m
                    total += d * d
            out[r * behind + i] = total / T(n - correction)
    return True


@kernel
def vector_norm(x, order, before, n, behind, out):
    if order != 2 or behind > 1 or n > LONG:
        return False
    for r in range(before):
        row = x[r * n : r * n + n]
        out[r] = math.sqrt(dot(row, row))
    return True


def _extreme(function: Callable[[Any, Any], Any], name: str) -> tuple[Any, Any]:
    """The kernels of the first largest or smallest numbers, without and with their places. `function`: is a better?"""
    better = device(function)

    def values(x, before, n, behind, out):
        for r in range(before):
            for i in range(behind):
                best = x[r * n * behind + i]
                for j in range(1, n):
                    v = x[(r * n + j) * behind + i]
                    if better(v, best):
                        best = v
                out[r * behind + i] = best

    def places(x, before, n, behind, out, index):
        for r in range(before):
            for i in range(behind):
                best, place = x[r * n * behind + i], 0
                for j in range(1, n):
                    v = x[(r * n + j) * behind + i]
                    if better(v, best):
                        best, place = v, j
                out[r * behind + i] = best
                index[r * behind + i] = place

    values.__name__, places.__name__ = f"a{name}", f"{name}_dim"
    return kernel(values), kernel(places)


# The first nan is better than any number.
amax, max_dim = _extreme(lambda a, b: (a > b) | ((a != a) & (b == b)), "max")  # noqa: PLR0124
amin, min_dim = _extreme(lambda a, b: (a < b) | ((a != a) & (b == b)), "min")  # noqa: PLR0124


# --- layers ----------------------------------------------------------------------------------------------------------


@kernel
def layer_norm_vjp(g, x, weight, mean, rstd, out, g_weight, g_bias):
    """All three gradients, added up in the precision of the data: the rows are few."""
    T = x.dtype.type
    n = x.shape[1]
    if x.shape[0] > RUN:
        return False
    g_weight[:] = 0
    g_bias[:] = 0
    for i in range(x.shape[0]):
        m, r = mean[i], rstd[i]
        plain, product = T(0), T(0)
        for j in range(n):
            h = (x[i, j] - m) * r
            g_weight[j] += g[i, j] * h
            g_bias[j] += g[i, j]
            v = g[i, j] * weight[j] if weight.size else g[i, j]
            plain += v
            product += v * h
        plain /= T(n)
        product /= T(n)
        for j in range(n):
            v = g[i, j] * weight[j] if weight.size else g[i, j]
            out[i, j] = r * (v - plain - (x[i, j] - m) * r * product)
    return True
