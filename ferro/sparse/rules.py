"""The table of rules: what functions, methods and operators of ferro do with sparse tensors, and what rules share.

The rules themselves lie beside it, by their mathematics: elementwise, products, reductions, shapes, indexing, conversions,
questions.  A rule computes on indices (NumPy) and on kept values (with the functions of ferro, which record).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ferro import functional as F
from ferro.core.base import TensorBase
from ferro.core.layout import sparse_coo
from ferro.core.outputs import cannot_cast
from ferro.sparse.tensor import RULES, is_sparse


def rule(*names: str, compressed: bool = False) -> Callable:
    """Registers a function as the rule of operations with these names.

    A rule that does not say that it knows compressed matrices (CSR, CSC) gets them as COO tensors.
    """

    def register(function: Callable) -> Callable:
        found = function if compressed else _of_coordinates(function)
        for name in names:
            RULES[name] = found
        return found

    return register


def _of_coordinates(function: Callable) -> Callable:
    @functools.wraps(function)
    def found(*args: Any, **kwargs: Any) -> Any:
        return function(*[as_coo(a) for a in args], **{k: a if k == "out" else as_coo(a) for k, a in kwargs.items()})

    return found


def as_coo(x: Any) -> Any:
    """A sparse tensor by coordinates, those of a list too; anything else as it is."""
    if is_sparse(x):
        return x.as_layout(sparse_coo)
    if isinstance(x, (list, tuple)) and any(is_sparse(a) for a in x):
        return [as_coo(a) for a in x]
    return x


def refused(name: str, why: str) -> Exception:
    """The error for operands that an operation does not take."""
    return NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend: {why}")


def same_shape(name: str, x: Any, y: Any) -> None:
    """RuntimeError unless two operands have one shape."""
    if tuple(x.shape) != tuple(y.shape):
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size {list(x.shape)} while other has size "
            f"{list(y.shape)} (sparse tensors are not broadcast)"
        )


def is_tensor(x: Any) -> bool:
    """Whether an operand is a tensor, dense or sparse."""
    return isinstance(x, TensorBase)


def is_number(x: Any) -> bool:
    """Whether an operand is a number, or a dense tensor of no dimensions."""
    return not is_tensor(x) or x.ndim == 0


def dense(x: Any) -> Any:
    """The dense tensor of a sparse one."""
    return x.to_dense() if is_sparse(x) else x


def one_dim(name: str, x: Any, dim: int) -> int:
    """A dimension of a sparse tensor counted from the front; IndexError out of range."""
    n = x.ndim
    if not -max(n, 1) <= dim < max(n, 1):
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})"
        )
    return dim % max(n, 1)


def into(out: Any, found: Any) -> Any:
    """`out`, having become a result."""
    if is_sparse(out):
        return out.take(found if is_sparse(found) else found.to_sparse())
    return out.resize_(found.shape).copy_(found)


def became(name: str, x: Any, found: Any) -> Any:
    """x, sparse or dense, having become a result; RuntimeError if it is sparse and the result is not, or if its dtype does not hold
    the result's.
    """
    if not F.can_cast(found.dtype, x.dtype):
        raise cannot_cast(f"{name}_", found.dtype, x.dtype)
    if not is_sparse(x):
        return x.copy_(dense(found))
    if not is_sparse(found):
        raise RuntimeError(f"{name}_: a sparse tensor cannot become the dense result; use {name}() or to_dense() first")
    return x.take(RULES["to"](found, x.dtype))
