"""Rounding, remainders and quotients, and divisors of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import augmented, in_place
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import of_array, promote
from ferro.core.origins import on_one_device
from ferro.core.samples import Arg, Sample, declare, singular, unary_samples
from ferro.ops.division import divided, rounded_quotient, some_tensor

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "ceil",
    "ceil_",
    "fix",
    "fix_",
    "floor",
    "floor_",
    "floor_divide",
    "fmod",
    "frac",
    "frac_",
    "gcd",
    "gcd_",
    "lcm",
    "lcm_",
    "remainder",
    "round",
    "round_",
    "trunc",
    "trunc_",
]


INF, NAN = float("inf"), float("nan")


# -- rounding ----------------------------------------------------------------------------------------------------------


def rounded(op: Op, x: Any, out: Any) -> Any:
    """A rounding operation: integers are round already; bool and complex tensors are refused."""
    kind = need_tensor(op.name, "input", x)._data.dtype.kind
    if kind in "bc":
        raise NotImplementedError(f"{op.name}: not defined for {x.dtype} tensors")
    return into(op.name, out, wrap(x._data.copy()) if kind in "iu" else unary(op, x), x)


HALVES = unary_samples(-2, 2, -2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, NAN, INF, smooth=False)


def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest integer ≤ x.  The derivative is 0."""
    return rounded(FLOOR, input, out)


FLOOR = Op("floor", lambda xp, x: xp.floor(x), kind=ELEMENTWISE, x=lambda xp, g: xp.zeros_like(g), samples=HALVES)


def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least integer ≥ x.  The derivative is 0."""
    return rounded(CEIL, input, out)


CEIL = Op("ceil", lambda xp, x: xp.ceil(x), kind=ELEMENTWISE, x=lambda xp, g: xp.zeros_like(g), samples=HALVES)


def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x rounded towards zero.  The derivative is 0."""
    return rounded(TRUNC, input, out)


TRUNC = Op("trunc", lambda xp, x: xp.trunc(x), kind=ELEMENTWISE, x=lambda xp, g: xp.zeros_like(g), samples=HALVES)


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """x rounded to a multiple of 10^-decimals, halves to the even neighbour.  The derivative is 0."""
    kind = need_tensor("round", "input", input)._data.dtype.kind
    if kind in "bc" or (kind in "iu" and decimals):
        raise NotImplementedError(
            f"round: not defined for {input.dtype} tensors{' with decimals' if kind in 'iu' else ''}"
        )
    result = wrap(input._data.copy()) if kind in "iu" else unary(ROUND, input, (decimals,))
    return result if out is None else into("round", out, result, input)


ROUND = Op(
    "round",
    lambda xp, x, /, decimals: xp.round(x, decimals),
    kind=ELEMENTWISE,
    x=lambda xp, g: xp.zeros_like(g),
    samples=[*HALVES, Sample(Arg(3, 4), decimals=1), Sample(Arg(3, low=-90, high=90), decimals=-1)],
)


def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x - trunc x.  The derivative is 1."""
    result = unary(FRAC, floating_only("frac", input))
    return result if out is None else into("frac", out, result, input)


FRAC = Op(
    "frac",
    lambda xp, x: xp.frac(x),
    kind=ELEMENTWISE,
    x=lambda xp, g: g,
    samples=unary_samples(-2, 2, 0.0, 1.0, -1.0, smooth=False),
)


def floating_only(name: str, x: Any) -> Any:
    """The argument, which must be a real floating tensor."""
    dtype = need_tensor(name, "input", x)._data.dtype
    if dtype not in dtypes.INEXACT or dtype.kind == "c":
        raise NotImplementedError(f"{name}: defined for floating-point tensors, not for {x.dtype}")
    return x


# -- quotients and remainders ------------------------------------------------------------------------------------------


def floor_divide(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """⌊x / y⌋; integers stay integers, and dividing them by 0 is an error.  The derivative is 0."""
    result = rounded_quotient(input, other, "floor")
    return result if out is None else into("floor_divide", out, result, input, other)


QUOTIENTS = [
    Sample(Arg(3, 4, low=-6, high=6), Arg(4, low=0.7, high=2.0)),
    Sample(Arg(3, low=-6, high=6), -1.7),
    Sample(Arg(4, dtype="int64", low=-9, high=9), Arg(4, dtype="int64", low=1, high=4)),
    Sample(Arg(4, dtype="int64", low=-9, high=9), -2),
    Sample(Arg(values=[1.0, 0.0, -1.0]), 0.0, smooth=False),
]
declare("floor_divide", QUOTIENTS, differentiable=False)


def fmod(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x - y trunc(x / y): the remainder with the sign of x. d = dx - trunc(x / y) dy.

    - `input` (Tensor): x
    - `other` (Tensor or number): y
    - `out` (Tensor, default None): where to write the result

    Integers divided by 0 raise RuntimeError, floating numbers give nan.

    Example::

        >>> import ferro
        >>> ferro.fmod(ferro.tensor([-5, 5]), 3)
        tensor([-2,  2])
    """
    result = divided(FMOD, need_tensor("fmod", "input", input), other)
    return result if out is None else into("fmod", out, result, input, other)


