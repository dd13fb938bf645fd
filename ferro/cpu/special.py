"""Special functions of NumPy arrays, computed by SciPy, which is loaded at the first call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cpu.pointwise import HALF, float32, typed, widened


def _from_scipy(name: str, doc: str) -> Callable:
    """The function of scipy.special called `name`, with results of the dtype of the first argument."""
    found: list = []

    def function(x: Any, *rest: Any) -> Any:
        if not found:
            import scipy.special

            found.append(getattr(scipy.special, name))
        if x.dtype in HALF:
            return found[0](x.astype(float32), *[r.astype(float32) for r in rest]).astype(x.dtype)
        return found[0](x, *rest)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


erf = _from_scipy("erf", "The error function.")
erfc = _from_scipy("erfc", "1 - erf x.")
erfcx = _from_scipy("erfcx", "exp(x²) erfc x.")
erfinv = _from_scipy("erfinv", "The inverse of erf.")
lgamma = _from_scipy("gammaln", "ln |Γ(x)|.")
digamma = _from_scipy("psi", "The logarithmic derivative of Γ.")
gammainc = _from_scipy("gammainc", "The lower incomplete gamma function, regularised.")
gammaincc = _from_scipy("gammaincc", "The upper incomplete gamma function, regularised.")
i0 = _from_scipy("i0", "The modified Bessel function I₀.")
i0e = _from_scipy("i0e", "e^-|x| I₀(x).")
i1 = _from_scipy("i1", "The modified Bessel function I₁.")
i1e = _from_scipy("i1e", "e^-|x| I₁(x).")
k0 = _from_scipy("k0", "The modified Bessel function K₀.")
k0e = _from_scipy("k0e", "eˣ K₀(x).")
k1 = _from_scipy("k1", "The modified Bessel function K₁.")
k1e = _from_scipy("k1e", "eˣ K₁(x).")
j0 = _from_scipy("j0", "The Bessel function J₀.")
j1 = _from_scipy("j1", "The Bessel function J₁.")
y0 = _from_scipy("y0", "The Bessel function Y₀.")
y1 = _from_scipy("y1", "The Bessel function Y₁.")
ndtr = _from_scipy("ndtr", "The distribution function of the normal distribution.")
log_ndtr = _from_scipy("log_ndtr", "ln ndtr x.")
ndtri = _from_scipy("ndtri", "The inverse of ndtr.")
entr = _from_scipy("entr", "-x ln x.")
xlog1py = _from_scipy("xlog1py", "x ln(1 + y).")
_zeta = _from_scipy("zeta", "The Hurwitz zeta function.")


def zeta(x: Any, y: Any) -> Any:
    """Σ 1 / (k + y)^x over k ≥ 0."""
    return _zeta(x, y)


@widened
def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    factor = typed((-1.0) ** (n + 1) * float(np.prod(np.arange(1.0, n + 1))), x)
    return zeta(np.full_like(x, n + 1), x) * factor


def airy_ai(x: Any) -> Any:
    """The Airy function Ai."""
    return _airy(x, 0)


def airy_ai_prime(x: Any) -> Any:
    """The derivative of Ai."""
    return _airy(x, 1)


@widened
def _airy(x: Any, which: int) -> Any:
    from scipy.special import airy

    return airy(x)[which]


@widened
def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, and 1 at 0."""
    zero = x == 0
    return np.where(zero, typed(1, x), np.where(np.isinf(x), typed(0, x), np.sin(x) / np.where(zero, typed(1, x), x)))
