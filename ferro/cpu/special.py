"""Special functions of NumPy arrays, computed by SciPy, which is loaded at the first call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF, float32, fused
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.elementwise import primitive as _primitive
from ferro.cpu.kernels.common import SMALL, has_kernel, pointwise
from ferro.cpu.kernels.common import split as _split
from ferro.cpu.pointwise import typed
from ferro.cpu.thresholds import SPECIAL_LEAST
from ferro.native.extensions import special as _special


def _from_scipy(name: str, doc: str) -> Callable:
    """The function of scipy.special called `name`, with results of the dtype of the first argument."""
    found: list = []

    def function(x: Any, *rest: Any) -> Any:
        if not found:
            found.append(_special(name))
        if x.size >= SPECIAL_LEAST and not rest and x.dtype not in HALF:
            return _over_threads(found[0], x)
        if x.dtype in HALF:
            return found[0](x.astype(float32), *[r.astype(float32) for r in rest]).astype(x.dtype)
        return found[0](x, *rest)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _numbers(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 100_000):
        yield (make(n) * 0.99,)


def _by_kernel(name: str, otherwise: Callable, double: str = "") -> Callable:
    """A function of SciPy's; of large float32 arrays a kernel, and of float64 the one called `double`, if there is one."""

    def function(x: Any) -> Any:
        kernel = name if x.dtype is float32 else double
        if kernel and x.size >= SMALL and has_kernel(x, kernel):
            return pointwise(kernel, x)
        return otherwise(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = otherwise.__doc__
    return by_kernels(f"jit_special.{name}{double and f' jit_erfinv.{double}'}", _numbers)(function)


def _over_threads(ufunc: Callable, x: Any) -> Any:
    if not x.flags.forc:
        return ufunc(x)
    out = np.empty_like(x)
    source, target = (x.reshape(-1), out.reshape(-1)) if x.flags.c_contiguous else (x.T.reshape(-1), out.T.reshape(-1))
    _split(x.size, SPECIAL_LEAST // 2, lambda i, j: ufunc(source[i:j], out=target[i:j]))
    return out


erf = _primitive("erf", lambda x: _special("erf")(x), entry="x")
erfc = _by_kernel("erfc", _from_scipy("erfc", "1 - erf x."))
erfcx = _from_scipy("erfcx", "exp(x²) erfc x.")
erfinv = _by_kernel("erfinv", _from_scipy("erfinv", "The inverse of erf."), "erfinv_double")
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


def _lgamma(x: Any) -> Any:
    """ln |Γ(x)|, ∞ at ±∞."""
    return np.where(x == -np.inf, typed(np.inf, x), _gammaln(x))


lgamma = _by_kernel("lgamma", _lgamma)


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

FAR = 4096  # from this degree on closed forms answer, where there are some: a recurrence takes time in proportion to it
FARTHEST = 1 << 20  # the largest degree where there are none
OVERFLOWING = 512  # the largest degree of Hermite's polynomials, like PyTorch's: above, what is not 0 is beyond float64


def _polynomial(name: str, x: Any, n: Any, *order: float, most: int, beyond: Callable | str) -> Any:
    """A polynomial of SciPy of degree n (rounded towards zero), in float64; 0 where n is negative or nan.

    Degrees above `most` are left to ``beyond(x, n)``, or refused in the name of `beyond`.
    """
    import scipy.special

    above = n > most
    some = above.any()
    if some and isinstance(beyond, str):
        raise ValueError(
            f"{beyond}: the degree n is {np.nanmax(n):.10g}; it may be {most} at most, for its cost is linear"
        )
    near = np.where((n >= 0) & ~above, n, typed(0, n)).astype(np.int64)
    value = getattr(scipy.special, f"eval_{name}")(near, *order, x.astype(np.float64))
    if some and not isinstance(beyond, str):
        value = np.where(above, beyond(x.astype(np.float64), n.astype(np.float64)), value)
    return np.where(n >= 0, value, 0.0)


def _like(x: Any, value: Any) -> Any:
    return np.asarray(value).astype(x.dtype, copy=False)


def _far_chebyshev(kind: str, x: Any, n: Any) -> Any:
    """Chebyshev's polynomials T, U, V and W by their definitions, with x = cos t or cosh t."""
    y = np.abs(x)
    inside = y <= 1
    t = np.where(inside, np.arccos(np.minimum(y, 1)), np.arccosh(np.maximum(y, 1)))

    def cos(a: Any) -> Any:
        return np.where(inside, np.cos(a), np.cosh(a))

    def sin(a: Any) -> Any:
        return np.where(inside, np.sin(a), np.sinh(a))

    if kind == "T":
        value = cos(n * t)
    elif kind == "U":
        value = np.where(y == 1, n + 1, sin((n + 1) * t) / sin(t))
    else:  # V(-x) = (-1)^n W(x)
        v = cos((n + 0.5) * t) / cos(t / 2)
        w = np.where(y == 1, 2 * n + 1, sin((n + 0.5) * t) / sin(t / 2))
        value = np.where((x < 0) == (kind == "V"), w, v)
    value = np.where(np.isinf(y), y, value)
    return np.where((x < 0) & (n % 2 == 1), -value, value)


def chebyshev_polynomial_t(x: Any, n: Any) -> Any:
    """Chebyshev's polynomial of the first kind."""
    return _like(x, _polynomial("chebyt", x, n, most=FAR, beyond=lambda x, n: _far_chebyshev("T", x, n)))


def gegenbauer(x: Any, n: Any, order: float) -> Any:
    """Gegenbauer's polynomial C of an order λ."""
    return _like(x, _gegenbauer(x, n, order))


def _gegenbauer(x: Any, n: Any, order: float) -> Any:
    if order == 1:
        return _polynomial("gegenbauer", x, n, order, most=FAR, beyond=lambda x, n: _far_chebyshev("U", x, n))
    name = "legendre_polynomial_p" if order == 0.5 else f"Gegenbauer's polynomial of the order {order:g}"
    return _polynomial("gegenbauer", x, n, order, most=FARTHEST, beyond=name)


def gegenbauer_pair(x: Any, n: Any, order: float, sign: int) -> Any:
    """Cₙ ± Cₙ₋₁, two of Gegenbauer's polynomials of an order λ, which may nearly cancel."""
    if order != 1 or not (n > FAR).any():
        return _like(x, _gegenbauer(x, n, order) + sign * _gegenbauer(x, n - 1, order))
    near = np.minimum(n, typed(FAR, n))
    value = _gegenbauer(x, near, order) + sign * _gegenbauer(x, near - 1, order)
    far = _far_chebyshev("W" if sign > 0 else "V", x.astype(np.float64), n.astype(np.float64))
    return _like(x, np.where(n > FAR, far, value))


def laguerre(x: Any, n: Any, order: float) -> Any:
    """Laguerre's generalised polynomial L of an order α."""
    return _like(x, _polynomial("genlaguerre", x, n, order, most=FARTHEST, beyond="laguerre_polynomial_l"))


def hermite_polynomial_h(x: Any, n: Any) -> Any:
    """Hermite's polynomial of physics."""
    return _like(x, _polynomial("hermite", x, n, most=OVERFLOWING, beyond=_overflowing))


def hermite_polynomial_he(x: Any, n: Any) -> Any:
    """Hermite's polynomial of probability."""
    return _like(x, _polynomial("hermitenorm", x, n, most=OVERFLOWING, beyond=_overflowing))


def _overflowing(x: Any, n: Any) -> float:
    return math.nan