MODULI = [
    *QUOTIENTS,
    Sample(Arg(values=[5.0, 5.0, -5.0, -5.0]), Arg(values=[3.0, -3.0, 3.0, -3.0])),
    Sample(Arg(), Arg(2, low=0.5)),
]

FMOD = Op(
    "fmod",
    lambda xp, x, y: xp.fmod(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g: g,
    y=lambda xp, g, x, y: -(g * xp.trunc(x / y)),
    samples=MODULI,
)
singular(
    "fmod",
    "a multiple of the divisor",
    Sample(Arg(values=[4.0]), Arg(values=[2.0])),
    "the slopes of the piece on the right, as everywhere",
)


def remainder(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x - y ⌊x / y⌋: the remainder with the sign of y, as Python's %. d = dx - ⌊x / y⌋ dy.

    - `input` (Tensor or number): x
    - `other` (Tensor or number): y
    - `out` (Tensor, default None): where to write the result

    Integers divided by 0 raise RuntimeError, floating numbers give nan.

    Example::

        >>> import ferro
        >>> ferro.remainder(ferro.tensor([-5, 5]), 3)
        tensor([1, 2])
    """
    some_tensor("remainder", input, other)
    result = divided(REMAINDER, input, other)
    return result if out is None else into("remainder", out, result, input, other)


REMAINDER = Op(
    "remainder",
    lambda xp, x, y: xp.remainder(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g: g,
    y=lambda xp, g, x, y: -(g * xp.floor_divide(x, y)),
    samples=[*MODULI, Sample(5, Arg(values=[2, 3], dtype="int64"))],
)


# -- divisors ----------------------------------------------------------------------------------------------------------


def _divisor(name: str, input: Any, other: Any) -> Any:
    x, y = integers(name, input, other)
    return wrap(getattr(xp_of(x), name)(x, y))


def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor, ≥ 0, of integers."""
    return into("gcd", out, _divisor("gcd", input, other), input, other)


def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple, ≥ 0, of integers."""
    return into("lcm", out, _divisor("lcm", input, other), input, other)


def integers(name: str, x: Any, y: Any) -> list:
    """The arrays of two integer tensors, promoted."""
    on_one_device(name, need_tensor(name, "input", x), need_tensor(name, "other", y))
    found = promote(x, y)
    if found[0]._data.dtype.kind not in "iu":
        raise NotImplementedError(f"{name}: defined for integer tensors, not for {found[0].dtype}")
    return [t._data for t in found]


for _name in ("gcd", "lcm"):
    declare(
        _name,
        [
            Sample(Arg(3, 4, dtype="int64", low=-20, high=20), Arg(4, dtype="int64", low=-20, high=20)),
            Sample(Arg(3, dtype="int32", low=0, high=9), Arg(1, dtype="int64", low=0, high=9)),
        ],
        differentiable=False,
    )

fix = trunc


def arithmetic_operator(function: Any, swapped: bool = False) -> Callable[[Any, Any], Tensor]:
    """The special method (``__mod__``, or swapped ``__rmod__``) of a function of two operands."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            other = of_array(function.__name__, other)
        elif not isinstance(other, (TensorBase, int, float, complex, np.generic)):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return method


# In-place forms that torch has as functions too.
floor_, ceil_, trunc_, frac_ = map(in_place, (floor, ceil, trunc, frac))
round_ = in_place(round, applied=lambda self, *, decimals=0: (ROUND, (self,), (decimals,)))
gcd_, lcm_ = in_place(gcd), in_place(lcm)
fix_ = trunc_


class RoundingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    floor = floor
    floor_ = floor_
    ceil = ceil
    ceil_ = ceil_
    trunc = fix = trunc
    trunc_ = fix_ = trunc_
    round = round
    round_ = round_
    frac = frac
    frac_ = frac_
    floor_divide = floor_divide
    floor_divide_ = in_place(floor_divide)
    __ifloordiv__ = augmented(floor_divide_)
    __floordiv__ = arithmetic_operator(floor_divide)
    __rfloordiv__ = arithmetic_operator(floor_divide, swapped=True)
    fmod = fmod
    fmod_ = in_place(fmod)
    remainder = remainder
    remainder_ = in_place(remainder)
    __imod__ = augmented(remainder_)
    __mod__ = arithmetic_operator(remainder)
    __rmod__ = arithmetic_operator(remainder, swapped=True)
    gcd = gcd
    gcd_ = gcd_
    lcm = lcm
    lcm_ = lcm_
