"""Functions of lists of tensors (``_foreach_add`` and its like), as optimisers use them: the loop over the list, recorded as such.

Example::

    >>> import ferro
    >>> a = [ferro.ones(2), ferro.zeros(1)]
    >>> ferro._foreach_add_(a, [ferro.ones(2), ferro.ones(1)], alpha=2)
    [tensor([3., 3.]), tensor([2.])]
    >>> ferro._foreach_mul(a, [10.0, 100.0])
    (tensor([30., 30.]), tensor([200.]))
    >>> ferro._foreach_norm(a)
    (tensor(4.2426), tensor(2.))
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from ferro.core import dtypes
from ferro.core.base import TensorBase
from ferro.ops.choices import maximum, minimum
from ferro.ops.data import tensor
from ferro.ops.norms import vector_norm

# -- the operations, by what they take besides the list ----------------------------------------------------------------

_UNARY = (
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
# With a list of tensors, a number, a list of numbers or one tensor of no dimensions.
_BINARY = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "sub")
_WITH_ALPHA = ("add", "add_", "sub", "sub_")
_TERNARY = ("addcdiv", "addcmul")
_EXTREMA = {"maximum": maximum, "minimum": minimum}

_OTHERS = ("clone", "copy_", "max", "mm", "norm", "powsum", "zero_")
_PAIRS = [n + end for n in (*_UNARY, *_BINARY, "pow", *_TERNARY, "lerp") for end in ("", "_")]

__all__ = [f"_foreach_{n}" for n in (*_PAIRS, *_OTHERS)]

_ABSENT: Any = object()


# -- arguments ---------------------------------------------------------------------------------------------------------


def _list(name: str, values: Any, place: int = 0) -> list[Any]:
    """The tensors of a list or tuple, which has at least one."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: argument {place} must be a list or tuple of "
            f"Tensors, got {type(values).__name__}"
        )
    for i, value in enumerate(values):
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"{name}(): expected Tensor as element {i} in argument {place}, but got {type(value).__name__}"
            )
    if not values:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    return list(values)


def _alike(name: str, first: Sequence[Any], *others: Sequence[Any]) -> None:
    for other in others:
        if len(other) != len(first):
            raise RuntimeError(
                f"{name}(): Tensor lists must have the same number of tensors, got {len(first)} and {len(other)}"
            )


def _per_tensor(name: str, count: int, value: Any, place: int) -> list[Any]:
    """What each of `count` tensors is combined with: an entry of a list of tensors or of numbers, or the one given for all."""
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, numbers.Number) for v in value):
            if len(value) != count:
                raise RuntimeError(
                    f"{name}(): Tensor list must have same number of elements as scalar list: got {count} and "
                    f"{len(value)}"
                )
            return list(value)
        found = _list(name, value, place)
        _alike(name, range(count), found)
        return found
    if isinstance(value, TensorBase):
        given: Any = value
        if given.dim():
            raise RuntimeError(
                f"{name}(): scalar tensor expected to be 0 dim but it has {given.dim()} dimensions and {given.numel()} "
                "elements."
            )
        return [given] * count
    if isinstance(value, numbers.Number):
        return [value] * count
    raise TypeError(
        f"{name}() received an invalid combination of arguments: argument {place} must be a number, a list of numbers"
        f", a tensor of no dimensions or a list of Tensors, got {type(value).__name__}"
    )


def _one_of(name: str, given: dict[str, Any]) -> Any:
    """The one argument that was given, under whichever of its names."""
    found = [v for v in given.values() if v is not _ABSENT]
    if len(found) != 1:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: one of {', '.join(given)} must be given, got "
            f"{len(found)}"
        )
    return found[0]


# -- the functions, made from the table ---------------------------------------------------------------------------------


def _finished(method: str, given: Any, results: list[Any]) -> Any:
    """New tensors are a tuple; what writes gives the list back that it was given."""
    return given if method.endswith("_") else tuple(results)


def _unary(name: str, method: str) -> Callable:
    def each(self: Any) -> Any:
        return _finished(method, self, [getattr(x, method)() for x in _list(name, self)])

    return each


def _binary(name: str, method: str) -> Callable:
    inplace = method.endswith("_")
    extremum = _EXTREMA.get(method.removesuffix("_"))

    def apply(x: Any, y: Any) -> Any:
        if extremum is None:
            return getattr(x, method)(y)
        other: Any = y if isinstance(y, TensorBase) else tensor(y, device=x.device)
        # (what is saved for the gradient is not what is written to)
        return x.copy_(extremum(x.clone(), other)) if inplace else extremum(x, other)

    def each(
        self: Any, other: Any = _ABSENT, *, scalar: Any = _ABSENT, scalars: Any = _ABSENT, alpha: Any = _ABSENT
    ) -> Any:
        operand = _one_of(name, {"other": other, "scalar": scalar, "scalars": scalars})
        tensors = _list(name, self)
        operands = _per_tensor(name, len(tensors), operand, 1)
        if alpha is _ABSENT:
            return _finished(method, self, [apply(x, y) for x, y in zip(tensors, operands, strict=True)])
        if method not in _WITH_ALPHA or not isinstance(operands[0], TensorBase):
            raise TypeError(
                f"{name}() received an invalid combination of arguments: alpha goes with tensors of sums and differences"
            )
        return _finished(
            method, self, [getattr(x, method)(y, alpha=alpha) for x, y in zip(tensors, operands, strict=True)]
        )

    return each


