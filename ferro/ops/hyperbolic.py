"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.inplace import in_place
from ferro.core.into import unary_into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.samples import Arg, Sample, unary_samples
from ferro.elementwise import elementwise

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["acosh", "acosh_", "arccosh", "arccosh_", "arcsinh", "arcsinh_", "arctanh", "arctanh_", "asinh",
           "asinh_", "atanh", "atanh_", "cosh", "cosh_", "sinh", "sinh_", "tanh", "tanh_"]  # fmt: skip


def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sinh x.  d sinh x = cosh x dx."""
    return unary(SINH, input) if out is None else unary_into("sinh", out, SINH, input)


SINH = Op(
    "sinh",
    lambda xp, x: xp.sinh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.cosh(x).conj(),
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """cosh x.  d cosh x = sinh x dx."""
    return unary(COSH, input) if out is None else unary_into("cosh", out, COSH, input)


COSH = Op(
    "cosh",
    lambda xp, x: xp.cosh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.sinh(x).conj(),
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """tanh x.  d tanh x = (1 - tanh² x) dx."""
    return unary(TANH, input) if out is None else unary_into("tanh", out, TANH, input)


@elementwise(entry="x")
def _tanh_slope(xp: Any, g: Any, out: Any) -> Any:
    return g * (1 - out * out).conj()


TANH = Op(
    "tanh",
    lambda xp, x: xp.tanh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=_tanh_slope,
    weight=3.0,
    samples=unary_samples(),
    complex=True,
)


def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """arsinh x.  d = dx / √(x² + 1)."""
    return unary(ASINH, input) if out is None else unary_into("asinh", out, ASINH, input)


ASINH = Op(
    "asinh",
    lambda xp, x: xp.asinh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.rsqrt(x * x + 1).conj(),
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """arcosh x, nan below 1.  d = dx / √(x² - 1): inf at 1."""
    return unary(ACOSH, input) if out is None else unary_into("acosh", out, ACOSH, input)


def _acosh_x(xp: Any, g: Any, x: Any) -> Any:
    if x.dtype in dtypes.COMPLEX or x.dtype in (dtypes.complex64, dtypes.complex128):  # the branch of √(x-1) √(x+1)
        return g * (xp.rsqrt(x - 1) * xp.rsqrt(x + 1)).conj()
    return g * xp.rsqrt(x * x - 1)


ACOSH = Op(
    "acosh",
    lambda xp, x: xp.acosh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=_acosh_x,
    weight=4.0,
    samples=unary_samples(1.2, 3.0, 1.0, 0.0, math.inf, smooth=False),
    complex=True,
)


def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """artanh x, nan outside of [-1, 1].  d = dx / (1 - x²)."""
    return unary(ATANH, input) if out is None else unary_into("atanh", out, ATANH, input)


ATANH = Op(
    "atanh",
    lambda xp, x: xp.atanh(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / (1 - x * x).conj(),
    weight=4.0,
    samples=[
        *unary_samples(-0.9, 0.9, 0.0, 1.0, 2.0, smooth=False),
        Sample(Arg(values=[-1.0]), smooth=False, complex=False),
    ],
    complex=True,
)


arcsinh, arccosh, arctanh = asinh, acosh, atanh

# In-place forms that torch has as functions too.
sinh_, cosh_, tanh_, asinh_, acosh_, atanh_ = map(in_place, (sinh, cosh, tanh, asinh, acosh, atanh))
arcsinh_, arccosh_, arctanh_ = asinh_, acosh_, atanh_


class HyperbolicMethods:
    """Methods of Tensor."""

    __slots__ = ()
    sinh = sinh
    cosh = cosh
    tanh = tanh
    asinh = arcsinh = asinh
    acosh = arccosh = acosh
    atanh = arctanh = atanh
    sinh_ = sinh_
    cosh_ = cosh_
    tanh_ = tanh_
    asinh_ = arcsinh_ = asinh_
    acosh_ = arccosh_ = acosh_
    atanh_ = arctanh_ = atanh_
