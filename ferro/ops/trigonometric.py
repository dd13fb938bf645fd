"""Trigonometric functions, their inverses, and angles between degrees and radians."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, binary, unary
from ferro.core.arguments import need_tensor
from ferro.core.inplace import in_place
from ferro.core.into import into, unary_into
from ferro.core.op import ELEMENTWISE, LINEAR, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, binary_samples, singular, unary_samples
from ferro.elementwise import elementwise
from ferro.ops.exponential import real_operands

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["acos", "acos_", "arccos", "arccos_", "arcsin", "arcsin_", "arctan", "arctan2", "arctan_", "asin",
           "asin_", "atan", "atan2", "atan_", "cos", "cos_", "deg2rad", "deg2rad_", "hypot", "rad2deg", "rad2deg_",
           "sin", "sin_", "sinc", "sinc_", "tan", "tan_"]  # fmt: skip


def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin x.  d sin x = cos x dx."""
    return unary(SIN, input) if out is None else unary_into("sin", out, SIN, input)


@elementwise(entry="many")
def _sin_slope(xp: Any, g: Any, x: Any) -> Any:
    return g * xp.cos(x).conj()


SIN = Op(
    "sin",
    lambda xp, x: xp.sin(x),
    floats=True,
    kind=ELEMENTWISE,
    x=_sin_slope,
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """cos x.  d cos x = -sin x dx."""
    return unary(COS, input) if out is None else unary_into("cos", out, COS, input)


@elementwise(entry="many")
def _cos_slope(xp: Any, g: Any, x: Any) -> Any:
    return -g * xp.sin(x).conj()


COS = Op(
    "cos",
    lambda xp, x: xp.cos(x),
    floats=True,
    kind=ELEMENTWISE,
    x=_cos_slope,
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """tan x.  d tan x = (1 + tan² x) dx."""
    return unary(TAN, input) if out is None else unary_into("tan", out, TAN, input)


TAN = Op(
    "tan",
    lambda xp, x: xp.tan(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g + g * (out * out).conj(),
    weight=4.0,
    samples=unary_samples(-1.2, 1.2),
    complex=True,
)


def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """arcsin x, in [-π/2, π/2].  d = dx / √(1 - x²): inf at ±1."""
    return unary(ASIN, input) if out is None else unary_into("asin", out, ASIN, input)


ASIN = Op(
    "asin",
    lambda xp, x: xp.asin(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.rsqrt(1 - x * x).conj(),
    weight=4.0,
    samples=[
        *unary_samples(-0.9, 0.9, 0.0, 1.0, 2.0, smooth=False),
        Sample(Arg(values=[-1.0]), smooth=False, complex=False),
    ],
    complex=True,
)


def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """arccos x, in [0, π].  d = -dx / √(1 - x²): -inf at ±1."""
    return unary(ACOS, input) if out is None else unary_into("acos", out, ACOS, input)


ACOS = Op(
    "acos",
    lambda xp, x: xp.acos(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: -(g * xp.rsqrt(1 - x * x).conj()),
    weight=4.0,
    samples=[
        *unary_samples(-0.9, 0.9, 0.0, 1.0, 2.0, smooth=False),
        Sample(Arg(values=[-1.0]), smooth=False, complex=False),
    ],
    complex=True,
)
singular("acos", "1", Sample(Arg(values=[1.0])), "the limit from the left: the slope is infinite")


def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """arctan x, in [-π/2, π/2].  d = dx / (1 + x²)."""
    return unary(ATAN, input) if out is None else unary_into("atan", out, ATAN, input)


ATAN = Op(
    "atan",
    lambda xp, x: xp.atan(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / (x * x + 1).conj(),
    weight=4.0,
    samples=unary_samples(),
    complex=True,
)


def atan2(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (x = other, y = input), in [-π, π].  d = (x dy - y dx) / (x² + y²): 0 at (0, 0)."""
    real_operands("atan2", input, other)
    x, y = promote(need_tensor("atan2", "input", input), need_tensor("atan2", "other", other))
    result = binary(ATAN2, x, y)
    return result if out is None else into("atan2", out, result, input, other)


def _atan2_scale(xp: Any, x: Any, y: Any) -> Any:
    """1 / (x² + y²), and 0 at the origin."""
    squares = x * x + y * y
    return xp.where(squares == 0, 0.0, xp.reciprocal(squares))


ATAN2 = Op(
    "atan2",
    lambda xp, x, y: xp.atan2(x, y),
    floats=True,
    kind=ELEMENTWISE,
    weight=8.0,
    x=lambda xp, g, x, y: g * (y * _atan2_scale(xp, x, y)),
    y=lambda xp, g, x, y: -(g * (x * _atan2_scale(xp, x, y))),
    samples=[
        *binary_samples(0.3, 2.0, -2.0, 2.0, scalars=()),
        Sample(Arg(values=[0.0, 0.0, 1.0]), Arg(values=[0.0, -1.0, 0.0]), smooth=False),
    ],
)
singular("atan2", "the origin", Sample(Arg(values=[0.0]), Arg(values=[0.0])), "the angle is not continuous there")


def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """√(x² + y²) without overflow.  d = (x dx + y dy) / √(x² + y²), 0 at (0, 0)."""
    x, y = promote(need_tensor("hypot", "input", input), need_tensor("hypot", "other", other))
    if x._data.dtype not in dtypes.INEXACT or x._data.dtype.kind == "c":
        raise NotImplementedError(
            f"hypot: defined for floating-point tensors, not for {x.dtype}; cast the operands first"
        )
    result = apply(HYPOT, (x, y))
    return result if out is None else into("hypot", out, result, input, other)


def _share(x: Any, out: Any) -> Any:
    """x / out, and 0 with all its derivatives at the origin."""
    away = out != 0
    return x * away / (out + ~away)


HYPOT = Op(
    "hypot",
    lambda xp, x, y: xp.hypot(x, y),
    kind=ELEMENTWISE,
    weight=2.0,
    x=lambda xp, g, x, out: g * _share(x, out),
    y=lambda xp, g, y, out: g * _share(y, out),
    samples=[*binary_samples(0.3, 2.0, -2.0, 2.0, scalars=()), Sample(Arg(values=[0.0]), Arg(values=[-1.0]))],
)
singular("hypot", "the origin", Sample(Arg(values=[0.0]), Arg(values=[0.0])), "of the subgradients the smallest")


def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(πx) / (πx), and 1 at 0.  d = -π j₁(πx) dx, j₁ being the spherical Bessel function (NIST 10.49.3)."""
    return unary(SINC, input) if out is None else unary_into("sinc", out, SINC, input)


SINC = Op(
    "sinc",
    lambda xp, x: xp.sinc(x),
    floats=True,
    kind=ELEMENTWISE,
    weight=8.0,
    x=lambda xp, g, x: g * (xp.spherical_j_of_order(x * math.pi, 1) * -math.pi).conj(),
    samples=unary_samples(0.2, 2.0),
    complex=True,
)
singular("sinc", "0", Sample(Arg(values=[0.0])), "smooth: the formula divides by nothing")


def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees in radians: x π / 180."""
    result = unary(DEG2RAD, real_angle("deg2rad", input))
    return result if out is None else into("deg2rad", out, result, input)


DEG2RAD = Op(
    "deg2rad",
    lambda xp, x: x * xp.typed(math.pi / 180, x),
    floats=True,
    kind=LINEAR,
    x=lambda xp, g: g * (math.pi / 180),
    samples=unary_samples(),
)


def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians in degrees: x 180 / π."""
    result = unary(RAD2DEG, real_angle("rad2deg", input))
    return result if out is None else into("rad2deg", out, result, input)


RAD2DEG = Op(
    "rad2deg",
    lambda xp, x: x * xp.typed(180 / math.pi, x),
    floats=True,
    kind=LINEAR,
    x=lambda xp, g: g * (180 / math.pi),
    samples=unary_samples(),
)


def real_angle(name: str, input: Any) -> Any:
    """The argument, which must be real."""
    need_tensor(name, "input", input)
    if input._data.dtype.kind == "c":
        raise RuntimeError(f"{name}: {name} is not supported for complex tensors, got {input.dtype}")
    return input


arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2

# In-place forms that torch has as functions too.
sin_, cos_, tan_, asin_, acos_, atan_ = map(in_place, (sin, cos, tan, asin, acos, atan))
sinc_, deg2rad_, rad2deg_ = map(in_place, (sinc, deg2rad, rad2deg))
arcsin_, arccos_, arctan_ = asin_, acos_, atan_


class TrigonometricMethods:
    """Methods of Tensor."""

    __slots__ = ()
    sin = sin
    sin_ = sin_
    cos = cos
    cos_ = cos_
    tan = tan
    tan_ = tan_
    asin = arcsin = asin
    asin_ = arcsin_ = asin_
    acos = arccos = acos
    acos_ = arccos_ = acos_
    atan = arctan = atan
    atan_ = arctan_ = atan_
    atan2 = arctan2 = atan2
    atan2_ = arctan2_ = in_place(atan2)
    hypot = hypot
    hypot_ = in_place(hypot)
    sinc = sinc
    sinc_ = sinc_
    deg2rad = deg2rad
    deg2rad_ = deg2rad_
    rad2deg = rad2deg
    rad2deg_ = rad2deg_
