"""Absolute values and signs of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.inplace import in_place
from ferro.core.into import into, unary_into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import operands, promote
from ferro.core.samples import Arg, Sample, binary_samples, singular, unary_samples

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["abs", "abs_", "absolute", "copysign", "sgn", "sign"]

INF, NAN = float("inf"), float("nan")
EDGES = (0.0, -0.0, NAN, INF, -INF, 1.0, -1.0)


def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """|x|.  d |x| = sgn x dx: 0 at 0; for complex x, Re(conj(sgn x) dx)."""
    need_tensor("abs", "input", input)
    if input._data.dtype.kind == "b":
        raise NotImplementedError("abs: not defined for bool tensors; cast to a number type first")
    return unary(ABS, input) if out is None else unary_into("abs", out, ABS, input)


ABS = Op(
    "abs",
    lambda xp, x: xp.abs(x),
    kind=ELEMENTWISE,
    real=True,
    x=lambda xp, g, x: g * xp.sgn(x),
    samples=unary_samples(-2, 2, *EDGES, smooth=False),
    complex=True,
)
singular("abs", "0", Sample(Arg(values=[0.0])), "of the subgradients the smallest")


def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of x; 0 for nan.  The derivative is 0."""
    need_tensor("sign", "input", input)
    if input._data.dtype.kind == "c":
        raise NotImplementedError("sign: not defined for complex numbers; use sgn, which is x / |x|")
    result = wrap(input._data.copy()) if input._data.dtype.kind == "b" else unary(SIGN, input)
    return result if out is None else into("sign", out, result, input)


SIGN = Op(
    "sign",
    lambda xp, x: xp.sign(x),
    kind=ELEMENTWISE,
    x=lambda xp, g: xp.zeros_like(g),
    samples=unary_samples(-2, 2, *EDGES, smooth=False),
)


def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """s = x / |x|, and 0 at 0: for real x its sign.  d = (dx - s Re(conj(s) dx)) / |x|: 0 for real x, and at 0."""
    need_tensor("sgn", "input", input)
    if input._data.dtype.kind != "c":
        return sign(input, out=out)
    return unary(SGN, input) if out is None else unary_into("sgn", out, SGN, input)


def _sgn_x(xp: Any, g: Any, x: Any, out: Any) -> Any:
    size = xp.abs(x)
    return xp.where(size == 0, 0.0, (g - out * xp.real(g * out.conj())) / size)


SGN = Op("sgn", lambda xp, x: xp.sgn(x), x=_sgn_x, samples=unary_samples(), complex=True)


def copysign(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """|x| with the sign of y.  d = sgn(x) sgn(y) dx: 0 at x = 0; 0 by y."""
    x, y = floats("copysign", *promote(*operands("copysign", need_tensor("copysign", "input", input), other)))
    result = apply(COPYSIGN, (x, y))
    return result if out is None else into("copysign", out, result, input, other)


COPYSIGN = Op(
    "copysign",
    lambda xp, x, y: xp.copysign(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, out: g * xp.where(x == 0, 0.0, out / x),
    y=lambda xp, g: xp.zeros_like(g),
    samples=[*binary_samples(scalars=(1.5, -1.5)), Sample(Arg(values=[0.0, -0.0, 1.0]), -1.0, smooth=False)],
)


def floats(name: str, *xs: Any) -> list:
    """The tensors as the default dtype if they hold integers; complex ones are refused."""
    dtype = xs[0]._data.dtype
    if dtype.kind == "c":
        raise NotImplementedError(f"{name}: not defined for complex tensors, got {xs[0].dtype}")
    return list(xs) if dtype in dtypes.INEXACT else [wrap(x._data.astype(dtypes.default().np)) for x in xs]


absolute = abs


def _abs_(self: Any) -> Any:
    """In-place version of :func:`abs`, of real tensors."""
    if self._data.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return _made_absolute(self)


_made_absolute = in_place(abs)
_abs_.__name__ = _abs_.__qualname__ = "abs_"
abs_ = _abs_


class SignMethods:
    """Methods of Tensor."""

    __slots__ = ()
    abs = absolute = __abs__ = abs
    abs_ = absolute_ = abs_
    sign = sign
    sign_ = in_place(sign)
    sgn = sgn
    sgn_ = in_place(sgn)
    copysign = copysign
    copysign_ = in_place(copysign)
