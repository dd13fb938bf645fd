"""Comparisons, tests of numbers, logic and bits, and choices between values: maximum, clamp, where."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import NUMBERS, apply, binary, constant, of_array, operands, promote, unary
from ferro.core.arguments import into, need_tensor, real_number, unlike
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import augmented, in_place
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, binary_samples, declare, singular, unary_samples
from ferro.ops.arithmetic import operator, some_tensor

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_",
           "eq", "equal", "fmax", "fmin", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite", "isinf",
           "isnan", "isneginf", "isposinf", "isreal", "le", "less", "less_equal", "logical_and", "logical_not",
           "logical_or", "logical_xor", "lt", "maximum", "minimum", "ne", "not_equal", "signbit",
           "where"]  # fmt: skip

INF, NAN = float("inf"), float("nan")
FLOAT32 = dtypes.float32.np

# -- comparisons -------------------------------------------------------------------------------------------------------

TIES = [
    *binary_samples(),
    Sample(Arg(values=[1.0, 2.0, NAN, INF]), Arg(values=[1.0, 1.0, NAN, INF])),
    Sample(Arg(3, dtype="int64"), 0.5),
    Sample(Arg(3, dtype="bool"), Arg(3, dtype="int64")),
]


def eq(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x = y, as bools."""
    result = binary(EQ, need_tensor("eq", "input", input), other)
    return result if out is None else into("eq", out, result, input, other)


EQ = Op("eq", lambda xp, x, y: x == y, layout=ITERATED)
declare("eq", TIES, complex=True, differentiable=False)


