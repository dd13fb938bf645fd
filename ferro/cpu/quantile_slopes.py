"""How quantiles of gamma and beta distributions move with a shape parameter, for gradients of their samples.

A sample x of a distribution function F(x; a) that keeps its rank satisfies F(x; a) = const, so dx/da = -(∂F/∂a) / (∂F/∂x)
(Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018).  ∂F/∂a has no closed form.  Divided by the
density at x it is an integral over one of the two tails, of the density's ratio times the derivative of its logarithm,

    gamma:  dx/da = ∫₀ˣ p(t)/p(x) (ψ(a) - ln t) dt = ∫ₓ^∞ p(t)/p(x) (ln t - ψ(a)) dt,
    beta:   dx/da = ∫₀ˣ p(t)/p(x) (c - ln t) dt = ∫ₓ¹ p(t)/p(x) (ln t - c) dt,  c = ψ(a) - ψ(a + b),

whose integrand is positive throughout in the tail on the side of x: nothing cancels.  With t = x e^∓v (beta: the same for
the odds t / (1 - t)) the logarithm of the ratio is -h(v) with a convex h, the integrand is smooth, and Gauss's and
Legendre's rule with 32 nodes on [0, V], h(V) ≥ 40, or on a few pieces of it, gives twelve digits and more; tests compare
with mpmath.  For gamma with small a the power series of Moore's Algorithm AS 187 (1982) takes the lower tail.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.native.extensions import special as _special

NODES = 32
REACH = 40.0  # e^-40 is below the rounding of the integral
SERIES = 20.0  # gamma: below this shape the lower tail is summed, with some 60 terms at most
FLAT = 37.0  # ln(1 + e^-37) is 0 in float64: beyond, the logistic function is its asymptote
BENDS = (-FLAT, -10.0, 0.0, 10.0, FLAT)


def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def _reach(h: Callable, scale: Any) -> Any:
    """V with h(V) ≥ REACH of a convex h that grows in the end, at most some 10 % too far; `scale` is below it."""
    v = scale
    for _ in range(1100):  # (the range of float64 is 2 ** ±1074)
        short = h(v) < REACH
        if not short.any():
            break
        v = np.where(short, 2 * v, v)
    low, high = v / 2, v
    for _ in range(4):
        middle = 0.5 * (low + high)
        short = h(middle) < REACH
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def _integral(integrand: Callable, start: Any, end: Any) -> Any:
    """The integrals from `start` to `end` (arrays) of a function of an array of places."""
    total, width = np.zeros_like(end), end - start
    for node, weight in zip(*_rule(), strict=True):
        total += weight * integrand(start + node * width)
    return total * width


def _log_minus_digamma(a: Any) -> Any:
    """ln a - ψ(a) for a ≥ SERIES, by the asymptotic expansion: without cancellation."""
    r = 1 / (a * a)
    return 0.5 / a + r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))


def _exp_remainder(u: Any) -> Any:
    """e^u - 1 - u, without cancellation for small u."""
    small = np.abs(u) < 0.5
    v = np.where(small, u, 0.0)
    series = np.zeros_like(v)
    for k in range(17, 1, -1):
        series = (series + 1) * v / k
    return np.where(small, series * v, np.expm1(u) - u)


def standard_gamma_grad(a: Any, x: Any) -> Any:
    """dx/da of samples x of Gamma(a, 1) that keep their rank; nan outside of a > 0, x ≥ 0."""
    dtype = x.dtype
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    shape = x.shape
    a, x = a.reshape(-1), x.reshape(-1)
    out = np.full(a.shape, np.nan)
    out[(a > 0) & (x == 0)] = 0.0
    digamma = _special("psi")
    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    few = valid & (a < SERIES)
    with np.errstate(all="ignore"):
        below = few & (np.log(x) <= digamma(a + 1))
        excess = np.where(a < SERIES, np.log(x) - digamma(a), np.log1p((x - a) / a) + _log_minus_digamma(a))
        lower = valid & ~few & (excess <= 0)
        for where, part in ((below, _gamma_series), (lower, _gamma_lower), (valid & ~below & ~lower, _gamma_upper)):
            if where.any():
                out[where] = part(a[where], x[where], excess[where])
    return out.reshape(shape).astype(dtype)


def _gamma_series(a: Any, x: Any, excess: Any) -> Any:
    """x/a Σ cₙ (ψ(a + 1) - ln x + hₙ) with cₙ = xⁿ / ((a + 1) ... (a + n)), hₙ = Σ 1 / (a + k) over 1 ≤ k ≤ n."""
    lead = 1 / a - excess  # ψ(a + 1) - ln x
    c, harmonic, total = np.ones_like(a), np.zeros_like(a), lead.copy()
    for n in range(1, 400):
        c = c * (x / (a + n))
        harmonic = harmonic + 1 / (a + n)
        term = c * (lead + harmonic)
        total += term
        if (term <= 1e-17 * total).all():
            break
    return x / a * total


def _gamma_lower(a: Any, x: Any, excess: Any) -> Any:
    """t = x e^-v: x ∫ exp(-h) (v - excess) dv with h = a v - x (1 - e^-v)."""

    def h(v: Any) -> Any:
        return (a - x) * v + x * _exp_remainder(-v)

    return x * _integral(lambda v: np.exp(-h(v)) * (v - excess), np.zeros_like(a), _reach(h, 1e-3 / a))


def _gamma_upper(a: Any, x: Any, excess: Any) -> Any:
    """t = x e^v: x ∫ exp(-h) (v + excess) dv with h = x (e^v - 1) - a v."""

    def h(v: Any) -> Any:
        return (x - a) * v + x * _exp_remainder(v)

    return x * _integral(lambda v: np.exp(-h(v)) * (v + excess), np.zeros_like(a), _reach(h, 1e-3 / (a + x)))


def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """(dx/dα) / (1 - x) of samples x of Beta(α, total - α) that keep their rank, at a fixed total - α.

    With it the gradient of a Dirichlet sample, whose elements are such numbers, is ``grad * (g - Σ x g)``.  Nan outside
    of 0 ≤ x ≤ 1, α > 0, total > α.
    """
    dtype = x.dtype
    x, a, total = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, alpha, total)))
    shape = x.shape
    x, a, b = x.reshape(-1), a.reshape(-1), (total - a).reshape(-1)
    out = np.full(a.shape, np.nan)
    valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    out[valid & (x == 0)] = 0.0
    valid &= x > 0
    digamma = _special("psi")
    with np.errstate(all="ignore"):
        k = digamma(a) - digamma(a + b) - np.log(x)  # c - ln x
        low, odd = k >= 0, x > 0.5
        for lower in (True, False):
            for more in (True, False):  # (those whose odds are beyond 1 cost more)
                where = valid & (low == lower) & (odd == more)
                if where.any():
                    out[where] = _beta_tail(x[where], a[where], b[where], k[where], lower)
    return out.reshape(shape).astype(dtype)


def _beta_tail(x: Any, a: Any, b: Any, k: Any, lower: bool) -> Any:
    """The integral over one tail: odds x / (1 - x) e^∓v, h = s v + (a + b) ln(p + q e^-v), of which s is the power there."""
    p, q, power, other = (1 - x, x, a, b) if lower else (x, 1 - x, b, a)
    total = a + b
    bend = np.log(q / p)  # where the odds are 1: what one side's formula cancels, the other's does not

    early = bool((bend > 0).any())

    def parts(v: Any) -> tuple[Any, Any]:
        """h(v), and ln t - ln x, but for its sign."""
        less = q * np.expm1(-v)
        fall = np.log1p(less)  # ln(p + q e^-v), as p + q = 1
        far = less < -0.5
        if far.any():
            fall = np.where(far, np.log(p + q * np.exp(-v)), fall)
        h, moved = power * v + total * fall, v + fall if lower else -fall
        if early:
            before = v < bend
            rise = np.log1p(p * np.expm1(np.where(before, v, 0)))  # the same, and v
            h = np.where(before, total * rise - other * v, h)
            moved = np.where(before, rise if lower else v - rise, moved)
        return h, moved

    def integrand(v: Any) -> Any:
        h, moved = parts(v)
        return np.exp(-h) * (abs(k) + moved)

    end = _reach(lambda v: parts(v)[0], 1e-3 / total)
    whole = np.zeros_like(x)
    short = end <= 8  # (the logistic function, whose poles are at ±π i, is smooth over such a piece)
    if short.any():
        whole = _integral(integrand, np.zeros_like(x), np.where(short, end, 0))
    if not short.all():
        bend = np.log(q / p)
        places = [np.clip(bend + at, 0, end) for at in BENDS]
        places = [np.zeros_like(x), *places, end]
        pieces = sum(_integral(integrand, s, e) for s, e in itertools.pairwise(places))
        whole = np.where(short, whole, pieces)
    return x * whole
