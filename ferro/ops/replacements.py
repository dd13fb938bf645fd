"""Neighbours of floating numbers, steps, and numbers in the place of nan and infinities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, binary_samples, declare, unary_samples
from ferro.ops.rounding import floating_only
from ferro.ops.signs import EDGES

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["heaviside", "nan_to_num", "nan_to_num_", "nextafter"]


def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next floating number after x towards y.  The derivative by x is 1, and 0 where x = y; by y it is 0."""
    x, y = promote(need_tensor("nextafter", "input", input), need_tensor("nextafter", "other", other))
    result = apply(NEXTAFTER, (floating_only("nextafter", x), y))
    return result if out is None else into("nextafter", out, result, input, other)


NEXTAFTER = Op(
    "nextafter",
    lambda xp, x, y: xp.nextafter(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, y: xp.where(x == y, 0.0, g),
    y=lambda xp, g: xp.zeros_like(g),
    samples=[*binary_samples(scalars=()), Sample(Arg(values=[1.0, 0.0]), Arg(values=[1.0, -1.0]), smooth=False)],
)


def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 where x < 0, 1 where x > 0, `values` where x = 0.  Not differentiable."""
    x, at_zero = need_tensor("heaviside", "input", input), need_tensor("heaviside", "values", values)
    given = [t for t in (x, at_zero, out) if t is not None]
    if any(t._data.dtype.kind == "c" for t in given):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if any(t._data.dtype is not x._data.dtype for t in given):
        raise RuntimeError(
            "heaviside is not yet implemented for tensors with different dtypes. "
            f"They are {', '.join(str(t.dtype) for t in given)}"
        )
    return into("heaviside", out, apply(HEAVISIDE, (x, at_zero)))


HEAVISIDE = Op("heaviside", lambda xp, x, y: xp.heaviside(x, y), layout=ITERATED)
declare(
    "heaviside",
    [*binary_samples(scalars=()), Sample(Arg(values=[-1.0, 0.0, 1.0]), Arg(values=[0.5]))],
    differentiable=False,
)


def nan_to_num(
    input: Tensor,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """x with nan and the infinities replaced by numbers. The derivative there is 0.

    - `input` (Tensor): x, any shape
    - `nan` (float, default 0.0): in the place of nan
    - `posinf`, `neginf` (float, default None): in the place of inf and -inf; None: the largest and the smallest number
      of the dtype
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`; integers stay as they are.

    Example::

        >>> import ferro
        >>> ferro.nan_to_num(ferro.tensor([1.0, float("nan"), float("inf")]), posinf=9.0)
        tensor([1., 0., 9.])
    """
    a = need_tensor("nan_to_num", "input", input)._data
    if a.dtype not in dtypes.INEXACT:
        return into("nan_to_num", out, wrap(a.copy()))
    info = dtypes.finfo(input.dtype)
    values = (
        nan if nan is not None else 0.0,
        info.max if posinf is None else posinf,
        info.min if neginf is None else neginf,
    )
    result = unary(NAN_TO_NUM, input, tuple([float(v) for v in values]))
    return result if out is None else into("nan_to_num", out, result, input)


NAN_TO_NUM = Op(
    "nan_to_num",
    lambda xp, x, /, nan, posinf, neginf: xp.nan_to_num(x, nan, posinf, neginf),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.where(xp.isfinite(x), g, 0.0),
    samples=[*unary_samples(-2, 2, *EDGES, smooth=False), Sample(Arg(values=list(EDGES)), 1.0, 2.0, 3.0, smooth=False)],
)


nan_to_num_ = in_place(nan_to_num)


class ReplacementMethods:
    """Methods of Tensor."""

    __slots__ = ()
    nextafter = nextafter
    nextafter_ = in_place(nextafter)
    heaviside = heaviside
    heaviside_ = in_place(heaviside)
    nan_to_num = nan_to_num
    nan_to_num_ = nan_to_num_
