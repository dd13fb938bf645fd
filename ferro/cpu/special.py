"""Special functions of NumPy arrays, computed by SciPy, which is loaded at the first call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF, float32, fused
from ferro.cpu.extensions import special as _special
from ferro.cpu.kernels import activations as _kernels
from ferro.cpu.kernels.common import split as _split
from ferro.cpu.kernels.front import front as _front
from ferro.cpu.pointwise import typed

WORTH = 1 << 13  # elements from which two threads are faster; an element takes 10 to 50 ns


def _from_scipy(name: str, doc: str) -> Callable:
    """The function of scipy.special called `name`, with results of the dtype of the first argument."""
    found: list = []

    def function(x: Any, *rest: Any) -> Any:
        if not found:
            found.append(_special(name))
        if x.size >= WORTH and not rest and x.dtype not in HALF:
            return _over_threads(found[0], x)
        if x.dtype in HALF:
            return found[0](x.astype(float32), *[r.astype(float32) for r in rest]).astype(x.dtype)
        return found[0](x, *rest)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _over_threads(ufunc: Callable, x: Any) -> Any:
    if not x.flags.forc:
        return ufunc(x)
    out = np.empty_like(x)
    source, target = (x.reshape(-1), out.reshape(-1)) if x.flags.c_contiguous else (x.T.reshape(-1), out.T.reshape(-1))
    _split(x.size, WORTH // 2, lambda i, j: ufunc(source[i:j], out=target[i:j]))
    return out


erf = _front(_kernels.erf)
erfc = _from_scipy("erfc", "1 - erf x.")
erfcx = _from_scipy("erfcx", "exp(x²) erfc x.")
erfinv = _from_scipy("erfinv", "The inverse of erf.")
ndtr = _from_scipy("ndtr", "The distribution function of the normal distribution.")
log_ndtr = _from_scipy("log_ndtr", "ln ndtr x.")
ndtri = _from_scipy("ndtri", "The inverse of ndtr.")
entr = _from_scipy("entr", "-x ln x.")
xlog1py = _from_scipy("xlog1py", "x ln(1 + y).")

# -- gamma and zeta ----------------------------------------------------------------------------------------------------

digamma = _from_scipy("psi", "The logarithmic derivative of Γ.")
igamma = _from_scipy("gammainc", "The lower incomplete gamma function, regularised.")
igammac = _from_scipy("gammaincc", "The upper incomplete gamma function, regularised.")
zeta = _from_scipy("zeta", "Σ 1 / (k + y)^x over k ≥ 0, Hurwitz' zeta function.")
_gammaln = _from_scipy("gammaln", "ln |Γ(x)|.")


def lgamma(x: Any) -> Any:
    """ln |Γ(x)|, ∞ at ±∞."""
    return np.where(x == -np.inf, typed(np.inf, x), _gammaln(x))


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma: (-1)^(n+1) n! ζ(n + 1, x)."""
    if n == 0:
        return digamma(x)
    if x.dtype in HALF:
        return polygamma(n, x.astype(float32)).astype(x.dtype)
    return zeta(np.full_like(x, n + 1), x) * typed((-1.0) ** (n + 1) * math.gamma(n + 1), x)


# -- Bessel and Airy functions -----------------------------------------------------------------------------------------

i0 = _from_scipy("i0", "The modified Bessel function I₀.")
i0e = _from_scipy("i0e", "e^-|x| I₀(x).")
i1 = _from_scipy("i1", "The modified Bessel function I₁.")
i1e = _from_scipy("i1e", "e^-|x| I₁(x).")
modified_bessel_k0 = _from_scipy("k0", "The modified Bessel function K₀.")
modified_bessel_k1 = _from_scipy("k1", "The modified Bessel function K₁.")
scaled_modified_bessel_k0 = _from_scipy("k0e", "eˣ K₀(x).")
scaled_modified_bessel_k1 = _from_scipy("k1e", "eˣ K₁(x).")
bessel_j0 = _from_scipy("j0", "The Bessel function J₀.")
bessel_j1 = _from_scipy("j1", "The Bessel function J₁.")
bessel_y0 = _from_scipy("y0", "The Bessel function Y₀.")
bessel_y1 = _from_scipy("y1", "The Bessel function Y₁.")


def airy_ai(x: Any) -> Any:
    """The Airy function Ai."""
    return _airy(x, 0)


def airy_ai_prime(x: Any) -> Any:
    """The derivative of Ai."""
    return _airy(x, 1)


@fused
def _airy(x: Any, which: int) -> Any:
    from scipy.special import airy

    # far to the right, where SciPy gives up, Ai and Ai' are less than the smallest number
    return np.where(x > 200, typed(0, x), airy(x)[which])


@fused
def bessel_j_of_order(x: Any, n: int) -> Any:
    """Jₙ(x)."""
    from scipy.special import jv

    return jv(typed(n, x), x)


@fused
def bessel_i_of_order(x: Any, n: int) -> Any:
    """Iₙ(x)."""
    from scipy.special import iv

    return iv(typed(n, x), x)


@fused
def bessel_ie_of_order(x: Any, n: int) -> Any:
    """e^-|x| Iₙ(x)."""
    from scipy.special import ive

    return ive(typed(n, x), x)


@fused
def spherical_j_of_order(x: Any, n: int) -> Any:
    """The spherical Bessel function jₙ(x)."""
    from scipy.special import spherical_jn

    return np.asarray(spherical_jn(n, x)).astype(x.dtype, copy=False)


def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, and 1 at 0."""
    zero = x == 0
    return np.where(zero, typed(1, x), np.where(np.isinf(x), typed(0, x), np.sin(x) / np.where(zero, typed(1, x), x)))


# -- orthogonal polynomials --------------------------------------------------------------------------------------------


def _polynomial(name: str, x: Any, n: Any, *order: float) -> Any:
    """A polynomial of SciPy of degree n (rounded towards zero), 0 where n is negative."""
    import scipy.special

    n = n.astype(np.int64)
    return np.where(n < 0, typed(0, x), getattr(scipy.special, name)(n, *order, x)).astype(x.dtype)


def chebyshev_polynomial_t(x: Any, n: Any) -> Any:
    """Chebyshev's polynomial of the first kind."""
    return _polynomial("eval_chebyt", x, n)


def gegenbauer(x: Any, n: Any, order: float) -> Any:
    """Gegenbauer's polynomial C of an order λ."""
    return _polynomial("eval_gegenbauer", x, n, order)


def laguerre(x: Any, n: Any, order: float) -> Any:
    """Laguerre's generalised polynomial L of an order α."""
    return _polynomial("eval_genlaguerre", x, n, order)


def hermite_polynomial_h(x: Any, n: Any) -> Any:
    """Hermite's polynomial of physics."""
    return _polynomial("eval_hermite", x, n)


def hermite_polynomial_he(x: Any, n: Any) -> Any:
    """Hermite's polynomial of probability."""
    return _polynomial("eval_hermitenorm", x, n)
