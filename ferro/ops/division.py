"""Quotients, exact and rounded, and reciprocals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, binary, unary
from ferro.core.base import TensorBase
from ferro.core.inplace import augmented, in_place
from ferro.core.into import binary_into, into, unary_into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import operands, promote
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, binary_samples, unary_samples
from ferro.ops.arithmetic import operator

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["div", "divide", "reciprocal", "reciprocal_", "true_divide"]


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """x / y, with broadcasting and type promotion. d(x / y) = (dx - (x / y) dy) / y.

    - `input` (Tensor): x
    - `other` (Tensor or number): y
    - `rounding_mode` (str, default None): "trunc" rounds the quotient towards zero, "floor" down; integers then stay
      integers, and the derivative is zero
    - `out` (Tensor, default None): where to write the result

    Without rounding, integers are divided as floating numbers of the default dtype. x / 0 is inf, -inf or nan. The
    result has the broadcast shape. RuntimeError for shapes that do not broadcast, another rounding mode and rounded
    integers divided by 0.

    Example::

        >>> import ferro
        >>> ferro.div(ferro.tensor([7, -7]), 2), ferro.div(ferro.tensor([7, -7]), 2, rounding_mode="floor")
        (tensor([ 3.5000, -3.5000]), tensor([ 3, -4]))
    """
    if rounding_mode is not None:
        return into("div", out, rounded_quotient(input, other, rounding_mode), input, other)
    return binary(DIV, input, other) if out is None else binary_into("div", out, DIV, input, other)


DIV = Op(
    "div",
    lambda xp, x, y: x / y,
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, y: g / y.conj(),
    y=lambda xp, g, y, out: -(g * (out / y).conj()),
    samples=[
        *binary_samples(low2=0.5, high2=2.0),
        *[
            Sample(Arg(2, 3, low=-6, high=6), y, rounding_mode=mode, complex=False)
            for mode in ("trunc", "floor")
            for y in (Arg(3, low=0.7, high=2.0), -1.7)
        ],
        *[Sample(Arg(values=[x]), Arg(values=[0.0]), smooth=False, complex=False) for x in (1.0, 0.0, -1.0)],
    ],
    complex=True,
)


def some_tensor(name: str, x: Any, y: Any) -> None:
    """Refuses two numbers: an operation on tensors needs at least one."""
    if not isinstance(x, TensorBase) and not isinstance(y, TensorBase):
        raise TypeError(f"{name}: one of the operands must be a Tensor, got {type(x).__name__} and {type(y).__name__}")


def rounded_quotient(input: Any, other: Any, mode: str) -> Any:
    """The quotient rounded towards zero or down; RuntimeError for an integer division by zero."""
    if mode not in ("trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {mode!r}")
    return divided(DIV_TRUNC if mode == "trunc" else DIV_FLOOR, input, other, "div")


def divided(op: Op, x: Any, y: Any, name: str = "") -> Any:
    """An operation that divides by y, after promotion; RuntimeError for an integer division by zero."""
    if isinstance(x, TensorBase):
        kind = x._data.dtype.kind
        if isinstance(y, TensorBase):
            plain = kind == "f" and y._data.dtype is x._data.dtype
        else:  # (small enough for every dtype)
            plain = type(y) is int and kind in "iuf" and 0 < y < 128
        if plain:
            return binary(op, x, y)
    name = name or op.name
    x, y = promote(*operands(name, x, y))
    no_zero_division(name, x, y)
    return apply(op, (x, y))


def no_zero_division(name: str, x: Any, y: Any) -> None:
    """Refuses complex and bool operands, and integer division by zero."""
    kind = y._data.dtype.kind
    if kind in "bc":
        raise NotImplementedError(f"{name}: not defined for {y.dtype} tensors")
    if kind in "iu":
        require(y._data != 0, RuntimeError, f"ZeroDivisionError: {name}: integer division by zero")


DIV_TRUNC = Op(
    "div_trunc",
    lambda xp, x, y: xp.div_trunc(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g: xp.zeros_like(g),
    y=lambda xp, g: xp.zeros_like(g),
)
DIV_FLOOR = Op(
    "div_floor",
    lambda xp, x, y: xp.div_floor(x, y),
    kind=ELEMENTWISE,
    x=lambda xp, g: xp.zeros_like(g),
    y=lambda xp, g: xp.zeros_like(g),
)


def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / x.  d(1 / x) = -dx / x²."""
    return unary(RECIPROCAL, input) if out is None else unary_into("reciprocal", out, RECIPROCAL, input)


RECIPROCAL = Op(
    "reciprocal",
    lambda xp, x: xp.reciprocal(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: -(g * (out * out).conj()),
    samples=unary_samples(0.3, 2.0),
    complex=True,
)


divide = true_divide = div
reciprocal_ = in_place(reciprocal, op=RECIPROCAL)


class DivisionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    div = divide = true_divide = div
    div_ = divide_ = true_divide_ = in_place(div, op=DIV)
    reciprocal = reciprocal
    __truediv__ = __div__ = operator(DIV)
    __rtruediv__ = __rdiv__ = operator(DIV, swapped=True)
    __itruediv__ = __idiv__ = augmented(div_)
    reciprocal_ = reciprocal_
