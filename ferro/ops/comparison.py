"""Comparisons: equal, less, close; and the comparison operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import binary
from ferro.core.arguments import need_tensor, real_number, unlike
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.layout import ITERATED
from ferro.core.op import Op
from ferro.core.operands import of_array
from ferro.core.origins import on_one_device
from ferro.core.samples import Arg, Sample, binary_samples, declare
from ferro.ops.arithmetic import operator

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["allclose", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "le", "less", "less_equal",
           "lt", "ne", "not_equal"]  # fmt: skip


INF, NAN = float("inf"), float("nan")
FLOAT32 = dtypes.float32.np

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
    on_one_device("isclose", input, other)
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
    return x.shape == y.shape and xp_of(x).all_equal(x, y)


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
                return binary(op, self, other)
            try:
                if other._data.dtype.kind != "c":
                    return plain(self, other)
            except AttributeError:  # no tensor
                if kind is not complex:
                    return plain(self, other)
        return ordered(op, self, other)

    return method


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
