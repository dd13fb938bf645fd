"""The extension linalg of the array-API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro._public import ferro
from ferro.array_api._promotion import promoted
from ferro.array_api._statistics import dims, matmul, matrix_transpose, sum, tensordot, vecdot

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
           "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
           "vector_norm"]  # fmt: skip


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices."""
    return ferro.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector product along a dimension of 3 elements."""
    x1, x2 = promoted(x1, x2)
    return ferro.linalg.cross(*ferro.broadcast_tensors(x1, x2), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants."""
    return ferro.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return ferro.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices."""
    return ferro.linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of Hermitian matrices."""
    return ferro.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverses."""
    return ferro.linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices."""
    return ferro.linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The matrices multiplied by themselves."""
    return ferro.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The ranks of matrices."""
    return ferro.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of the elements of two vectors."""
    return ferro.outer(*promoted(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses."""
    return ferro.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """(Q, R) of matrices."""
    return ferro.linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """(sign, logarithm of the absolute value) of the determinants."""
    return ferro.linalg.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions X of x1 X = x2: x2 is a vector if it has one dimension, else matrices."""
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return ferro.linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    shape = ferro.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return ferro.linalg.solve(x1.expand(*shape, *x1.shape[-2:]), x2.expand(*shape, *x2.shape[-2:]))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """(U, S, Vh) of matrices."""
    return ferro.linalg.svd(x, full_matrices=full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values."""
    return ferro.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along the diagonals."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norms of the vectors along some dimensions."""
    axes = dims(x, axis)
    if not axes:  # each element is a vector of one
        return (x != 0).to(x.dtype).abs() if ord == 0 else x.abs()
    return ferro.linalg.vector_norm(x, ord, axes, keepdims)
