"""Arithmetic: sums, differences, products, quotients, powers, and their scaled forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import binary, unary
from ferro.core.arguments import into
from ferro.core.inplace import in_place
from ferro.core.op import ELEMENTWISE, LINEAR, MULTILINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.core.samples import binary as pairs
from ferro.core.samples import unary as points

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["add", "mul", "neg"]


def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """x + alpha y, with broadcasting and type promotion.  d(x + a y) = dx + a dy.

    Example::

        >>> import ferro
        >>> ferro.add(ferro.tensor([1.0, 2.0]), 10, alpha=2)
        tensor([21., 22.])
    """
    if alpha != 1:
        other = mul(other, alpha)
    result = binary(ADD, input, other)
    return result if out is None else into("add", out, result)


ADD = Op("add", lambda xp, x, y: x + y, kind=LINEAR,
         x=lambda xp, g: g,
         y=lambda xp, g: g,
         samples=[*pairs(), Sample(Arg(2, 3), Arg(3), alpha=2)], complex=True)  # fmt: skip


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x y, with broadcasting and type promotion.  d(x y) = y dx + x dy."""
    result = binary(MUL, input, other)
    return result if out is None else into("mul", out, result)


MUL = Op("mul", lambda xp, x, y: x * y, kind=MULTILINEAR,
         x=lambda xp, g, y: g * y.conj(),
         y=lambda xp, g, x: g * x.conj(),
         samples=pairs(), complex=True)  # fmt: skip


def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x."""
    if input._data.dtype.kind == "b":
        raise RuntimeError("neg: Negation, the `-` operator, on a bool tensor is not supported. Use ~ (logical_not) instead.")
    result = unary(NEG, input)
    return result if out is None else into("neg", out, result)


NEG = Op("neg", lambda xp, x: -x, kind=ELEMENTWISE, x=lambda xp, g: -g, samples=points(), complex=True)


class ArithmeticMethods:
    """Methods of Tensor."""

    __slots__ = ()
    add = __add__ = __radd__ = add
    mul = multiply = __mul__ = __rmul__ = mul
    neg = negative = __neg__ = neg
    add_ = __iadd__ = in_place(add)
    mul_ = multiply_ = __imul__ = in_place(mul)
    neg_ = negative_ = in_place(neg)
