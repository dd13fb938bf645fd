"""Arithmetic: sums, differences, products and signs; powers are in exponential.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply, binary, unary
from ferro.core.arguments import need_tensor, number_first
from ferro.core.base import TensorBase
from ferro.core.inplace import augmented, in_place
from ferro.core.into import binary_into, unary_into
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, LINEAR, MULTILINEAR, Op
from ferro.core.operands import NUMBERS, SCALING, constant, in_single, is_held, of_array
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, binary_samples, declare, unary_samples
from ferro.core.writes import FLOATS

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "add",
    "mul",
    "multiply",
    "neg",
    "neg_",
    "negative",
    "negative_",
    "positive",
    "rsub",
    "square",
    "square_",
    "sub",
    "subtract",
]


def operator(op: Op, swapped: bool = False) -> Callable[[Any, Any], Tensor]:
    """The special method (``__truediv__``, or swapped ``__rtruediv__``) of an operation of two tensors.

    What is neither tensor, number nor array gets NotImplemented, so that the other operand may know better.
    """

    def forward(self: Any, other: Any) -> Any:
        try:
            return binary(op, self, other)
        except TypeError:
            if isinstance(other, np.ndarray):
                return binary(op, self, of_array(op.name, other))
            if isinstance(other, (TensorBase, *NUMBERS)):
                raise
            return NotImplemented

    def reverse(self: Any, other: Any) -> Any:
        if isinstance(other, NUMBERS):
            dtype = self._data.dtype
            if (
                dtype in dtypes.HALF
                and op.name in SCALING
                and not isinstance(other, complex)
                and not is_held(other, dtype)
            ):
                return in_single(lambda x: reverse(x, other), self)
            other = number_beside(other, self)
        try:
            return binary(op, other, self)
        except TypeError:
            if isinstance(other, np.ndarray):
                return binary(op, of_array(op.name, other), self)
            return NotImplemented

    method = reverse if swapped else forward
    method.__doc__ = f"The operator form of :func:`{op.name}`{', operands exchanged' * swapped}."
    return method


def number_beside(number: Any, x: Any) -> Any:
    """A number as a 0-d tensor of the dtype that it takes beside the tensor x."""
    dtype = x._data.dtype
    kind = type(number)
    if dtype not in dtypes.INEXACT or (kind is not float and kind is not int):
        dtype = dtypes.result_np([x._data, number])
    return constant(number, dtype)


def scaled(name: str, input: Any, other: Any, alpha: Any) -> Any:
    """alpha times the second operand, in the dtype that it has together with the first."""
    dtype = dtypes.FROM_NUMPY[dtypes.result_np([getattr(v, "_data", v) for v in (input, other)])]
    if isinstance(alpha, bool) and dtype is not dtypes.bool_:
        raise RuntimeError(f"{name}: Boolean alpha only supported for Boolean results. The result here is {dtype}")
    if isinstance(alpha, float) and dtype.category < 2:
        raise RuntimeError(
            f"{name}: For integral input tensors, argument alpha must not be a floating point number. It is {alpha}, for {dtype}"
        )
    if isinstance(alpha, complex) and dtype.category < 3:
        raise RuntimeError(
            f"{name}: For non-complex input tensors, argument alpha must not be a complex number. It is {alpha}, for {dtype}"
        )
    dtypes.check_number(name, -alpha if name == "sub" else alpha, dtype.np)
    if isinstance(other, NUMBERS):
        return other and bool(alpha) if dtype is dtypes.bool_ else other * alpha
    if dtype is dtypes.bool_:
        alpha = bool(alpha)
    return mul(other if other._data.dtype is dtype.np else apply(CAST, (other,), (dtype.np,)), alpha)


def add(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """x + alpha y, with broadcasting and type promotion. d(x + a y) = dx + a dy.

    - `input` (Tensor): x
    - `other` (Tensor or number): y
    - `*old` (Any): the order of older programs, add(input, alpha, other): deprecated
    - `alpha` (number, default 1): a factor
    - `out` (Tensor, default None): where to write the result

    The result has the broadcast shape. RuntimeError for shapes that do not broadcast and a floating alpha of integers.

    Example::

        >>> import ferro
        >>> ferro.add(ferro.tensor([1.0, 2.0]), 10, alpha=2)
        tensor([21., 22.])
    """
    if old:
        alpha, other = number_first("add", "alpha", ("other",), other, *old)
    if alpha != 1 or type(alpha) is not int:
        call = _times_alpha(input, other, alpha)
        if call is not None and out is None:
            return apply(*call)
        other = scaled("add", input, other, alpha)
    return binary(ADD, input, other) if out is None else binary_into("add", out, ADD, input, other)


ADD = Op(
    "add",
    lambda xp, x, y: x + y,
    kind=LINEAR,
    x=lambda xp, g: g,
    y=lambda xp, g: g,
    samples=[
        *binary_samples(),
        Sample(Arg(2, 3), Arg(2, 3), alpha=2),
        Sample(Arg(2, 3), Arg(3), alpha=2),
        Sample(Arg(2, 3), 3, alpha=0.5),
    ],
    complex=True,
    layout=ITERATED,
)


# A sum with a factor, of floats of one dtype: what a step of gradient descent is.
ADD_SCALED = Op(
    "add_scaled",
    lambda xp, x, y, /, alpha: xp.add_scaled(x, y, alpha),
    kind=LINEAR,
    x=lambda xp, g: g,
    y=lambda xp, g, alpha: g * alpha,
    layout=ITERATED,
)
ADD_SCALED.backward_name = "AddBackward0"  # as in PyTorch


def _times_alpha(x: Any, y: Any, alpha: Any) -> tuple | None:
    """x + alpha y as an operation, its inputs and parameters, where they are floats of one dtype and shape; else None."""
    if not (isinstance(x, TensorBase) and isinstance(y, TensorBase) and type(alpha) in (float, int)):
        return None
    a, b = x._data, y._data
    if (
        a.dtype not in FLOATS or a.dtype is not b.dtype or a.shape != b.shape
    ):  # (so errors name `add`, which looks at them)
        return None
    return ADD_SCALED, (x, y), (float(alpha),)


def _add_in_place(self: Any, other: Any, *old: Any, alpha: Any = 1) -> tuple | None:
    return None if old else _times_alpha(self, other, alpha)


def _sub_in_place(self: Any, other: Any, *old: Any, alpha: Any = 1) -> tuple | None:
    return None if old else _times_alpha(self, other, -alpha if type(alpha) in (float, int) else alpha)


def sub(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """x - alpha y, with broadcasting and type promotion. d(x - a y) = dx - a dy.

    - `input` (Tensor): x
    - `other` (Tensor or number): y
    - `*old` (Any): the order of older programs, sub(input, alpha, other): deprecated
    - `alpha` (number, default 1): a factor
    - `out` (Tensor, default None): where to write the result

    The result has the broadcast shape. RuntimeError for shapes that do not broadcast, for bool tensors and a floating
    alpha of integers.

    Example::

        >>> import ferro
        >>> ferro.sub(ferro.tensor([5.0, 6.0]), ferro.tensor([1.0, 2.0]), alpha=2)
        tensor([3., 2.])
    """
    if old:
        alpha, other = number_first("sub", "alpha", ("other",), other, *old)
    no_bools("sub", input, other)
    if alpha != 1 or type(alpha) is not int:
        other = scaled("sub", input, other, alpha)
    return binary(SUB, input, other) if out is None else binary_into("sub", out, SUB, input, other)


SUB = Op(
    "sub",
    lambda xp, x, y: x - y,
    kind=LINEAR,
    x=lambda xp, g: g,
    y=lambda xp, g: -g,
    samples=[*binary_samples(), Sample(Arg(2, 3), Arg(3), alpha=2)],
    complex=True,
    layout=ITERATED,
)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """y - alpha x: `sub` with the operands exchanged."""
    no_bools("rsub", need_tensor("rsub", "input", input), other)
    return binary(SUB, other, input if alpha == 1 and type(alpha) is int else scaled("rsub", other, input, alpha))


declare("rsub", [*binary_samples(), Sample(Arg(2, 3), Arg(3), alpha=2)], complex=True)


BOOL = dtypes.bool_.np


def no_bools(name: str, x: Any, y: Any) -> None:
    """Refuses a difference with a truth value, which has no meaning that everybody would guess."""
    bools = [v._data.dtype is BOOL if isinstance(v, TensorBase) else isinstance(v, bool) for v in (x, y)]
    if any(bools):
        said = (
            "two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            if all(bools)
            else "a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator "
            "instead."
        )
        raise RuntimeError(f"{name}: Subtraction, the `-` operator, with {said}")


def difference(self: Any, other: Any) -> Tensor:
    """self - other."""
    try:
        if self._data.dtype is BOOL or other._data.dtype is BOOL:
            no_bools("sub", self, other)
    except AttributeError:
        no_bools("sub", self, other)
    try:
        return binary(SUB, self, other)
    except TypeError:
        if isinstance(other, np.ndarray):
            return binary(SUB, self, of_array("sub", other))
        if isinstance(other, (TensorBase, *NUMBERS)):
            raise
        return NotImplemented


def swapped_difference(self: Any, other: Any) -> Tensor:
    """other - self."""
    if self._data.dtype is BOOL or type(other) is bool:
        no_bools("rsub", self, other)
    if isinstance(other, NUMBERS):
        other = number_beside(other, self)
    try:
        return binary(SUB, other, self)
    except TypeError:
        if isinstance(other, np.ndarray):
            return binary(SUB, of_array("sub", other), self)
        return NotImplemented


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x y, with broadcasting and type promotion. d(x y) = y dx + x dy.

    - `input` (Tensor): x
    - `other` (Tensor or number): y
    - `out` (Tensor, default None): where to write the result

    RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.mul(ferro.tensor([[1.0], [2.0]]), ferro.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    return binary(MUL, input, other) if out is None else binary_into("mul", out, MUL, input, other)


MUL = Op(
    "mul",
    lambda xp, x, y: x * y,
    kind=MULTILINEAR,
    x=lambda xp, g, y: g * y.conj(),
    y=lambda xp, g, x: g * x.conj(),
    samples=binary_samples(),
    complex=True,
    layout=ITERATED,
)


def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x; not defined for bool tensors."""
    if need_tensor("neg", "input", input)._data.dtype is BOOL:
        raise RuntimeError(
            "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    return unary(NEG, input) if out is None else unary_into("neg", out, NEG, input)


def negated(self: Any) -> Tensor:
    """-self."""
    return neg(self) if self._data.dtype is BOOL else unary(NEG, self)


NEG = Op("neg", lambda xp, x: -x, kind=ELEMENTWISE, x=lambda xp, g: -g, samples=unary_samples(), complex=True)


def positive(input: Tensor) -> Tensor:
    """x itself; not defined for bool tensors."""
    need_tensor("positive", "input", input)
    if input._data.dtype.kind == "b":
        raise RuntimeError(
            "positive: the `+` operator on a bool tensor is not supported; cast it to a number type first"
        )
    return input


declare("positive", unary_samples(), complex=True)


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x².  d x² = 2 x dx."""
    need_tensor("square", "input", input)
    if input._data.dtype.kind == "b":
        input = apply(CAST, (input,), (dtypes.int64.np,))
    return unary(SQUARE, input) if out is None else unary_into("square", out, SQUARE, input)


SQUARE = Op(
    "square",
    lambda xp, x: x * x,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * (x + x).conj(),
    samples=unary_samples(),
    complex=True,
)

subtract, multiply, negative = sub, mul, neg

# In-place forms that torch has as functions too.
neg_, square_ = map(in_place, (neg, square))
negative_ = neg_


class ArithmeticMethods:
    """Methods of Tensor."""

    __slots__ = ()
    add = add
    __add__, __radd__ = operator(ADD), operator(ADD)
    add_ = in_place(add, op=ADD, applied=_add_in_place)
    __iadd__ = augmented(add_)
    sub = subtract = sub
    __sub__, __rsub__ = difference, swapped_difference
    sub_ = subtract_ = in_place(sub, op=SUB, applied=_sub_in_place)
    __isub__ = augmented(sub_)
    mul = multiply = mul
    __mul__, __rmul__ = operator(MUL), operator(MUL)
    mul_ = multiply_ = in_place(mul, op=MUL)
    __imul__ = augmented(mul_)
    neg = negative = neg
    __neg__ = negated
    neg_ = negative_ = neg_
    positive = __pos__ = positive
    square = square
    square_ = square_
