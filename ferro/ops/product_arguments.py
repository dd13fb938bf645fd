"""What products of matrices and vectors refuse: dtypes, dimensions and shapes that do not fit, in words."""

from __future__ import annotations

import math
from typing import Any

from ferro.core.arguments import need_tensor
from ferro.core.casting import LOW, brought_together
from ferro.core.dtypes import FROM_NUMPY, META_NAMES, type_name


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
    found = {
        argument: FROM_NUMPY[need_tensor(name, argument, t)._data.dtype]
        for argument, t in operands.items()
        if t is not None
    }
    given = ", ".join(f"{argument} is {dtype}" for argument, dtype in found.items())
    a, b = [*found.values()][-2:] if name.startswith("add") else [*found.values()][:2]
    old = type_name(a), type_name(b)
    if name in ("addmm", "linear") and len(found) > 2:
        sentence = "mat1 and mat2 must have the same dtype, but got {} and {}: ".format(*old)
    elif name in ("linear", "mm") or (
        name == "matmul" and operands["input"]._data.ndim * operands["other"]._data.ndim == 4
    ):
        sentence = f"expected m1 and m2 to have the same dtype, but got: {META_NAMES[a]} != {META_NAMES[b]}: "
    elif name in ("bmm", "matmul"):
        sentence = "expected scalar type {} but found {}: ".format(*old)
    else:
        sentence = "expected all operands to have the same dtype, but "
    return RuntimeError(f"{name}: {sentence}{given}; convert one with .to(dtype)")


def need_ndim(name: str, **wanted: Any) -> None:
    """Refuses a tensor with another number of dimensions than wanted: ``mat2=(tensor, 2)``."""
    for argument, (t, ndim) in wanted.items():
        if t._data.ndim != ndim:
            kind = {1: "vector", 2: "matrix", 3: "batch of matrices"}[ndim]
            raise RuntimeError(
                f"{name}: {argument} must be a {kind} ({ndim} dimensions), got shape {list(t._data.shape)}"
            )


def _sentence(a: tuple, b: tuple) -> str:
    """What PyTorch says of two shapes that cannot be multiplied."""
    if len(b) == 1:
        if len(a) == 1:
            return (
                f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of elements, "
                f"but got {a[0]} and {b[0]} elements respectively"
            )
        return f"size mismatch, got input ({a[-2]}), mat ({a[-2]}x{a[-1]}), vec ({b[0]})"
    if len(b) > 2:
        batch = math.prod(a[:-2])
        return f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a[-1]}] but got: [{batch}, {b[-2]}]"
    return multiplied(a, b)


def multiplied(a: tuple, b: tuple) -> str:
    """PyTorch's sentence on matrices that do not fit; what has more dimensions is a matrix with their product as rows."""
    return f"mat1 and mat2 shapes cannot be multiplied ({math.prod(a[:-1])}x{a[-1]} and {b[0]}x{b[1]})"


def misfit(name: str, x: Any, y: Any, first: str = "mat1", second: str = "mat2") -> RuntimeError:
    """The error for matrices that cannot be multiplied, with a hint where a transposition helps."""
    a, b = x._data.shape, y._data.shape
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
        f"{name}: {_sentence(a, b)}: the last size of {first}, {a[-1]}, must "
        f"equal the {'second to last' if len(b) > 1 else 'only'} size of {second}, {b[-2 if len(b) > 1 else 0]} "
        f"(shapes {list(a)} and {list(b)}){hint}"
    )
