"""What linear algebra asks of its arguments: floating dtypes, square matrices, one dtype, shapes that fit; `out=` tuples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core.arguments import need_tensor
from ferro.core.dtypes import FROM_NUMPY, HALF, INEXACT
from ferro.core.into import into
from ferro.core.mode import is_grad_enabled

__all__ = []


def matrices(name: str, x: Any, argument: str = "A") -> Any:
    """The tensor, which must hold matrices of a dtype that LAPACK has."""
    need_tensor(name, argument, x)
    if x._data.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, got shape {list(x._data.shape)}"
        )
    return lapack_dtype(name, x, argument)


def lapack_dtype(name: str, x: Any, argument: str) -> Any:
    """The tensor, which must have a dtype that LAPACK has."""
    found = x._data.dtype
    if found not in INEXACT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as {argument}, got {FROM_NUMPY[found]}; "
            "convert it with .to(dtype)"
        )
    if found in HALF:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported, got {argument} of {FROM_NUMPY[found]}; use float32 or float64"
        )
    return x


def square(name: str, x: Any, argument: str = "A") -> Any:
    """The tensor, which must hold square matrices of a dtype that LAPACK has."""
    m, n = matrices(name, x, argument)._data.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: {argument} must be batches of square matrices, but they are {m} by {n} matrices")
    return x


def recorded(x: Any) -> bool:
    """Whether an operation on the tensor is recorded, so that it had better keep what its derivative needs."""
    return x.requires_grad and is_grad_enabled()


def one_dtype(name: str, x: Any, y: Any, first: str = "A", second: str = "B") -> None:
    """Refuses operands of different dtypes."""
    a, b = x._data.dtype, y._data.dtype
    if a is not b:
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type {FROM_NUMPY[a]} "
            f"and {second} of type {FROM_NUMPY[b]} instead"
        )


def fits(name: str, a: Any, b: Any, left: bool = True) -> None:
    """Refuses a right side B that A X = B or (left False) X A = B cannot have."""
    s, t = a._data.shape, b._data.shape
    if s[-2 if left else -1] != t[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({s[-2]}x{s[-1]} and {t[-2]}x{t[-1]})"
        )
    batches(name, s[:-2], t[:-2])


def batches(name: str, s: tuple, t: tuple) -> tuple:
    """The batch shape of two stacks of matrices."""
    if s == t:
        return s
    try:
        return np.broadcast_shapes(s, t)
    except ValueError:
        raise RuntimeError(
            f"{name}: the batch shapes {list(s)} and {list(t)} cannot be broadcast: "
            "from the right, sizes must be equal or one of them 1"
        ) from None


def named(name: str, kind: Any, results: tuple, out: Any) -> Any:
    """The results with named fields; written into the tensors of `out=` if given."""
    if out is not None:
        if not isinstance(out, (tuple, list)) or len(out) != len(results):
            raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
        results = tuple([into(name, o, r) for o, r in zip(out, results, strict=True)])
    return kind(results)
