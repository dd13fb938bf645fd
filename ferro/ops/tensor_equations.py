"""Linear equations whose unknowns are tensors: tensorsolve and tensorinv."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.matrix_arguments import lapack_dtype
from ferro.ops.solving import inverse, regular, solve

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = []


@in_full_precision
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The tensor Y with tensordot(Y, tensordot(A, X)) = X: the inverse of A as a matrix whose rows are the first `ind` dimensions.

    The sizes of the first `ind` dimensions and those of the rest must have one product; Y has the rest first.

    >>> import ferro
    >>> ferro.linalg.tensorinv(ferro.eye(6).reshape(2, 3, 6)).shape
    ferro.Size([6, 2, 3])
    """
    shape = need_tensor("linalg.tensorinv", "A", A)._data.shape
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "linalg.tensorinv: Expected A to satisfy prod(A.shape[ind:]) == prod(A.shape[:ind]), "
            f"but got {columns} != {rows} (shape {list(shape)}, ind {ind})"
        )
    lapack_dtype("linalg.tensorinv", A, "A")
    result = inverse(A.reshape(rows, columns)).reshape(*shape[ind:], *shape[:ind])
    return result if out is None else into("linalg.tensorinv", out, result)


def _regular_tensor(rng: Any, shape: tuple) -> Any:
    n = math.isqrt(math.prod(shape))
    return regular(rng, (n, n)).reshape(shape)


declare(
    "linalg.tensorinv",
    [Sample(Arg(2, 2, 4, make=_regular_tensor)), Sample(Arg(4, 2, 2, make=_regular_tensor), ind=1)],
    complex=True,
)


@in_full_precision
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The tensor X with tensordot(A, X, dims=X.ndim) = B.

    - `A` (Tensor): in the shape of B, then that of X, with as many elements in both parts
    - `B` (Tensor): any shape
    - `dims` (ints, default None): dimensions of A that are moved to its end before
    - `out` (Tensor, default None): where to write the result

    LinAlgError for a singular A, RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.linalg.tensorsolve(ferro.eye(6).reshape(2, 3, 6), ferro.ones(2, 3)).shape
        ferro.Size([6])
    """
    name = "linalg.tensorsolve"
    need_tensor(name, "A", A)
    k = need_tensor(name, "B", B)._data.ndim
    if dims is not None:
        moved = [dims] if isinstance(dims, int) else list(dims)
        A = A.movedim(moved, list(range(A._data.ndim - len(moved), A._data.ndim)))
    shape = A._data.shape
    rows, columns = math.prod(shape[:k]), math.prod(shape[k:])
    if rows != columns:
        raise RuntimeError(
            f"{name}: Expected A to satisfy prod(A.shape[B.ndim:]) == prod(A.shape[:B.ndim]), "
            f"but got {columns} != {rows} (shape {list(shape)}, B.ndim {k})"
        )
    if B._data.size != rows:
        raise RuntimeError(
            f"{name}: B must have {rows} elements to fit A of shape {list(shape)}, got shape {list(B._data.shape)}"
        )
    result = solve(A.reshape(rows, columns), B.reshape(rows)).reshape(shape[k:])
    return result if out is None else into(name, out, result)


declare(
    "linalg.tensorsolve",
    [
        Sample(Arg(2, 2, 4, make=_regular_tensor), Arg(2, 2)),
        Sample(Arg(4, 2, 2, make=_regular_tensor), Arg(4)),
        Sample(
            Arg(2, 4, 2, make=lambda rng, shape: regular(rng, (4, 4)).reshape(2, 2, 4).swapaxes(1, 2)),
            Arg(2, 2),
            dims=(1,),
        ),
    ],
    complex=True,
)
