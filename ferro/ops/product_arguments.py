"""What products of matrices and vectors refuse: dtypes, dimensions and shapes that do not fit, in words."""

from __future__ import annotations

from typing import Any

from ferro.core.arguments import need_tensor
from ferro.core.casting import LOW, brought_together
from ferro.core.dtypes import FROM_NUMPY


def same_dtype(name: str, **operands: Any) -> None:
    """Refuses operands of different dtypes, and bool ones."""
    dtype = None
    for argument, t in operands.items():
        if t is not None:
            found = need_tensor(name, argument, t)._data.dtype
            if dtype is None:
                dtype = found
            elif found is not dtype and not (name in LOW and brought_together(found, dtype)):
                raise _mixed_dtypes(name, operands)
    if dtype is not None and dtype.kind == "b":
        raise RuntimeError(f"{name}: products of bool tensors are not implemented; convert them to an integer dtype")


def _mixed_dtypes(name: str, operands: dict) -> Exception:
    tensors = {argument: need_tensor(name, argument, t) for argument, t in operands.items() if t is not None}
    given = ", ".join(f"{argument} is {FROM_NUMPY[t._data.dtype]}" for argument, t in tensors.items())
    return RuntimeError(
        f"{name}: expected all operands to have the same dtype, but {given}; convert one with .to(dtype)"
    )


def need_ndim(name: str, **wanted: Any) -> None:
    """Refuses a tensor with another number of dimensions than wanted: ``mat2=(tensor, 2)``."""
    for argument, (t, ndim) in wanted.items():
        if t._data.ndim != ndim:
            kind = {1: "vector", 2: "matrix", 3: "batch of matrices"}[ndim]
            raise RuntimeError(
                f"{name}: {argument} must be a {kind} ({ndim} dimensions), got shape {list(t._data.shape)}"
            )


def misfit(name: str, x: Any, y: Any, first: str = "mat1", second: str = "mat2") -> RuntimeError:
    """The error for matrices that cannot be multiplied, with a hint where a transposition helps."""
    a, b = x._data.shape, y._data.shape
    text = "x".join(map(str, a[-2:])) + " and " + "x".join(map(str, b[-2:]))
    if len(a) > 1 and len(b) > 1 and a[:-2] != b[:-2] and a[-1] == b[-2]:
        return RuntimeError(
            f"{name}: the leading dimensions of {first}, shape {list(a)}, and {second}, shape {list(b)}, do not fit; "
            "each pair of sizes must be equal" + (", or one of them 1" if name == "matmul" else "")
        )
    hint = ""
    if len(b) > 1 and a[-1] == b[-1]:
        hint = f"; they fit with {second} transposed ({second}.mT)"
    elif len(a) > 1 and a[-2] == b[-2 if len(b) > 1 else 0]:
        hint = f"; they fit with {first} transposed ({first}.mT)"
    return RuntimeError(
        f"{name}: {first} and {second} shapes cannot be multiplied ({text}): the last size of {first}, {a[-1]}, must "
        f"equal the {'second to last' if len(b) > 1 else 'only'} size of {second}, {b[-2 if len(b) > 1 else 0]} "
        f"(shapes {list(a)} and {list(b)}){hint}"
    )
