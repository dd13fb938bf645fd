"""Steps of optimisers as formulas of one element, from which a device prints a kernel for whole lists of parameters.

A formula takes the functions (`xp`), the set of options that are used (`has`), the element of each array by name (`a`: the parameter p, its
gradient g, and what is kept from step to step) and the numbers (`n`), and gives the new elements by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.cpu.steps import adam_numbers

FORMULAS: dict[str, Callable[[Any, frozenset, Any, Any], dict[str, Any]]] = {}


def _formula(function: Callable) -> Callable:
    FORMULAS[function.__name__] = function
    return function


def _decayed(has: frozenset, a: Any, n: Any) -> tuple:
    """The parameter, shrunk if its decay is decoupled, and the gradient, to which any other decay is added."""
    if "decay" not in has:
        return a.p, a.g
    return (a.p * (1 - n.lr * n.decay), a.g) if "decoupled" in has else (a.p, a.g + a.p * n.decay)


def _means(a: Any, n: Any, g: Any) -> tuple:
    """The running means of the gradient and of its square."""
    return a.m + (g - a.m) * (1 - n.beta1), a.v * n.beta2 + g * g * (1 - n.beta2)


@_formula
def adam(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - size m / (√v + eps), with the numbers of `adam_step`; "largest": of all v."""
    p, g = _decayed(has, a, n)
    m, v = _means(a, n, g)
    found = {"m": m, "v": v}
    if "largest" in has:
        v = found["top"] = xp.maximum(a.top, v)
    size, _, _, eps, _, _ = adam_numbers(n.step, n.lr, n.beta1, n.beta2, n.eps, 0.0, False)
    return {**found, "p": p - m / (xp.sqrt(v) + eps) * size}


@_formula
def nadam(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - (now g + ahead m) / (√(v / correction) + eps); "counted": of the count and the product of the momenta so far."""
    p, g = _decayed(has, a, n)
    m, v = _means(a, n, g)
    if "counted" in has:
        mu, mu_next = (n.beta1 * (1 - 0.5 * 0.96 ** (t * n.fading)) for t in (n.step, n.step + 1))
        now, ahead = n.lr * (1 - mu) / (1 - n.product), n.lr * mu_next / (1 - n.product * mu_next)
        correction = 1 - n.beta2**n.step
    else:
        now, ahead, correction = n.now, n.ahead, n.correction
    return {"m": m, "v": v, "p": p - (g * now + m * ahead) / (xp.sqrt(v / correction) + n.eps)}


@_formula
def radam(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - lr m̂ times the rectification over √v + eps, as soon as there is one."""
    p, g = _decayed(has, a, n)
    m, v = _means(a, n, g)
    correction = 1 - n.beta2**n.step
    rho_inf = 2 / (1 - n.beta2) - 1
    rho = rho_inf - 2 * n.step * n.beta2**n.step / correction
    rectified = abs((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
    move = m * (n.lr / (1 - n.beta1**n.step))
    quick = move * (correction**0.5 * rectified) / (xp.sqrt(v) + n.eps)
    return {"m": m, "v": v, "p": p - xp.where(rho > 5.0, quick, move)}


@_formula
def adamax(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - lr m̂ / u with u the largest size of a gradient, which fades by beta2."""
    p, g = _decayed(has, a, n)
    m, u = a.m + (g - a.m) * (1 - n.beta1), xp.maximum(a.u * n.beta2, abs(g) + n.eps)
    return {"m": m, "u": u, "p": p - m / u * (n.lr / (1 - n.beta1**n.step))}


@_formula
def adagrad(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - rate g / (√Σg² + eps)."""
    p, g = _decayed(has, a, n)
    total = a.v + g * g
    return {"v": total, "p": p - g / (xp.sqrt(total) + n.eps) * (n.lr / (1 + (n.step - 1) * n.fading))}


@_formula
def adadelta(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - lr d,  d = √(D + eps) / √(v + eps) g with D the running mean of d²."""
    p, g = _decayed(has, a, n)
    v = a.v * n.rho + g * g * (1 - n.rho)
    d = xp.sqrt(a.d + n.eps) / xp.sqrt(v + n.eps) * g
    return {"v": v, "d": a.d * n.rho + d * d * (1 - n.rho), "p": p - d * n.lr}


@_formula
def rmsprop(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - lr g / (√v + eps); "centered": v less the square of the mean; "momentum": of what is divided."""
    p, g = _decayed(has, a, n)
    found = {"v": a.v * n.alpha + g * g * (1 - n.alpha)}
    square = found["v"]
    if "centered" in has:
        mean = found["m"] = a.m + (g - a.m) * (1 - n.alpha)
        square = square - mean * mean
    move = g / (xp.sqrt(square) + n.eps)
    if "momentum" in has:
        move = found["b"] = a.b * n.momentum + move
    return {**found, "p": p - move * n.lr}


@_formula
def rprop(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← p - sign(g) size; the size grows while the sign stays; where it has turned it shrinks and p waits a step."""
    turned = a.g * a.before
    size = xp.where(turned > 0, a.size * n.larger, xp.where(turned < 0, a.size * n.smaller, a.size))
    size = xp.minimum(xp.maximum(size, n.least), n.most)
    g = xp.where(turned < 0, 0.0 * a.g, a.g)
    move = xp.where(g > 0, size, xp.where(g < 0, -size, 0.0 * size))
    return {"before": g, "size": size, "p": a.p - move}


@_formula
def asgd(xp: Any, has: frozenset, a: Any, n: Any) -> dict[str, Any]:
    """p ← (1 - lambd eta) p - eta g, and a running mean of p."""
    _, g = _decayed(has, a, n)
    p = a.p * (1 - n.lambd * n.eta) - g * n.eta
    return {"ax": xp.where(n.mu == 1, p, a.ax + (p - a.ax) * n.mu), "p": p}
