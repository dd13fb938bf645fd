"""Arithmetic: sums, differences, products, quotients and their fused forms; powers are in exponential.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import dtypes
from ferro.core.apply import (
    NUMBERS,
    SCALING,
    apply,
    binary,
    constant,
    in_single,
    is_held,
    of_array,
    operands,
    promote,
    unary,
)
from ferro.core.arguments import into, need_tensor, number_first
from ferro.core.base import TensorBase
from ferro.core.inplace import augmented, in_place
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, LINEAR, MULTILINEAR, Op
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, binary_samples, declare, unary_samples

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["add", "addcdiv", "addcmul", "div", "divide", "lerp", "mul", "multiply", "neg", "neg_", "negative",
           "negative_", "positive", "reciprocal", "reciprocal_", "rsub", "square", "square_", "sub", "subtract",
           "true_divide"]  # fmt: skip


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
        other = scaled("add", input, other, alpha)
    result = binary(ADD, input, other)
    return result if out is None else into("add", out, result, input, other)


ADD = Op(
    "add",
    lambda xp, x, y: x + y,
    kind=LINEAR,
    x=lambda xp, g: g,
    y=lambda xp, g: g,
    samples=[*binary_samples(), Sample(Arg(2, 3), Arg(3), alpha=2), Sample(Arg(2, 3), 3, alpha=0.5)],
    complex=True,
    layout=ITERATED,
)


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
    result = binary(SUB, input, other)
    return result if out is None else into("sub", out, result, input, other)


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
    result = binary(MUL, input, other)
    return result if out is None else into("mul", out, result, input, other)


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
        result = rounded_quotient(input, other, rounding_mode)
    else:
        result = binary(DIV, input, other)
    return result if out is None else into("div", out, result, input, other)


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
    x, y = promote(*operands("div", input, other))
    no_zero_division("div", x, y)
    return apply(DIV_TRUNC if mode == "trunc" else DIV_FLOOR, (x, y))


def no_zero_division(name: str, x: Any, y: Any) -> None:
    """Refuses complex and bool operands, and integer division by zero."""
    kind = y._data.dtype.kind
    if kind in "bc":
        raise NotImplementedError(f"{name}: not defined for {y.dtype} tensors")
    if kind in "iu" and not plain(y._data).all():
        raise RuntimeError(f"ZeroDivisionError: {name}: integer division by zero")


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
    result = unary(RECIPROCAL, input)
    return result if out is None else into("reciprocal", out, result, input)


RECIPROCAL = Op(
    "reciprocal",
    lambda xp, x: xp.reciprocal(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: -(g * (out * out).conj()),
    samples=unary_samples(0.3, 2.0),
    complex=True,
)


def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x; not defined for bool tensors."""
    if need_tensor("neg", "input", input)._data.dtype is BOOL:
        raise RuntimeError(
            "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    result = unary(NEG, input)
    return result if out is None else into("neg", out, result, input)


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
    result = unary(SQUARE, input)
    return result if out is None else into("square", out, result, input)


SQUARE = Op(
    "square",
    lambda xp, x: x * x,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * (x + x).conj(),
    samples=unary_samples(),
    complex=True,
)


def addcmul(input: Tensor, tensor1: Any, tensor2: Any, *old: Any, value: Any = 1, out: Tensor | None = None) -> Tensor:
    """x + value y z, with broadcasting.

    - `input`, `tensor1`, `tensor2` (Tensor): x, y and z
    - `*old` (Any): the order of older programs, the number first: deprecated
    - `value` (number, default 1): a factor
    - `out` (Tensor, default None): where to write the result

    RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.addcmul(ferro.ones(2), ferro.tensor([1.0, 2.0]), ferro.tensor([3.0, 4.0]), value=10)
        tensor([31., 81.])
    """
    if old:
        value, tensor1, tensor2 = number_first("addcmul", "value", ("tensor1", "tensor2"), tensor1, tensor2, *old)
    xs = promote(*operands("addcmul", input, tensor1, tensor2))
    result = apply(ADDCMUL, tuple(xs), (value,))
    return result if out is None else into("addcmul", out, result, input, tensor1, tensor2)


FUSED = [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), (3, 1)), ((), (2,), ()), ((0,), (1,), (1,))]

ADDCMUL = Op(
    "addcmul",
    lambda xp, x, y, z, /, value: xp.addcmul(x, y, z, value),
    kind=ELEMENTWISE,
    x=lambda xp, g: g,
    y=lambda xp, g, z, value: g * (z if value == 1 else z * value).conj(),
    z=lambda xp, g, y, value: g * (y if value == 1 else y * value).conj(),
    samples=[Sample(*[Arg(*s) for s in shapes], value=v) for shapes in FUSED for v in (1, 0.5)],
    complex=True,
)


def addcdiv(input: Tensor, tensor1: Any, tensor2: Any, *old: Any, value: Any = 1, out: Tensor | None = None) -> Tensor:
    """x + value y / z, with broadcasting; y and z may not both be integers.

    - `input`, `tensor1`, `tensor2` (Tensor): x, y and z
    - `*old` (Any): the order of older programs, the number first: deprecated
    - `value` (number, default 1): a factor
    - `out` (Tensor, default None): where to write the result

    RuntimeError for shapes that do not broadcast and for two integer tensors.

    Example::

        >>> import ferro
        >>> ferro.addcdiv(ferro.ones(2), ferro.tensor([1.0, 6.0]), ferro.tensor([2.0, 4.0]), value=2)
        tensor([2., 4.])
    """
    if old:
        value, tensor1, tensor2 = number_first("addcdiv", "value", ("tensor1", "tensor2"), tensor1, tensor2, *old)
    x, y, z = operands("addcdiv", input, tensor1, tensor2)
    if y._data.dtype.kind in "biu" and z._data.dtype.kind in "biu":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of "
            "tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))"
            ".to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
            "behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    result = apply(ADDCDIV, tuple(promote(x, y, z)), (value,))
    return result if out is None else into("addcdiv", out, result, input, tensor1, tensor2)


