"""Choices between values: where, the larger, the smaller."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply, binary
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import NUMBERS, constant, operands, promote
from ferro.core.samples import Arg, Sample, binary_samples, singular
from ferro.ops.comparison import FLOAT32, INF, NAN

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fmax", "fmin", "maximum", "minimum", "where"]


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...


@overload
def where(condition: Tensor, input: Any, other: Any, *, out: Tensor | None = None) -> Tensor: ...


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """x where the condition holds, else y; or the indices at which a condition alone is not zero.

    - `condition` (Tensor): bool
    - `input`, `other` (Tensor or number, default None): x and y; all three broadcast
    - `out` (Tensor, default None): where to write the result

    With the condition alone: a tuple with one tensor of indices per dimension. Each of x and y gets the cotangent where
    it was chosen and 0 elsewhere. That 0 becomes nan in a function whose slope there is infinite, as in PyTorch: see
    :func:`safe_where`. RuntimeError for shapes that do not broadcast and a condition that is not bool (or uint8).

    Example::

        >>> import ferro
        >>> x = ferro.tensor([-1.0, 2.0, -3.0])
        >>> ferro.where(x > 0, x, 0.0)
        tensor([0., 2., 0.])
    """
    need_tensor("where", "condition", condition)
    if input is None and other is None:
        a = condition._data if condition._data.ndim else condition._data.reshape((1,))
        places = xp_of(a).nonzero(a)
        return tuple([wrap(xp_of(a).contiguous(places[:, i])) for i in range(a.ndim)])
    if condition._data.dtype.kind != "b":
        if condition._data.dtype is not UINT8:
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{dtypes.type_name(condition.dtype)}"
            )
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of "
            "PyTorch. Use a boolean condition instead.",
            stacklevel=2,
        )
        condition = wrap(condition._data != 0)
    if isinstance(input, TensorBase) and isinstance(other, TensorBase):
        x, y = (input, other) if input._data.dtype is other._data.dtype else promote(input, other)
    else:
        x, y = both_operands("where", input, other)
    result = apply(WHERE, (condition, x, y))
    return result if out is None else into("where", out, result, input, other)


UINT8 = np.dtype(np.uint8)


def both_operands(name: str, x: Any, y: Any) -> list:
    """Two operands, possibly both numbers, promoted."""
    if isinstance(x, NUMBERS) and isinstance(y, NUMBERS):
        dtype = dtypes.result_np([x, y])
        return [constant(x, dtype), constant(y, dtype)]
    return promote(*operands(name, x, y))


TRIPLES = [((3, 4), (3, 4), (3, 4)), ((4,), (3, 1), ()), ((1,), (2,), (2,)), ((0,), (1,), (1,))]

WHERE = Op(
    "where",
    lambda xp, condition, x, y: xp.where(condition, x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, condition: xp.where(condition, g, 0.0),
    y=lambda xp, g, condition: xp.where(condition, 0.0, g),
    samples=[
        *[Sample(Arg(*c, dtype="bool"), Arg(*a), Arg(*b)) for c, a, b in TRIPLES],
        Sample(Arg(3, dtype="bool"), Arg(3), 1.5),
        Sample(Arg(3, dtype="bool"), 0, Arg(3)),
        Sample(Arg(3, dtype="bool"), 1.0, 2.0),
    ],
    complex=True,
)

EXTREMA = [
    *binary_samples(scalars=()),
    Sample(Arg(values=[1.0, NAN, 1.0, 2.0, INF]), Arg(values=[1.0, 1.0, NAN, 1.0, INF]), smooth=False),
]


def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of x and y, nan if one is nan.  Its cotangent goes to the larger; at a tie one half to each.

    Example::

        >>> import ferro
        >>> ferro.maximum(ferro.tensor([1.0, 4.0]), ferro.tensor([3.0, 2.0]))
        tensor([3., 4.])
    """
    result = binary(MAXIMUM, *extremum_operands("maximum", input, other))
    return result if out is None else into("maximum", out, result, input, other)


MAXIMUM = Op(
    "maximum",
    lambda xp, x, y: xp.maximum(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, y: _share(xp, g, x == y, x < y),
    y=lambda xp, g, x, y: _share(xp, g, x == y, x > y),
    samples=EXTREMA,
)
singular(
    "maximum",
    "equal arguments",
    Sample(Arg(values=[1.0]), Arg(values=[1.0])),
    "each takes half: the subgradient of least norm",
)


def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of x and y, nan if one is nan.  Its cotangent goes to the smaller; at a tie one half to each."""
    result = binary(MINIMUM, *extremum_operands("minimum", input, other))
    return result if out is None else into("minimum", out, result, input, other)


MINIMUM = Op(
    "minimum",
    lambda xp, x, y: xp.minimum(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, y: _share(xp, g, x == y, x > y),
    y=lambda xp, g, x, y: _share(xp, g, x == y, x < y),
    samples=EXTREMA,
)


def _share(xp: Any, g: Any, tie: Any, lost: Any) -> Any:
    """Half of g at a tie, nothing where lost, else all of it (both get it all where one operand is nan)."""
    return xp.where(tie, g * 0.5, xp.where(lost, 0.0, g))


def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of x and y, or the one that is not nan.  At a tie the cotangent goes to x."""
    result = binary(FMAX, *extremum_operands("fmax", input, other))
    return result if out is None else into("fmax", out, result, input, other)


FMAX = Op(
    "fmax",
    lambda xp, x, y: xp.fmax(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, y: xp.where((x >= y) | xp.isnan(y), g, 0.0),
    y=lambda xp, g, x, y: xp.where((x >= y) | xp.isnan(y), 0.0, g),
    samples=EXTREMA,
)


def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of x and y, or the one that is not nan.  At a tie the cotangent goes to x."""
    result = binary(FMIN, *extremum_operands("fmin", input, other))
    return result if out is None else into("fmin", out, result, input, other)


FMIN = Op(
    "fmin",
    lambda xp, x, y: xp.fmin(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, y: xp.where((x <= y) | xp.isnan(y), g, 0.0),
    y=lambda xp, g, x, y: xp.where((x <= y) | xp.isnan(y), 0.0, g),
    samples=EXTREMA,
)


def extremum_operands(name: str, x: Any, y: Any) -> tuple:
    """The two operands, which must be real tensors."""
    if isinstance(x, TensorBase) and isinstance(y, TensorBase) and x._data.dtype is y._data.dtype is FLOAT32:
        return x, y
    for argument, t in (("input", x), ("other", y)):
        if need_tensor(name, argument, t)._data.dtype.kind == "c":
            raise RuntimeError(f"{name}: not implemented for complex tensors: complex numbers have no order")
    return x, y


class ChoiceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    maximum, minimum, fmax, fmin = maximum, minimum, fmax, fmin

    def where(self, condition: Any, other: Any) -> Tensor:
        """self where the condition holds, else other."""
        return where(condition, self, other)
