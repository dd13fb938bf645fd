"""Gamma, Poisson and binomial numbers drawn by rejection, with the order of draws that PyTorch has.

A function draws one number, in float64. It runs as it stands, where `source` gives numbers one by one (core/twister.py), and
jit_random.py compiles it, where `source` is the memory of the engine: `uniform`, `normal`, `floor` and `ceil` are the names that
mean something else there. PyTorch computes some functions of the parameters in their dtype: they are the `columns` here.
"""

from __future__ import annotations

import math
from math import ceil, exp, floor, lgamma, log, sqrt
from typing import Any

import ml_dtypes
import numpy as np

uniform: Any = next  # the next number of [0, 1) from a source


def normal(source: Any) -> float:
    """The next normal number from a source."""
    return source.normal()


# -- Gamma: Marsaglia and Tsang (2000), "A simple method for generating gamma variables"

SQUEEZE = float(np.float32(0.0331))


def gamma_columns(alpha: Any) -> list:
    """What `gamma` takes for shape parameters in an array: those below 1 are raised by 1, and the number is scaled."""
    d = alpha.dtype.type
    third = d(np.float32(1) / np.float32(3))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return [
            alpha,
            np.where(alpha < 1, alpha + d(1), alpha) - third,
            d(1) / alpha,
            ml_dtypes.finfo(alpha.dtype).tiny,
        ]


def gamma(source: Any, alpha: float, b: float, power: float, tiny: float) -> float:
    """A gamma number, not below `tiny`; nan for a parameter below 0."""
    if alpha == 0:
        return tiny
    if not alpha > 0:
        return math.nan
    scale = (1 - uniform(source)) ** power if alpha < 1 else 1.0
    c = 1 / sqrt(9 * b)
    while True:
        x = normal(source)
        y = 1 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - uniform(source)
        xx = x * x
        if u < 1 - SQUEEZE * xx * xx or log(u) < 0.5 * xx + b * (1 - v + log(v)):
            return max(tiny, scale * b * v)


# -- Poisson: products of uniform numbers for rates below 10, else transformed rejection (Hörmann 1993, "The transformed
# rejection method for generating Poisson random variables")


def poisson_columns(rate: Any) -> list:
    """What `poisson` takes for the rates of an array."""
    return [rate]


def poisson(source: Any, rate: float) -> float:
    """A Poisson number."""
    if rate < 10:
        return products(source, rate)
    log_rate = log(rate)
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_inverse = log(1.1239 + 1.1328 / (b - 3.4))
    inside = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform(source) - 0.5
        v = uniform(source)
        edge = 0.5 - abs(u)
        if edge == 0:
            continue
        k = floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= inside:
            return k
        if k < 0 or (edge < 0.013 and v > edge):
            continue
        if v == 0 or log(v) + log_inverse - log(a / (edge * edge) + b) <= -rate + k * log_rate - lgamma(k + 1.0):
            return k


def products(source: Any, rate: float) -> float:
    """Counts uniform numbers until their product falls below a bound."""
    if rate == 0:
        return 0.0
    least, product, k = exp(-rate), 1.0, 0.0
    while True:
        product *= uniform(source)
        if not product > least:
            return k
        k += 1


# -- Binomial: sums of geometric numbers where the mean is below 10, else transformed rejection (Hörmann 1993, "The generation
# of binomial random variates")


def binomial_columns(count: Any, p: Any) -> list:
    """What `binomial` takes for numbers of trials and probabilities: arrays of one dtype."""
    d = p.dtype.type
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rare = np.where(p > 0.5, d(1) - p, p)
        mean = count * rare
        often = d(1) - rare
        return [
            count,
            p,
            rare,
            mean,
            np.sqrt(mean * often),
            rare / often,
            np.log1p(-rare),
            np.floor((count + d(1)) * rare),
        ]


def binomial(
    source: Any, n: float, p: float, rare: float, mean: float, std: float, odds: float, log_miss: float, mode: float
) -> float:
    """The number of successes in n trials."""
    if n <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return n
    if mean < 10:
        k = waiting(source, n, log_miss)
    else:
        k = transformed(source, n, rare, mean, std, odds, mode)
    return n - k if p > 0.5 else k


def waiting(source: Any, n: float, log_miss: float) -> float:
    """Counts successes by the waiting times between them."""
    k, total = 0.0, 0.0
    while True:
        u = uniform(source)
        if u == 0:
            return k
        total += ceil(log(u) / log_miss)
        if total > n:
            return k
        k += 1


def transformed(source: Any, n: float, p: float, mean: float, std: float, odds: float, mode: float) -> float:
    b = 1.15 + 2.53 * std
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = mean + 0.5
    inside = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * std
    while True:
        u = uniform(source) - 0.5
        v = uniform(source)
        edge = 0.5 - abs(u)
        if edge == 0:
            continue
        k = floor((2 * a / edge + b) * u + centre)
        if k < 0 or k > n:
            continue
        if edge >= 0.07 and v <= inside:
            return k
        bound = (
            (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * log(odds * (n - k + 1) / (k + 1))
            + tail(mode)
            + tail(n - mode)
            - tail(k)
            - tail(n - k)
        )
        if v == 0 or log(v * alpha / (a / (edge * edge) + b)) <= bound:
            return k


_TAILS = tuple([lgamma(k + 1.0) - ((k + 0.5) * log(k + 1) - (k + 1) + 0.5 * log(2 * math.pi)) for k in range(10)])


def tail(k: float) -> float:
    """ln k! less Stirling's formula for it, (k + 1/2) ln(k + 1) - (k + 1) + ln sqrt(2 pi)."""
    if k <= 9:
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
