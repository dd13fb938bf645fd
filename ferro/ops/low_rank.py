"""Randomised decompositions of low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import backend
from ferro.core.arguments import need_tensor
from ferro.ops.matrix_arguments import matrices
from ferro.ops.products import adjoint
from ferro.ops.random import randn
from ferro.ops.spectral import svd_factors

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


MOST_ITERATIONS = 1 << 16


def _approximate_basis(A: Any, q: int, niter: int, M: Any) -> Any:
    """Orthonormal columns that nearly span the range of A - M."""
    fn = backend.functional
    a = A if M is None else A - M
    found = fn.qr_factors(fn.matmul(a, randn(A._data.shape[-1], q, dtype=A.dtype, device=A.device)), "reduced")[0]
    for _ in range(niter):
        found = fn.qr_factors(fn.matmul(adjoint(a), found), "reduced")[0]
        found = fn.qr_factors(fn.matmul(a, found), "reduced")[0]
    return found


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple:
    """An approximate decomposition of A - M of low rank from random projections and power iterations: (U, S, V).

    - `A` (Tensor): (..., m, n)
    - `q` (int, default 6): the rank
    - `niter` (int, default 2): how many power iterations
    - `M` (Tensor, default None): (..., m, n), (..., 1, n): what is taken off; None: nothing

    U is (..., m, q), S (..., q), V (..., n, q). Depends on the random number generator; so do the gradients, unless the
    rank of A - M is at most q. ValueError for a q or niter out of range. Source: Halko, Martinsson and Tropp, Finding
    structure with randomness, 2011, algorithms 4.4 and 5.1.

    Example::

        >>> import ferro
        >>> U, S, V = ferro.svd_lowrank(ferro.ones(4, 3), q=1)
        >>> S.round()
        tensor([3.])
    """
    name = "svd_lowrank"
    m, n = matrices(name, A)._data.shape[-2:]
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if niter > MOST_ITERATIONS:
        raise ValueError(f"svd_lowrank: niter(={niter}) must be {MOST_ITERATIONS} at most")
    if M is not None:
        M = backend.functional.expand(need_tensor(name, "M", M), A._data.shape)
    if m < n:
        A, M = adjoint(A), None if M is None else adjoint(M)
    basis = _approximate_basis(A, q, niter, M)
    fn = backend.functional
    u, s, vh = svd_factors(fn.matmul(adjoint(basis), A if M is None else A - M), False)
    u, v = fn.matmul(basis, u), adjoint(vh)
    return (v, s, u) if m < n else (u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple:
    """The principal directions of samples: (U, S, V), see `svd_lowrank`.

    - `A` (Tensor): (..., m, n), m samples of n features
    - `q` (int, default None): how many directions; None: min(6, m, n)
    - `center` (bool, default True): removes the mean of the samples first
    - `niter` (int, default 2): how many power iterations

    The columns of V are the directions, S² / (m - 1) the variances along them. ValueError for a q or niter out of
    range.

    Example::

        >>> import ferro
        >>> U, S, V = ferro.pca_lowrank(ferro.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)
        >>> V.abs().round()
        tensor([[1.],
                [0.]])
    """
    m, n = matrices("pca_lowrank", A)._data.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"pca_lowrank: q(={q}) must be a non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter(={niter}) must be a non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