def _power(name: str, method: str) -> Callable:
    def each(self: Any, exponent: Any) -> Any:
        if isinstance(self, numbers.Number) and not method.endswith("_"):
            return tuple([self**y for y in _list(name, exponent, 1)])
        tensors = _list(name, self)
        exponents = _per_tensor(name, len(tensors), exponent, 1)
        return _finished(method, self, [getattr(x, method)(y) for x, y in zip(tensors, exponents, strict=True)])

    return each


def _ternary(name: str, method: str) -> Callable:
    def each(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = _ABSENT) -> Any:
        tensors, first, second = _list(name, self), _list(name, tensor1, 1), _list(name, tensor2, 2)
        _alike(name, tensors, first, second)
        value = value if scalars is _ABSENT else scalars
        if isinstance(value, TensorBase):
            packed: Any = value
            if packed.dim() != 1:
                raise RuntimeError(
                    f"{name}(): Expected packed scalar Tensor to be of dimension 1. Got {packed.dim()} instead."
                )
            if len(packed) != len(tensors):
                raise RuntimeError(
                    f"{name}(): Expected length of scalars to match input of length {len(tensors)} but got {len(packed)} "
                    "instead."
                )
            value = packed.tolist()
        values = _per_tensor(name, len(tensors), value, 3)
        rows = zip(tensors, first, second, values, strict=True)
        return _finished(method, self, [getattr(x, method)(a, b, value=v) for x, a, b, v in rows])

    return each


def _lerp(name: str, method: str) -> Callable:
    def each(self: Any, tensors1: Any, weight: Any = _ABSENT, *, weights: Any = _ABSENT) -> Any:
        tensors, ends = _list(name, self), _list(name, tensors1, 1)
        _alike(name, tensors, ends)
        found = _per_tensor(name, len(tensors), _one_of(name, {"weight": weight, "weights": weights}), 2)
        return _finished(method, self, [getattr(x, method)(e, w) for x, e, w in zip(tensors, ends, found, strict=True)])

    return each


def _made(make: Callable[[str, str], Callable], operation: str) -> None:
    for method in (operation, operation + "_"):
        name = f"_foreach_{method}"
        function = make(name, method)
        function.__name__ = function.__qualname__ = name
        where = "each tensor of a list, in place" if method.endswith("_") else "each tensor of a list"
        function.__doc__ = f"`{operation}` of {where}: the loop, and its gradients."
        globals()[name] = function


for _make, _names in (
    (_unary, _UNARY),
    (_binary, _BINARY),
    (_power, ("pow",)),
    (_ternary, _TERNARY),
    (_lerp, ("lerp",)),
):
    for _name in _names:
        _made(_make, _name)


# -- those that are like no other ----------------------------------------------------------------------------------------


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Any, ...]:
    """A copy of each tensor of a list."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple([x.clone(**options) for x in _list("_foreach_clone", self)])


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Writes the tensors of one list into those of another, cast and broadcast as by `copy_`."""
    tensors, sources = _list("_foreach_copy_", self), _list("_foreach_copy_", src, 1)
    _alike("_foreach_copy_", tensors, sources)
    for x, y in zip(tensors, sources, strict=True):
        x.copy_(y, non_blocking)
    return self


def _foreach_zero_(self: Any) -> Any:
    """Writes zeros into each tensor of a list."""
    for x in _list("_foreach_zero_", self):
        x.zero_()
    return self


def _foreach_max(self: Any) -> tuple[Any, ...]:
    """The largest element of each tensor of a list."""
    return tuple([x.max() for x in _list("_foreach_max", self)])


def _foreach_mm(self: Any, mat2: Any) -> tuple[Any, ...]:
    """The matrix product of each pair of two lists."""
    tensors, others = _list("_foreach_mm", self), _list("_foreach_mm", mat2, 1)
    _alike("_foreach_mm", tensors, others)
    return tuple([x.mm(y) for x, y in zip(tensors, others, strict=True)])


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    """The norm of each tensor of a list, over all its elements. RuntimeError for the largest element of none."""
    tensors = _list("_foreach_norm", self)
    if ord == float("inf") and not all(x.numel() for x in tensors):
        raise RuntimeError(
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
            "identity"
        )
    return tuple([vector_norm(x, ord, dtype=dtype) for x in tensors])


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    """The sum of |x| to the power `ord` of each tensor of a list."""
    tensors = _list("_foreach_powsum", self)
    for x in tensors:
        if x.dtype.np not in dtypes.INEXACT:
            raise NotImplementedError(
                f'_foreach_powsum: "powsum_cpu" not implemented for {x.dtype}: cast with .float()'
            )
    return tuple([(x if dtype is None else x.to(dtype)).abs().pow(ord).sum() for x in tensors])