def ne(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x ≠ y, as bools; nan differs from everything."""
    result = binary(NE, need_tensor("ne", "input", input), other)
    return result if out is None else into("ne", out, result, input, other)


NE = Op("ne", lambda xp, x, y: x != y, layout=ITERATED)
declare("ne", TIES, complex=True, differentiable=False)


def lt(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x < y, as bools."""
    result = ordered(LT, input, other)
    return result if out is None else into("lt", out, result, input, other)


LT = Op("lt", lambda xp, x, y: x < y, layout=ITERATED)
declare("lt", TIES, differentiable=False)


def le(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x ≤ y, as bools."""
    result = ordered(LE, input, other)
    return result if out is None else into("le", out, result, input, other)


LE = Op("le", lambda xp, x, y: x <= y, layout=ITERATED)
declare("le", TIES, differentiable=False)


def gt(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x > y, as bools."""
    result = ordered(GT, input, other)
    return result if out is None else into("gt", out, result, input, other)


GT = Op("gt", lambda xp, x, y: x > y, layout=ITERATED)
declare("gt", TIES, differentiable=False)


def ge(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Where x ≥ y, as bools."""
    result = ordered(GE, input, other)
    return result if out is None else into("ge", out, result, input, other)


GE = Op("ge", lambda xp, x, y: x >= y, layout=ITERATED)
declare("ge", TIES, differentiable=False)

not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


def ordered(op: Op, x: Any, y: Any) -> Any:
    """A comparison by order, which complex numbers have not."""
    need_tensor(op.name, "input", x)
    if x._data.dtype.kind == "c" or isinstance(y, complex) or (isinstance(y, TensorBase) and y._data.dtype.kind == "c"):
        raise NotImplementedError(
            f"{op.name}: complex numbers have no order; compare their abs() or real and imaginary parts"
        )
    return binary(op, x, y)


def isclose(
    input: Tensor, other: Tensor, rtol: float | Tensor = 1e-05, atol: float | Tensor = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where |x - y| ≤ atol + rtol |y|, or x = y; with equal_nan also where both are nan.

    - `input`, `other` (Tensor): x and y, of one dtype, with broadcasting
    - `rtol`, `atol` (float, default 1e-05 and 1e-08): not negative
    - `equal_nan` (bool, default False): whether nan is close to nan

    RuntimeError for dtypes that differ, negative tolerances and shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.isclose(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0 + 1e-7, 2.1]))
        tensor([ True, False])
    """
    for argument, t in (("input", input), ("other", other)):
        need_tensor("isclose", argument, t)
    if input._data.dtype is not other._data.dtype:
        raise RuntimeError(f"isclose: both tensors must have the same dtype, got {input.dtype} and {other.dtype}")
    rtol, atol = real_number("isclose", "rtol", rtol), real_number("isclose", "atol", atol)
    for argument, given in (("rtol", rtol), ("atol", atol)):
        if given < 0:
            raise RuntimeError(f"isclose: {argument} must be greater than or equal to zero, but got {given}")
    x, y = input._data, other._data
    xp = xp_of(x)
    try:
        close = x == y
    except ValueError:
        raise unlike("isclose", [x.shape, y.shape]) from None
    if equal_nan:
        close = close | (xp.isnan(x) & xp.isnan(y))
    if rtol == 0 and atol == 0:
        return wrap(close)
    if x.dtype.kind in "biu":
        x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        off, allowed = xp.abs(x - y), atol + xp.abs(rtol * y)
        return wrap(close | (xp.isfinite(off) & (off <= allowed)))


declare(
    "isclose",
    [
        *binary_samples(scalars=()),
        Sample(Arg(values=[1.0, NAN, INF, INF]), Arg(values=[1.0 + 1e-9, NAN, INF, -INF]), equal_nan=True),
    ],
    complex=True,
    differentiable=False,
)


def allclose(
    input: Tensor, other: Tensor, rtol: float | Tensor = 1e-05, atol: float | Tensor = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether |x - y| ≤ atol + rtol |y| everywhere (see :func:`isclose`), as a bool.

    - `input`, `other` (Tensor): x and y, of one dtype, with broadcasting
    - `rtol`, `atol` (float, default 1e-05 and 1e-08): not negative
    - `equal_nan` (bool, default False): whether nan is close to nan

    RuntimeError for dtypes that differ, negative tolerances and shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.allclose(ferro.tensor([1.0]), ferro.tensor([1.0 + 1e-7]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan)._data.all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape and the same elements."""
    x, y = need_tensor("equal", "input", input)._data, need_tensor("equal", "other", other)._data
    return x.shape == y.shape and bool((x == y).all())


# -- tests of one number -----------------------------------------------------------------------------------------------

SPECIAL = [*unary_samples(), Sample(Arg(values=[0.0, -0.0, NAN, INF, -INF])), Sample(Arg(3, dtype="int64"))]


def _tested(name: str, input: Any) -> Any:
    """Where the function of arrays is true of the elements."""
    a = need_tensor(name, "input", input)._data
    return wrap(getattr(xp_of(a), name)(a))


def isnan(input: Tensor) -> Tensor:
    """Where x is nan (a complex number: either part)."""
    return _tested("isnan", input)


def isinf(input: Tensor) -> Tensor:
    """Where x is infinite (a complex number: either part)."""
    return _tested("isinf", input)


def isfinite(input: Tensor) -> Tensor:
    """Where x is neither infinite nor nan."""
    return _tested("isfinite", input)


def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where x = +∞."""
    return into("isposinf", out, wrap(real_input("isposinf", input) == INF), input)


def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where x = -∞."""
    return into("isneginf", out, wrap(real_input("isneginf", input) == -INF), input)


def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is 0: everywhere for a real tensor."""
    return wrap(need_tensor("isreal", "input", input)._data.imag == 0)


def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where the sign bit is set: negative numbers and -0."""
    a = real_input("signbit", input)
    return into("signbit", out, wrap(xp_of(a).signbit(a) if a.dtype in dtypes.INEXACT else a < 0), input)


def real_input(name: str, x: Any) -> Any:
    """The array of a tensor that must not be complex."""
    a = need_tensor(name, "input", x)._data
    if a.dtype.kind == "c":
        raise (NotImplementedError if name == "signbit" else RuntimeError)(
            f"{name}: does not support complex inputs, got {x.dtype}"
        )
    return a


for _name in ("isnan", "isinf", "isfinite", "isreal"):
    declare(_name, SPECIAL, complex=True, differentiable=False)
for _name in ("isposinf", "isneginf", "signbit"):
    declare(_name, SPECIAL, differentiable=False)


# -- logic and bits ----------------------------------------------------------------------------------------------------

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


def equals(self: Any, other: Any) -> Any:
    """self == other: elementwise; NotImplemented for what is no operand, so that ``x == None`` is False."""
    try:
        return binary(EQ, self, other)
    except TypeError:
        return binary(EQ, self, of_array("eq", other)) if isinstance(other, np.ndarray) else NotImplemented


def differs(self: Any, other: Any) -> Any:
    """self != other: elementwise; NotImplemented for what is no operand."""
    try:
        return binary(NE, self, other)
    except TypeError:
        return binary(NE, self, of_array("ne", other)) if isinstance(other, np.ndarray) else NotImplemented


def comparison_operator(op: Op) -> Callable[[Any, Any], Tensor]:
    """The special method of an ordered comparison."""
    plain = operator(op)

    def method(self: Any, other: Any) -> Any:
        if self._data.dtype.kind != "c":
            kind = type(other)
            if kind is float or kind is int:
                return plain(self, other)
            try:
                if other._data.dtype.kind != "c":
                    return plain(self, other)
            except AttributeError:  # no tensor
                if kind is not complex:
                    return plain(self, other)
        return ordered(op, self, other)

    return method


# -- choices -----------------------------------------------------------------------------------------------------------


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


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """min(max(x, lower), upper): x kept between two bounds.

    - `input` (Tensor): x, any shape, not complex
    - `min`, `max` (Tensor or number, default None): lower and upper, one of which may be None; where lower > upper, the
      result is upper
    - `out` (Tensor, default None): where to write the result

    The result has the broadcast shape; nan stays nan. The cotangent passes where lower ≤ x ≤ upper, edges included; a
    tensor bound gets it where it was taken. RuntimeError for no bound, NotImplementedError for complex tensors.

    Example::

        >>> import ferro
        >>> ferro.tensor([-2.0, 0.5, 3.0]).clamp(-1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    dtype = need_tensor("clamp", "input", input)._data.dtype
    if type(min) in PLAIN and type(max) in PLAIN and min is not max and dtype in REAL:  # the frequent case
        result = unary(CLAMP, input, _bounds(min, max, dtype))
        return result if out is None else into("clamp", out, result, input)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    for v in (input, min, max):
        if isinstance(v, complex) or (isinstance(v, TensorBase) and v._data.dtype.kind == "c"):
            raise NotImplementedError("clamp is not supported for complex types: complex numbers have no order")
    if any(isinstance(b, TensorBase) for b in (min, max)):
        given = operands("clamp", *[t for t in (input, min, max) if t is not None])
        x, *bounds = promote(*given)
        low = bounds.pop(0) if min is not None else None
        result = apply(CLAMP_TENSOR, (x, low, bounds[0] if bounds else None))
    else:
        x, dtype = input, dtypes.result_np([input._data, *[b for b in (min, max) if b is not None]])
        if dtype is not x._data.dtype:
            x = apply(CAST, (x,), (dtype,))
        result = unary(CLAMP, x, tuple([None if b is None else constant(b, dtype)._data for b in (min, max)]))
    return result if out is None else into("clamp", out, result, input)


def _bounds(low: Any, high: Any, dtype: Any) -> tuple:
    """Two bounds as 0-d arrays, kept for the next use as those of `constant` are."""
    key = (low, high, dtype.num)
    found = _kept.get(key) if low != 0 != high else None  # 0.0 and -0.0 would be equal keys
    if found is None:
        if len(_kept) > 1024:
            _kept.clear()
        found = _kept[key] = tuple([None if b is None else constant(b, dtype)._data for b in (low, high)])
    return found


_kept: dict[tuple, tuple] = {}
PLAIN = (float, int, type(None))
REAL = dtypes.INEXACT - dtypes.COMPLEX


def _inside(x: Any, low: Any, high: Any) -> Any:
    """Where low ≤ x ≤ high."""
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


def _clamp_low(xp: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    taken = x < low if high is None else (x < low) & (low < high)
    return xp.where(taken, g, 0.0)


def _clamp_high(xp: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    taken = x > high if low is None else (x > high) | (high < low)
    return xp.where(taken, g, 0.0)


CLAMP = Op(
    "clamp",
    lambda xp, x, /, low, high: xp.clamp(x, low, high),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, low, high: xp.where(_inside(x, number(low), number(high)), g, 0.0),
    samples=[
        Sample(Arg(3, 4), -1, 1.5),
        Sample(Arg(3), min=0.5),
        Sample(Arg(3), max=0.5),
        Sample(Arg(3), 1, -1),
        Sample(Arg(0), 0),
        Sample(Arg(values=[-1.0, 0.0, 0.5, 1.0, 2.0, NAN]), 0.0, 1.0, smooth=False),
        Sample(Arg(3, 4), Arg(4, high=0), Arg(3, 1, low=0.5)),
        Sample(Arg(3, 4), min=Arg(4)),
        Sample(Arg(3), max=Arg(3)),
        Sample(
            Arg(values=[1.0, 2.0, 3.0, 0.0]),
            Arg(values=[1.0, 3.0, 2.0, 1.0]),
            Arg(values=[1.0, 2.0, 2.0, 3.0]),
            smooth=False,
        ),
    ],
)
CLAMP_TENSOR = Op(
    "clamp_tensor",
    lambda xp, x, low, high: xp.clamp(x, low, high),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, low, high: xp.where(_inside(x, low, high), g, 0.0),
    low=_clamp_low,
    high=_clamp_high,
)
singular("clamp", "at a limit", Sample(Arg(values=[0.0, 1.0]), 0.0, 1.0), "the side on which clamp is the identity")
singular("clamp", "min > max", Sample(Arg(values=[0.5]), 1.0, 0.0), "the result is max, whatever x")


def number(bound: Any) -> Any:
    """The Python number in a 0-d array."""
    return None if bound is None else bound.item()


def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """max(x, min)."""
    return into("clamp_min", out, clamp(input, min, None), input, min)


def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """min(x, max)."""
    return into("clamp_max", out, clamp(input, None, max), input, max)


for _name in ("clamp_min", "clamp_max"):
    declare(
        _name,
        [Sample(Arg(3, 4), 0.5), Sample(Arg(3, 4), Arg(4)), Sample(Arg(values=[0.0, 1.0, NAN]), 0.0, smooth=False)],
    )

clip = clamp

# In-place forms that torch has as functions too.
clamp_, clamp_max_, clamp_min_ = in_place(clamp), in_place(clamp_max), in_place(clamp_min)
clip_ = clamp_


class ComparisonMethods:
    """Methods of Tensor."""

    __slots__ = ()
    eq, ne, not_equal, lt, less, le, less_equal = eq, ne, ne, lt, lt, le, le
    gt, greater, ge, greater_equal = gt, gt, ge, ge
    eq_, ne_, lt_, le_, gt_, ge_ = (in_place(f) for f in (eq, ne, lt, le, gt, ge))
    not_equal_, less_, less_equal_, greater_, greater_equal_ = ne_, lt_, le_, gt_, ge_
    __eq__, __ne__ = equals, differs
    __lt__, __le__, __gt__, __ge__ = (comparison_operator(op) for op in (LT, LE, GT, GE))
    isclose, allclose, equal = isclose, allclose, equal
    isnan, isinf, isfinite, isposinf, isneginf, isreal, signbit = (
        isnan,
        isinf,
        isfinite,
        isposinf,
        isneginf,
        isreal,
        signbit,
    )
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
    __iand__, __ior__, __ixor__ = map(augmented, (bitwise_and_, bitwise_or_, bitwise_xor_))
    __lshift__, __rshift__ = bit_operator(bitwise_left_shift), bit_operator(bitwise_right_shift)
    __rlshift__, __rrshift__ = bit_operator(bitwise_left_shift, True), bit_operator(bitwise_right_shift, True)
    __ilshift__, __irshift__ = augmented(bitwise_left_shift_), augmented(bitwise_right_shift_)
    __invert__ = inverted
    maximum, minimum, fmax, fmin = maximum, minimum, fmax, fmin
    clamp, clip, clamp_min, clamp_max = clamp, clamp, clamp_min, clamp_max
    clamp_ = clip_ = clamp_
    clamp_min_, clamp_max_ = in_place(clamp_min), in_place(clamp_max)

    def where(self, condition: Any, other: Any) -> Tensor:
        """self where the condition holds, else other."""
        return where(condition, self, other)
