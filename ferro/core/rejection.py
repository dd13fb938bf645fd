"""Gamma, Poisson and binomial numbers drawn by rejection, with the order of draws that PyTorch has.

A `source` gives uniform and normal numbers in float64 one by one; parameters are one-dimensional arrays. PyTorch computes some
of their functions in the dtype of the parameters, the rest in float64: so do these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import ceil, floor, lgamma, log, sqrt
from typing import Any

import ml_dtypes
import numpy as np


def gamma(source: Any, alpha: Any) -> list:
    """Marsaglia and Tsang (2000), "A simple method for generating gamma variables"; shapes below 1 are raised by 1 and scaled."""
    d = alpha.dtype.type
    small = alpha < 1
    third = d(np.float32(1) / np.float32(3))
    reduced = (np.where(small, alpha + d(1), alpha) - third).tolist()
    with np.errstate(divide="ignore"):
        inverse = (d(1) / alpha).tolist()
    found, squeeze, tiny = [], float(np.float32(0.0331)), float(ml_dtypes.finfo(alpha.dtype).tiny)
    for a, low, b, power in zip(alpha.tolist(), small.tolist(), reduced, inverse, strict=True):
        if a == 0 or not b > 0:
            found.append(tiny if a == 0 else math.nan)
            continue
        scale = (1 - source.uniform()) ** power if low else 1.0
        c = 1 / sqrt(9 * b)
        while True:
            x = source.normal()
            y = 1 + c * x
            if y <= 0:
                continue
            v = y * y * y
            u = 1 - source.uniform()
            xx = x * x
            if u < 1 - squeeze * xx * xx or log(u) < 0.5 * xx + b * (1 - v + log(v)):
                found.append(max(tiny, scale * b * v))
                break
    return found


def poisson(source: Any, rate: Any) -> list:
    """Products of uniform numbers for rates below 10, else transformed rejection (Hörmann 1993, "The transformed rejection method
    for generating Poisson random variables").
    """
    return [_poisson(source.uniform, r) for r in rate.tolist()]


def _poisson(uniform: Callable[[], float], rate: float) -> int:
    if rate == 0:
        return 0
    if not rate >= 10:
        least, product, k = math.exp(-rate), 1.0, 0
        while True:
            product *= uniform()
            if not product > least:
                return k
            k += 1
    log_rate = log(rate)
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_inverse = log(1.1239 + 1.1328 / (b - 3.4))
    inside = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        edge = 0.5 - abs(u)
        k = floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= inside:
            return k
        if k < 0 or (edge < 0.013 and v > edge):
            continue
        if _log(v) + log_inverse - log(a / (edge * edge) + b) <= -rate + k * log_rate - lgamma(k + 1.0):
            return k


def binomial(source: Any, count: Any, p: Any) -> list:
    """Sums of geometric numbers where the mean is below 10, else transformed rejection (Hörmann 1993, "The generation of binomial
    random variates").
    """
    d = p.dtype.type
    rare = np.where(p > 0.5, d(1) - p, p)
    mean = count * rare
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(mean * (d(1) - rare))
        odds = rare / (d(1) - rare)
        log_misses = np.log1p(-rare)
        mode = np.floor((count + d(1)) * rare)
    found = []
    columns = [a.tolist() for a in (count, p, rare, mean, deviation, odds, log_misses, mode)]
    for n, chance, q, m, std, ratio, log_miss, top in zip(*columns, strict=True):
        if n <= 0 or chance <= 0:
            found.append(0.0)
        elif chance >= 1:
            found.append(n)
        elif math.isnan(chance):
            found.append(math.nan)
        else:
            k = _transformed(source, n, q, m, std, ratio, top) if m >= 10 else _waiting(source, n, log_miss)
            found.append(n - k if chance > 0.5 else k)
    return found


def _waiting(source: Any, n: float, log_miss: float) -> int:
    """Counts successes by the waiting times between them."""
    k, total = 0, 0
    while True:
        u = source.uniform()
        if u == 0:
            return k
        total += ceil(log(u) / log_miss)
        if total > n:
            return k
        k += 1


def _transformed(source: Any, n: float, p: float, mean: float, std: float, odds: float, mode: float) -> int:
    b = 1.15 + 2.53 * std
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = mean + 0.5
    inside = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * std
    while True:
        u, v = source.uniform() - 0.5, source.uniform()
        edge = 0.5 - abs(u)
        k = floor((2 * a / edge + b) * u + centre) if edge else -1
        if k < 0 or k > n:
            continue
        if edge >= 0.07 and v <= inside:
            return k
        bound = ((mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1))) + (n + 1) * log((n - mode + 1) / (n - k + 1))
                 + (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) + _tail(mode) + _tail(n - mode) - _tail(k) - _tail(n - k))  # fmt: skip
        if _log(v * alpha / (a / (edge * edge) + b)) <= bound:
            return k


def _tail(k: float) -> float:
    """ln k! less Stirling's formula for it, (k + 1/2) ln(k + 1) - (k + 1) + ln sqrt(2 pi)."""
    if k < 10:
        return lgamma(k + 1.0) - ((k + 0.5) * log(k + 1) - (k + 1) + 0.5 * log(2 * math.pi))
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def _log(x: float) -> float:
    return log(x) if x else -math.inf
