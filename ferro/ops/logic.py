"""Logic of truth values and of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.apply import apply, binary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import augmented, in_place
from ferro.core.into import into
from ferro.core.layout import ITERATED
from ferro.core.op import Op
from ferro.core.operands import NUMBERS, of_array, operands, promote
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.comparison import NAN
from ferro.ops.division import some_tensor
from ferro.ops.number_tests import SPECIAL, _tested

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
           "logical_and", "logical_not", "logical_or", "logical_xor"]  # fmt: skip


TRUTHS = [
    Sample(Arg(2, 3), Arg(3, dtype="bool")),
    Sample(Arg(3, dtype="bool"), Arg(3, dtype="bool")),
    Sample(Arg(values=[0.0, 1.0, NAN]), Arg(values=[0.0, 0.0, 1.0])),
    Sample(Arg(), Arg(0, dtype="int64")),
]


def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where both are not zero."""
    return into("logical_and", out, apply(LOGICAL_AND, both_tensors("logical_and", input, other)), input, other)


def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where one of the two or both are not zero."""
    return into("logical_or", out, apply(LOGICAL_OR, both_tensors("logical_or", input, other)), input, other)


def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where exactly one of the two is not zero."""
    return into("logical_xor", out, apply(LOGICAL_XOR, both_tensors("logical_xor", input, other)), input, other)


def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where x = 0."""
    result = _tested("logical_not", input)
    if out is not None and out._data.dtype.kind != "b":  # PyTorch writes the bools as numbers
        result = wrap(result._data.astype(out._data.dtype))
    return into("logical_not", out, result, input)


def both_tensors(name: str, x: Any, y: Any) -> tuple:
    """The two operands, which must be tensors; they may differ in dtype."""
    return need_tensor(name, "input", x), need_tensor(name, "other", y)


LOGICAL_AND = Op("logical_and", lambda xp, x, y: xp.logical_and(x, y), layout=ITERATED)
LOGICAL_OR = Op("logical_or", lambda xp, x, y: xp.logical_or(x, y), layout=ITERATED)
LOGICAL_XOR = Op("logical_xor", lambda xp, x, y: xp.logical_xor(x, y), layout=ITERATED)
for _name in ("logical_and", "logical_or", "logical_xor"):
    declare(_name, TRUTHS, complex=True, differentiable=False)
declare("logical_not", SPECIAL, complex=True, differentiable=False)

BITS = [
    Sample(Arg(2, 3, dtype="int64", low=-9, high=9), Arg(3, dtype="int32", low=-9, high=9)),
    Sample(Arg(3, dtype="uint8", low=0, high=99), 5),
    Sample(Arg(3, dtype="bool"), Arg(2, 3, dtype="bool")),
    Sample(6, Arg(3, dtype="int16", low=0, high=9)),
]
SHIFTS = [
    Sample(Arg(2, 3, dtype="int64", low=-9, high=9), Arg(3, dtype="int64", low=0, high=4)),
    Sample(Arg(3, dtype="uint8", low=0, high=99), 2),
]


def bitwise_and(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits set in both integers; for bools the logical operation."""
    return into("bitwise_and", out, on_bits(BITWISE_AND, input, other), input, other)


