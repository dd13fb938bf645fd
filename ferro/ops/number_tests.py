"""Tests of single numbers: nan, infinite, real, negative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare, unary_samples
from ferro.ops.comparison import INF, NAN

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "signbit"]


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


class NumberTestMethods:
    """Methods of Tensor."""

    __slots__ = ()
    isnan, isinf, isfinite, isposinf, isneginf, isreal, signbit = (
        isnan,
        isinf,
        isfinite,
        isposinf,
        isneginf,
        isreal,
        signbit,
    )
