"""Fused arithmetic: a sum with a product or quotient, and interpolation between two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, number_first
from ferro.core.base import TensorBase
from ferro.core.inplace import in_place
from ferro.core.into import applied_into, into
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import operands, promote
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["addcdiv", "addcmul", "lerp"]


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
    return applied_into("addcmul", out, ADDCMUL, tuple(xs), (value,))


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
    return applied_into("addcdiv", out, ADDCDIV, tuple(promote(x, y, z)), (value,))


ADDCDIV = Op(
    "addcdiv",
    lambda xp, x, y, z, /, value: xp.addcdiv(x, y, z, value),
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
    lambda xp, x, y, /, w: xp.lerp_number(x, y, w),
    kind=ELEMENTWISE,
    x=lambda xp, g, w: g * (1 - w).conjugate(),
    y=lambda xp, g, w: g * w.conjugate(),
    layout=ITERATED,
)


def _fused(op: Op) -> Callable[..., tuple | None]:
    """What an in-place form applies to tensors as they are, and a number."""

    def applied(self: Any, tensor1: Any, tensor2: Any, *old: Any, value: Any = 1) -> tuple | None:
        return (op, (self, tensor1, tensor2), (value,)) if not old and type(value) in (int, float) else None

    return applied


def _lerp_in_place(self: Any, end: Any, weight: Any) -> tuple:
    number = type(weight) in (int, float)
    return (LERP_SCALAR, (self, end), (weight,)) if number else (LERP, (self, end, weight), ())


class FusedArithmeticMethods:
    """Methods of Tensor."""

    __slots__ = ()
    addcmul = addcmul
    addcmul_ = in_place(addcmul, applied=_fused(ADDCMUL))
    addcdiv = addcdiv
    addcdiv_ = in_place(addcdiv, applied=_fused(ADDCDIV))
    lerp = lerp
    lerp_ = in_place(lerp, applied=_lerp_in_place)