def bitwise_or(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits set in one of the integers or both; for bools the logical operation."""
    return into("bitwise_or", out, on_bits(BITWISE_OR, input, other), input, other)


def bitwise_xor(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits in which the integers differ; for bools the logical operation."""
    return into("bitwise_xor", out, on_bits(BITWISE_XOR, input, other), input, other)


def bitwise_left_shift(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x 2ʸ for integers; bits shifted out are lost."""
    return into("bitwise_left_shift", out, on_bits(LEFT_SHIFT, input, other), input, other)


def bitwise_right_shift(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """⌊x / 2ʸ⌋ for integers."""
    return into("bitwise_right_shift", out, on_bits(RIGHT_SHIFT, input, other), input, other)


def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All bits inverted; for bools the logical not."""
    a = need_tensor("bitwise_not", "input", input)._data
    if a.dtype.kind not in "biu":
        raise NotImplementedError(f"bitwise_not: only defined for integer and bool tensors, got {input.dtype}")
    return into("bitwise_not", out, wrap(~a), input)


def on_bits(op: Op, x: Any, y: Any) -> Any:
    """An operation on integers (or bools, for the logical ones) after promotion."""
    if isinstance(x, TensorBase) and isinstance(y, TensorBase):
        dtype = x._data.dtype
        if dtype is y._data.dtype and (
            dtype.kind in "iu" or (dtype.kind == "b" and op not in (LEFT_SHIFT, RIGHT_SHIFT))
        ):
            return binary(op, x, y)
    elif type(y) is int and 0 <= y < 128 and isinstance(x, TensorBase) and x._data.dtype.kind in "iu":
        return binary(op, x, y)
    some_tensor(op.name, x, y)
    x, y = promote(*operands(op.name, x, y))
    kind = x._data.dtype.kind
    if kind not in "biu" or (kind == "b" and op in (LEFT_SHIFT, RIGHT_SHIFT)):
        raise NotImplementedError(
            f"{op.name}: not defined for {x.dtype}; the operands must be integers"
            f"{'' if op in (LEFT_SHIFT, RIGHT_SHIFT) else ' or bools'}"
        )
    return apply(op, (x, y))


BITWISE_AND = Op("bitwise_and", lambda xp, x, y: x & y, layout=ITERATED)
BITWISE_OR = Op("bitwise_or", lambda xp, x, y: x | y, layout=ITERATED)
BITWISE_XOR = Op("bitwise_xor", lambda xp, x, y: x ^ y, layout=ITERATED)
LEFT_SHIFT = Op("bitwise_left_shift", lambda xp, x, y: x << y, layout=ITERATED)
RIGHT_SHIFT = Op("bitwise_right_shift", lambda xp, x, y: x >> y, layout=ITERATED)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    declare(_name, BITS, differentiable=False)
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    declare(_name, SHIFTS, differentiable=False)
declare(
    "bitwise_not",
    [Sample(Arg(3, dtype="int64", low=-9, high=9)), Sample(Arg(3, dtype="bool")), Sample(Arg(0, dtype="uint8"))],
    differentiable=False,
)


def bit_operator(function: Any, swapped: bool = False) -> Callable[[Any, Any], Tensor]:
    """The special method (``__and__``, or swapped ``__rand__``) of a function on bits."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            other = of_array(function.__name__, other)
        elif not isinstance(other, (TensorBase, *NUMBERS, np.generic)):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return method


def inverted(self: Any) -> Tensor:
    """~self: all bits, or the truth value, inverted."""
    if self._data.dtype.kind not in "biu":
        raise TypeError(f"~ (operator.invert) is only implemented on integer and bool tensors, got {self.dtype}")
    return bitwise_not(self)


class LogicMethods:
    """Methods of Tensor."""

    __slots__ = ()
    logical_and, logical_or, logical_xor, logical_not = logical_and, logical_or, logical_xor, logical_not
    logical_and_, logical_or_, logical_xor_ = map(in_place, (logical_and, logical_or, logical_xor))
    logical_not_ = in_place(logical_not)
    bitwise_and, bitwise_or, bitwise_xor, bitwise_not = bitwise_and, bitwise_or, bitwise_xor, bitwise_not
    bitwise_and_, bitwise_or_, bitwise_xor_ = map(in_place, (bitwise_and, bitwise_or, bitwise_xor))
    bitwise_not_ = in_place(bitwise_not)
    bitwise_left_shift, bitwise_right_shift = bitwise_left_shift, bitwise_right_shift
    bitwise_left_shift_, bitwise_right_shift_ = in_place(bitwise_left_shift), in_place(bitwise_right_shift)
    __and__, __or__, __xor__ = bit_operator(bitwise_and), bit_operator(bitwise_or), bit_operator(bitwise_xor)
    __rand__, __ror__, __rxor__ = (
        bit_operator(bitwise_and, True),
        bit_operator(bitwise_or, True),
        bit_operator(bitwise_xor, True),
    )
    __lshift__, __rshift__ = bit_operator(bitwise_left_shift), bit_operator(bitwise_right_shift)
    __rlshift__, __rrshift__ = bit_operator(bitwise_left_shift, True), bit_operator(bitwise_right_shift, True)
    __iand__, __ior__, __ixor__ = map(augmented, (bitwise_and_, bitwise_or_, bitwise_xor_))
    __ilshift__, __irshift__ = augmented(bitwise_left_shift_), augmented(bitwise_right_shift_)
    __invert__ = inverted
