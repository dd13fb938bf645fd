"""Bessel and Airy functions.

Most of them have no derivative in PyTorch; here all have, by the relations of the NIST Digital Library of Mathematical
Functions, sections 10.6, 10.29, 10.51 and 9.2.  Those that are smooth at 0 take their derivatives from functions of
integer order (`*_of_order`): the relations between neighbouring orders divide by nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.apply import unary
from ferro.core.inplace import in_place
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.samples import Arg, Sample, declare, unary_samples
from ferro.ops.special import real_unary

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["i0", "i0_"]

# -- modified Bessel functions of the first kind -----------------------------------------------------------------------


def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """I₀(x).  d = I₁(x) dx."""
    return real_unary(I0, input, out)


I0 = Op(
    "i0",
    lambda xp, x: xp.i0(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.i1(x),
    weight=40.0,
    samples=unary_samples(-3, 3, 0.0),
)


def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e^-|x| I₀(x).  d = (i1e x - sgn(x) i0e x) dx."""
    return real_unary(I0E, input, out)


I0E = Op(
    "i0e",
    lambda xp, x: xp.i0e(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x, out: g * (xp.i1e(x) - xp.sgn(x) * out),
    weight=40.0,
    samples=unary_samples(-3, 3, 0.0, smooth=False),
    path="special.i0e",
)


def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """I₁(x).  d = (I₀(x) + I₂(x)) / 2 dx."""
    return real_unary(I1, input, out)


def bessel_i_of_order(x: Tensor, n: int) -> Tensor:
    """Iₙ(x)."""
    return unary(IN, x, (n,))


IN = Op(
    "bessel_i_of_order",
    lambda xp, x, /, n: xp.bessel_i_of_order(x, n),
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x, n: g * ((xp.bessel_i_of_order(x, n - 1) + xp.bessel_i_of_order(x, n + 1)) / 2),
)
I1 = Op(
    "i1",
    lambda xp, x: xp.i1(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * ((xp.i0(x) + xp.bessel_i_of_order(x, 2)) / 2),
    weight=40.0,
    samples=unary_samples(-3, 3, 0.0),
    path="special.i1",
)


def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e^-|x| I₁(x).  d = ((i0e x + e^-|x| I₂(x)) / 2 - sgn(x) i1e x) dx."""
    return real_unary(I1E, input, out)


def bessel_ie_of_order(x: Tensor, n: int) -> Tensor:
    """e^-|x| Iₙ(x)."""
    return unary(I_SCALED, x, (n,))


I_SCALED = Op(
    "bessel_ie_of_order",
    lambda xp, x, /, n: xp.bessel_ie_of_order(x, n),
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x, out, n: (
        g * ((xp.bessel_ie_of_order(x, n - 1) + xp.bessel_ie_of_order(x, n + 1)) / 2 - xp.sgn(x) * out)
    ),
)
I1E = Op(
    "i1e",
    lambda xp, x: xp.i1e(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x, out: g * ((xp.i0e(x) + xp.bessel_ie_of_order(x, 2)) / 2 - xp.sgn(x) * out),
    weight=40.0,
    samples=[*unary_samples(0.5, 3), Sample(Arg(values=[0.0, -1.0]), smooth=False, twice=False)],
    path="special.i1e",
)

modified_bessel_i0, modified_bessel_i1 = i0, i1

# -- the others: not differentiable in PyTorch -------------------------------------------------------------------------


def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """K₀(x), inf at 0, nan below.  d = -K₁(x) dx."""
    return real_unary(K0, input, out)


def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """K₁(x), inf at 0, nan below.  d = -(K₀(x) + K₁(x) / x) dx."""
    return real_unary(K1, input, out)


def scaled_modified_bessel_k0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """eˣ K₀(x).  d = (k0e x - k1e x) dx."""
    return real_unary(K0E, x, out)


def scaled_modified_bessel_k1(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """eˣ K₁(x).  d = (k1e x - k0e x - k1e(x) / x) dx."""
    return real_unary(K1E, x, out)


def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """J₀(x).  d = -J₁(x) dx."""
    return real_unary(J0, input, out)


def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """J₁(x).  d = (J₀(x) - J₂(x)) / 2 dx."""
    return real_unary(J1, input, out)


def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Y₀(x), -inf at 0, nan below.  d = -Y₁(x) dx."""
    return real_unary(Y0, input, out)


def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Y₁(x), -inf at 0, nan below.  d = (Y₀(x) - Y₁(x) / x) dx."""
    return real_unary(Y1, input, out)


def spherical_bessel_j0(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """j₀(x) = sin(x) / x, and 1 at 0.  d = -j₁(x) dx."""
    return real_unary(SPHERICAL_J0, x, out)


def bessel_j_of_order(x: Tensor, n: int) -> Tensor:
    """Jₙ(x)."""
    return unary(JN, x, (n,))


def spherical_j_of_order(x: Tensor, n: int) -> Tensor:
    """The spherical Bessel function jₙ(x), n > 0.  d = (n jₙ₋₁(x) - (n + 1) jₙ₊₁(x)) / (2 n + 1) dx."""
    return unary(SPHERICAL_JN, x, (n,))


def _spherical_j(xp: Any, x: Any, n: int) -> Any:
    return xp.sinc(x / math.pi) if n == 0 else xp.spherical_j_of_order(x, n)


def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Ai(x).  d = Ai'(x) dx."""
    return real_unary(AIRY_AI, input, out)


def airy_ai_prime(input: Tensor) -> Tensor:
    """Ai'(x).  d = x Ai(x) dx."""
    return real_unary(AIRY_AI_PRIME, input, None)


K0 = Op(
    "modified_bessel_k0",
    lambda xp, x: xp.modified_bessel_k0(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x: -(g * xp.modified_bessel_k1(x)),
)
K1 = Op(
    "modified_bessel_k1",
    lambda xp, x: xp.modified_bessel_k1(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x, out: -(g * (xp.modified_bessel_k0(x) + out / x)),
)
K0E = Op(
    "scaled_modified_bessel_k0",
    lambda xp, x: xp.scaled_modified_bessel_k0(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x, out: g * (out - xp.scaled_modified_bessel_k1(x)),
)
K1E = Op(
    "scaled_modified_bessel_k1",
    lambda xp, x: xp.scaled_modified_bessel_k1(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x, out: g * (out - xp.scaled_modified_bessel_k0(x) - out / x),
)
J0 = Op(
    "bessel_j0",
    lambda xp, x: xp.bessel_j0(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: -(g * xp.bessel_j1(x)),
    weight=40.0,
)
J1 = Op(
    "bessel_j1",
    lambda xp, x: xp.bessel_j1(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x: g * ((xp.bessel_j0(x) - xp.bessel_j_of_order(x, 2)) / 2),
)
JN = Op(
    "bessel_j_of_order",
    lambda xp, x, /, n: xp.bessel_j_of_order(x, n),
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x, n: g * ((xp.bessel_j_of_order(x, n - 1) - xp.bessel_j_of_order(x, n + 1)) / 2),
)
Y0 = Op(
    "bessel_y0",
    lambda xp, x: xp.bessel_y0(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: -(g * xp.bessel_y1(x)),
    weight=40.0,
)
Y1 = Op(
    "bessel_y1",
    lambda xp, x: xp.bessel_y1(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=40.0,
    x=lambda xp, g, x, out: g * (xp.bessel_y0(x) - out / x),
)
SPHERICAL_J0 = Op(
    "spherical_bessel_j0",
    lambda xp, x: xp.spherical_bessel_j0(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=10.0,
    x=lambda xp, g, x: -(g * xp.spherical_j_of_order(x, 1)),
)
SPHERICAL_JN = Op(
    "spherical_j_of_order",
    lambda xp, x, /, n: xp.spherical_j_of_order(x, n),
    kind=ELEMENTWISE,
    weight=200.0,
    x=lambda xp, g, x, n: (
        g * ((n * _spherical_j(xp, x, n - 1) - (n + 1) * xp.spherical_j_of_order(x, n + 1)) / (2 * n + 1)).conj()
    ),
)
AIRY_AI = Op(
    "airy_ai",
    lambda xp, x: xp.airy_ai(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x: g * xp.airy_ai_prime(x),
)
AIRY_AI_PRIME = Op(
    "airy_ai_prime",
    lambda xp, x: xp.airy_ai_prime(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x: g * x * xp.airy_ai(x),
)


def _scipy(name: str, *orders: Any) -> Callable:
    """A function of SciPy of general order, as reference of one of fixed order."""

    def function(x: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*orders, x).astype(x.dtype)

    return function


for _name, _reference in [
    ("modified_bessel_k0", _scipy("kv", 0)),
    ("modified_bessel_k1", _scipy("kv", 1)),
    ("scaled_modified_bessel_k0", _scipy("kve", 0)),
    ("scaled_modified_bessel_k1", _scipy("kve", 1)),
    ("bessel_y0", _scipy("yv", 0)),
    ("bessel_y1", _scipy("yv", 1)),
]:
    declare(f"special.{_name}", unary_samples(0.5, 4.0), reference=_reference)
for _name, _reference in [
    ("bessel_j0", _scipy("jv", 0)),
    ("bessel_j1", _scipy("jv", 1)),
    ("spherical_bessel_j0", _scipy("spherical_jn", 0)),
]:
    declare(f"special.{_name}", [*unary_samples(0.5, 4.0), *unary_samples(-4.0, -0.5)], reference=_reference)
declare(
    "special.airy_ai", [*unary_samples(0.5, 4.0), *unary_samples(-4.0, -0.5)], reference=lambda x: _airy_reference(x)
)


def _airy_reference(x: Any) -> Any:
    """Ai by Bessel functions of order 1/3: NIST 9.6.2 and 9.6.6."""
    from scipy.special import jv, kv

    size = abs(x) ** 1.5 * 2 / 3
    with_bessel = (
        abs(x) ** 0.5 / 3 * (jv(1 / 3, size) + jv(-1 / 3, size)),
        (abs(x) / 3) ** 0.5 / math.pi * kv(1 / 3, size),
    )
    return np.where(x < 0, *with_bessel).astype(x.dtype)


# In-place forms that torch has as functions too.
i0_ = in_place(i0)


class BesselMethods:
    """Methods of Tensor."""

    __slots__ = ()
    i0 = i0
    i0_ = i0_