ADDCDIV = Op(
    "addcdiv",
    lambda xp, x, y, z, /, value: x + y / z * xp.typed(value, x),
    kind=ELEMENTWISE,
    x=lambda xp, g: g,
    y=lambda xp, g, z, value: g * (value / z).conj(),
    z=lambda xp, g, y, z, value: -(g * (y / z / z * value).conj()),
    samples=[Sample(Arg(*a), Arg(*b), Arg(*c, low=0.5), value=v) for a, b, c in FUSED for v in (1, 0.5)],
    complex=True,
)


def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """x + w (y - x), the point at w on the way from x to y; exact at both ends.

    - `input`, `end` (Tensor): x and y, of one dtype
    - `weight` (Tensor or number): w; may lie outside of [0, 1]
    - `out` (Tensor, default None): where to write the result

    The result has the broadcast shape. RuntimeError for shapes that do not broadcast and dtypes that differ.

    Example::

        >>> import ferro
        >>> ferro.lerp(ferro.tensor([0.0, 10.0]), ferro.tensor([1.0, 20.0]), 0.25)
        tensor([ 0.2500, 12.5000])
    """
    for argument, t in (("input", input), ("end", end)):
        need_tensor("lerp", argument, t)
    for argument, t in (("end", end), ("weight", weight)):
        if isinstance(t, TensorBase) and t._data.dtype is not input._data.dtype:
            found = dtypes.FROM_NUMPY[t._data.dtype]
            raise RuntimeError(f"lerp: expected dtype {input.dtype} for `{argument}`, as for input, but got {found}")
    if input._data.dtype not in dtypes.INEXACT:
        raise NotImplementedError(
            f"lerp: defined for floating-point and complex tensors, not for {input.dtype}; cast the operands first"
        )
    if (
        input._data.dtype in dtypes.HALF
    ):  # in float32: a weight of 70000 is no number of half precision, the result may be
        wide = [
            apply(CAST, (t,), (dtypes.float32.np,)) if isinstance(t, TensorBase) else t for t in (input, end, weight)
        ]
        result = apply(CAST, (lerp(*wide),), (input._data.dtype,))
    elif isinstance(weight, TensorBase):
        result = apply(LERP, (input, end, weight))
    else:
        result = apply(LERP_SCALAR, (input, end), (weight,))
    return result if out is None else into("lerp", out, result, input, end, weight)


LERP = Op(
    "lerp",
    lambda xp, x, y, w: xp.lerp(x, y, w),
    kind=ELEMENTWISE,
    x=lambda xp, g, w: g * (1 - w).conj(),
    y=lambda xp, g, w: g * w.conj(),
    w=lambda xp, g, x, y: g * (y - x).conj(),
    samples=[
        *[Sample(Arg(*a), Arg(*b), Arg(*c, low=0, high=1)) for a, b, c in FUSED],
        *[Sample(Arg(3, 4), Arg(4), w) for w in (0.25, 0.75, 0, 1)],
    ],
    complex=True,
)
LERP_SCALAR = Op(
    "lerp_scalar",
    lambda xp, x, y, /, w: xp.lerp(x, y, xp.typed(w, x)),
    kind=ELEMENTWISE,
    x=lambda xp, g, w: g * (1 - w).conjugate(),
    y=lambda xp, g, w: g * w.conjugate(),
    layout=ITERATED,
)

subtract, multiply, divide, true_divide, negative = sub, mul, div, div, neg

# In-place forms that torch has as functions too.
neg_, reciprocal_, square_ = map(in_place, (neg, reciprocal, square))
negative_ = neg_


class ArithmeticMethods:
    """Methods of Tensor."""

    __slots__ = ()
    add = add
    __add__, __radd__ = operator(ADD), operator(ADD)
    add_ = in_place(add)
    __iadd__ = augmented(add_)
    sub = subtract = sub
    __sub__, __rsub__ = difference, swapped_difference
    sub_ = subtract_ = in_place(sub)
    __isub__ = augmented(sub_)
    mul = multiply = mul
    __mul__, __rmul__ = operator(MUL), operator(MUL)
    mul_ = multiply_ = in_place(mul)
    __imul__ = augmented(mul_)
    div = divide = true_divide = div
    __truediv__ = __div__ = operator(DIV)
    __rtruediv__ = __rdiv__ = operator(DIV, swapped=True)
    div_ = divide_ = true_divide_ = in_place(div)
    __itruediv__ = __idiv__ = augmented(div_)
    reciprocal = reciprocal
    reciprocal_ = reciprocal_
    neg = negative = neg
    __neg__ = negated
    neg_ = negative_ = neg_
    positive = __pos__ = positive
    square = square
    square_ = square_
    addcmul = addcmul
    addcmul_ = in_place(addcmul)
    addcdiv = addcdiv
    addcdiv_ = in_place(addcdiv)
    lerp = lerp
    lerp_ = in_place(lerp)
