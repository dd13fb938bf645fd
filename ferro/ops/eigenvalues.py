"""Eigenvalues and eigenvectors of general and of Hermitian matrices.

Derivatives of eigenvectors divide by differences of eigenvalues: where two of them are equal the vectors are not
functions of the matrix, and their derivatives come out as inf or nan.  Gradients of eigenvalues of Hermitian matrices
are finite everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import return_types
from ferro.core.apply import apply, unary
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.matrix_arguments import named, recorded, square
from ferro.ops.products import adjoint
from ferro.ops.spectral import diagonal_matrix, differences, hollow, need_phase_free, skew

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__: list[str] = []


# -- Hermitian matrices ------------------------------------------------------------------------------------------------


def _upper(UPLO: str) -> bool:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"linalg.eigh: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@in_full_precision
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> return_types.linalg_eigh:
    """(eigenvalues, eigenvectors) of Hermitian (..., n, n) matrices: A = V diag(L) Vᴴ, L real and ascending.

    Only one triangle of A is read, but the gradient is that for Hermitian changes of A, and Hermitian.  With
    P = Vᴴ dA V, dL = Re diag P and dV = V [P / (lⱼ - lᵢ)] (Magnus, "On differentiating eigenvalues and eigenvectors").

    Raises RuntimeError in backward if the loss depends on the phases of complex vectors.

        >>> import ferro
        >>> ferro.linalg.eigh(ferro.tensor([[2.0, 0.0], [1.0, 2.0]])).eigenvalues
        tensor([1., 3.])
    """
    square("linalg.eigh", A)
    result = apply(EIGH, (A,), (_upper(UPLO),))
    return named("linalg.eigh", return_types.linalg_eigh, result, out)


def eigh_factors(x: Tensor, upper: bool) -> tuple:
    """(eigenvalues, eigenvectors)."""
    return apply(EIGH, (x,), (upper,))


def _eigh_x(xp: Any, g: Any, L: Any, V: Any) -> Any:
    gl, gv = g
    if gv is None:
        return xp.matmul(V * gl[..., None, :], adjoint(V))
    x = xp.matmul(adjoint(V), gv)
    need_phase_free("linalg_eigh_backward", "The eigenvectors", x)
    core = hollow(xp, skew(x)) / differences(xp, L)
    if gl is not None:
        core = core + diagonal_matrix(xp, gl)
    return xp.matmul(xp.matmul(V, core), adjoint(V))


def _hermitian(rng: Any, shape: tuple) -> Any:
    """Symmetric matrices with eigenvalues 1, 2, 3, ..."""
    q, _ = np.linalg.qr(rng.standard_normal(shape))
    return (q * np.arange(1.0, shape[-1] + 1)) @ q.swapaxes(-1, -2)


# Central differences would leave the space of the symmetric matrices, on which the gradients are defined.
_SYMMETRIC = [
    Sample(Arg(*shape, make=_hermitian), smooth=False, twice=False)
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))
]

EIGH = Op(
    "linalg.eigh", lambda xp, x, /, upper: xp.eigh_factors(x, upper), outputs=("L", "V"), x=_eigh_x, weight=1000.0
)
declare("linalg.eigh", _SYMMETRIC, reference=lambda a: tuple(np.linalg.eigh(a)))


@in_full_precision
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of Hermitian (..., n, n) matrices, real and ascending.  dL = Re diag(Vᴴ dA V).

    The gradient is finite everywhere; of equal eigenvalues it is that of one choice of vectors.
    """
    square("linalg.eigvalsh", A)
    result = apply(EIGVALSH, (A,), (_upper(UPLO), recorded(A)))
    return result if out is None else into("linalg.eigvalsh", out, result)


def _eigvalsh_x(xp: Any, g: Any, x: Any, V: Any, upper: bool) -> Any:
    v = xp.eigh_factors(x, upper)[1] if V is None else V
    return xp.matmul(v * g[..., None, :], adjoint(v))


EIGVALSH = Op(
    "linalg.eigvalsh",
    lambda xp, x, /, upper, keep: xp.eigvalsh_kept(x, upper, keep),
    aux=("V",),
    x=_eigvalsh_x,
    weight=1000.0,
    samples=[*_SYMMETRIC, Sample(Arg(3, 3, make=_hermitian), "U", smooth=False, twice=False)],
    complex=True,
)


singular(
    "linalg.eigvalsh",
    "two equal eigenvalues",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]])),
    "first: the gradient for one choice of eigenvectors; second: these are no functions of the matrix",
)
singular(
    "linalg.eigh",
    "two equal eigenvalues",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]])),
    "the eigenvectors are not continuous there: no finite number would be right",
)


# -- general matrices --------------------------------------------------------------------------------------------------


@in_full_precision
def eig(A: Tensor, *, out: Any = None) -> return_types.linalg_eig:
    """(eigenvalues, eigenvectors) of (..., n, n) matrices, complex: A V = V diag(L), the columns of V of norm one.

    With P = V⁻¹ dA V, dL = diag P and dV = V [P / (lⱼ - lᵢ)], less what would change the norms (Giles, "An extended
    collection of matrix derivative results", section 3.1).

    Raises RuntimeError in backward if the loss depends on the phases of the vectors; derivatives are inf or nan
    at defective matrices, and those of vectors where eigenvalues are equal.
    """
    square("linalg.eig", A)
    result = apply(EIG, (A,))
    return named("linalg.eig", return_types.linalg_eig, result, out)


def eig_factors(x: Tensor) -> tuple:
    """(eigenvalues, eigenvectors)."""
    return apply(EIG, (x,))


def _eig_x(xp: Any, g: Any, L: Any, V: Any) -> Any:
    gl, gv = g
    vh = adjoint(V)
    if gv is None:
        return _from_eigenbasis(xp, vh, gl[..., :, None] * vh)
    x = xp.matmul(vh, gv)
    need_phase_free("linalg_eig_backward", "The eigenvectors", x)
    n = len(L.shape) - 1
    lengths = xp.matmul(vh, V) * xp.diagonal(x, 0, n, n + 1)[..., None, :]
    core = hollow(xp, x - lengths) / differences(xp, L).conj()
    if gl is not None:
        core = core + diagonal_matrix(xp, gl)
    return _from_eigenbasis(xp, vh, xp.matmul(core, vh))


def _from_eigenbasis(xp: Any, vh: Any, x: Any) -> Any:
    """V⁻ᴴ X."""
    return xp.solve_lu(vh, x, True)[0]


EIG = Op("linalg.eig", lambda xp, x: xp.eig_factors(x), outputs=("L", "V"), x=_eig_x, weight=1000.0)


@in_full_precision
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of (..., n, n) matrices, complex, in no particular order.  dL = diag(V⁻¹ dA V)."""
    square("linalg.eigvals", A)
    result = unary(EIGVALS, A)
    return result if out is None else into("linalg.eigvals", out, result)


def _eigvals_x(xp: Any, g: Any, x: Any) -> Any:
    vh = adjoint(xp.eig_factors(x)[1])
    return _from_eigenbasis(xp, vh, g[..., :, None] * vh)


EIGVALS = Op("linalg.eigvals", lambda xp, x: xp.eigvals(x), x=_eigvals_x, weight=1000.0)
declare(
    "linalg.eigvals",
    [Sample(Arg(*shape)) for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))],
    complex=True,
    reference=np.linalg.eigvals,
)
