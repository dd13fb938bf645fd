"""Elementwise functions of the array-API standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro._public import ferro
from ferro.array_api._promotion import promoted
from ferro.core.base import TensorBase

if TYPE_CHECKING:
    from ferro.tensor import Tensor

UNARY = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "conj",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "negative",
    "positive",
    "real",
    "reciprocal",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
)
ROUNDED = ("ceil", "floor", "round", "trunc")
BINARY = {
    "add": "add",
    "atan2": "atan2",
    "bitwise_and": "bitwise_and",
    "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "bitwise_right_shift",
    "bitwise_xor": "bitwise_xor",
    "copysign": "copysign",
    "divide": "div",
    "equal": "eq",
    "floor_divide": "floor_divide",
    "greater": "gt",
    "greater_equal": "ge",
    "hypot": "hypot",
    "less": "lt",
    "less_equal": "le",
    "logaddexp": "logaddexp",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "mul",
    "nextafter": "nextafter",
    "not_equal": "ne",
    "pow": "pow",
    "remainder": "remainder",
    "subtract": "sub",
}


def _named(name: str, function: Callable, text: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _unary(name: str) -> Callable[..., Tensor]:
    operation = getattr(ferro, name)

    def function(x: Tensor, /) -> Tensor:
        return operation(x)

    return _named(name, function, f":func:`ferro.{name}` of each element.")


def _rounded(name: str) -> Callable[..., Tensor]:
    operation, parts = getattr(ferro, name), ferro.complex

    def function(x: Tensor, /) -> Tensor:
        return parts(operation(x.real), operation(x.imag)) if x.dtype.is_complex else operation(x)

    return _named(name, function, f":func:`ferro.{name}` of each element; of a complex one, of both parts.")


def _binary(name: str, under: str) -> Callable[..., Tensor]:
    operation = getattr(ferro, under)

    def function(x1: Any, x2: Any, /) -> Tensor:
        return operation(*promoted(x1, x2))

    return _named(
        name, function, f":func:`ferro.{under}` of two arrays, or an array and a number, in their common dtype."
    )


def bitwise_invert(x: Tensor, /) -> Tensor:
    """All bits of integers, or truth values, inverted."""
    return ferro.bitwise_not(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; x / |x| of complex numbers; nan of nan, unlike :func:`ferro.sign`."""
    found = ferro.sgn(x)
    return ferro.where(ferro.isnan(x), x, found) if x.dtype.is_floating_point else found


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part."""
    return ferro.imag(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x between `min` and `max` (numbers, arrays or None), in the dtype of x."""
    for bound, nearest in ((min, ferro.maximum), (max, ferro.minimum)):
        if bound is not None:
            limit = bound.to(x.dtype) if isinstance(bound, TensorBase) else ferro.tensor(bound, dtype=x.dtype)  # type: ignore[attr-defined]
            x = nearest(x, limit)
    return x.clone()


FUNCTIONS: dict[str, Callable] = {
    **{name: _unary(name) for name in UNARY},
    **{name: _rounded(name) for name in ROUNDED},
    **{name: _binary(name, under) for name, under in BINARY.items()},
    **{f.__name__: f for f in (bitwise_invert, clip, imag, sign)},
}
