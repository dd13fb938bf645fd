"""Singular value decompositions.

Derivatives of singular vectors divide by differences of singular values: where two of them are equal the vectors are
not functions of the matrix, and their derivatives come out as inf or nan.  The singular values themselves, the nuclear
norm and the polar factor do not divide by differences; see each of them for repeated and zero singular values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend, return_types
from ferro.core.apply import apply
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.matrix_arguments import matrices, named, recorded
from ferro.ops.products import adjoint

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["svd"]


# -- what spectral operations share ------------------------------------------------------------------------------------


def diagonal_matrix(xp: Any, x: Any) -> Any:
    """The matrices with the last dimension of x on their diagonals."""
    n = len(x.shape)
    return xp.diag_embed(x, 0, n - 1, n)


def skew(x: Any) -> Any:
    """The skew-Hermitian part."""
    return (x - adjoint(x)) / 2


def hollow(xp: Any, x: Any) -> Any:
    """The matrices with zeros on their diagonals."""
    return xp.tril(x, -1) + xp.triu(x, 1)


def differences(xp: Any, values: Any) -> Any:
    """values_j - values_i at (i, j), and 1 on the diagonal."""
    return values[..., None, :] - values[..., :, None] + diagonal_matrix(xp, xp.ones_like(values))


def need_phase_free(name: str, what: str, x: Any) -> None:
    """Refuses a loss that changes when a singular or eigenvector is multiplied by a phase.

    Its derivative by the phases is the imaginary diagonal of x.
    """
    a = plain(getattr(x, "_data", x))
    if a.dtype.kind == "c" and a.size:
        phases = abs(a.diagonal(0, -2, -1).imag).max()
        if phases > 1e-2 and phases > 1e-3 * abs(a).max():
            raise RuntimeError(
                f"{name}: {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified "
                "loss function depends on this phase term, making it ill-defined."
            )


def need_basis_free(name: str, x: Any) -> None:
    """Refuses a loss that depends on which basis of a null space full_matrices=True has chosen."""
    a = plain(getattr(x, "_data", x))
    if a.size:
        turned = abs(a - a.conj().swapaxes(-1, -2)).max()
        if turned > 1e-2 and turned > 1e-3 * abs(a).max():
            raise RuntimeError(
                f"{name}: with full_matrices=True the vectors beyond the first min(m, n) are an arbitrary basis of a null "
                "space. The specified loss function depends on that choice, so its gradient does not exist; use "
                "full_matrices=False, or a function of the space they span."
            )


def spread_matrix(rng: Any, shape: tuple) -> Any:
    """Matrices with singular values 1, 2, 3, ...: no two of them near each other, none near 0."""
    u, _, vh = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    return (u * np.arange(1.0, u.shape[-1] + 1)) @ vh


MATRICES = [Arg(*shape, make=spread_matrix) for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 3), (2, 2, 0))]


# -- singular value decomposition --------------------------------------------------------------------------------------


@in_full_precision
def linalg_svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> return_types.linalg_svd:
    """The singular value decomposition A = U diag(S) Vᴴ: (U, S, Vh).

    - `A` (Tensor): (..., m, n)
    - `full_matrices` (bool, default True): gives U (..., m, m) and Vh (..., n, n), else (..., m, k) and (..., k, n)
      with k = min(m, n)
    - `driver` (str, default None): must be None: it is for CUDA
    - `out` (tuple of three Tensors, default None): where to write them

    S is (..., k), in descending order. Singular vectors are unique up to a sign (complex: a phase). With P = Uᴴ dA V,
    dS = Re diag P; dU and dV follow from the Hermitian part of P divided by sⱼ - sᵢ and its skew part divided by sⱼ +
    sᵢ, which avoids the cancellation in sⱼ² - sᵢ². The vectors beyond the first k have a derivative too, as far as the
    loss depends on the space they span only. Raises RuntimeError in backward if the loss depends on phases or on the
    basis of a null space; derivatives of vectors are inf or nan where singular values are equal (or zero, if m ≠ n).
    Sources: Wan and Zhang, Automatic differentiation for complex valued SVD, 2019; Townsend, Differentiating the
    Singular Value Decomposition, 2016.

    Example::

        >>> import ferro
        >>> U, S, Vh = ferro.linalg.svd(ferro.tensor([[3.0, 0.0], [4.0, 5.0]]))
        >>> S
        tensor([6.7082, 2.2361])
    """
    _need_no_driver("linalg.svd", driver)
    matrices("linalg.svd", A)
    result = apply(SVD, (A,), (bool(full_matrices),))
    return named("linalg.svd", return_types.linalg_svd, result, out)


def _need_no_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


def svd_factors(x: Tensor, full: bool) -> tuple:
    """(U, S, Vᴴ)."""
    return apply(SVD, (x,), (full,))


def _svd_x(xp: Any, g: Any, U: Any, S: Any, Vh: Any, full: bool) -> Any:
    gu, gs, gvh = g
    k = S.shape[-1]
    m, n = U.shape[-2], Vh.shape[-1]
    gv, v = None if gvh is None else adjoint(gvh), adjoint(Vh)
    u1, v1 = (U, v) if not full else (U[..., :k], v[..., :k])
    v1h = Vh if not full else Vh[..., :k, :]
    if gu is None and gv is None:
        return xp.matmul(u1 * gs[..., None, :], v1h)
    core = _turning(
        xp,
        S,
        *[None if h is None else xp.matmul(adjoint(w), h[..., :k] if full else h) for w, h in ((u1, gu), (v1, gv))],
    )
    if gs is not None:
        core = core + diagonal_matrix(xp, gs)
    result = xp.matmul(xp.matmul(u1, core), v1h)
    if m > k and gu is not None:
        result = result + xp.matmul(_leaving(xp, gu, U, k, full) / S[..., None, :], v1h)
    if n > k and gv is not None:
        result = result + xp.matmul(u1, adjoint(_leaving(xp, gv, v, k, full) / S[..., None, :]))
    return result


def _turning(xp: Any, S: Any, x: Any, y: Any) -> Any:
    """The cotangent of Uᴴ dA V by which U and V turn within their spaces, from x = Uᴴ gU and y = Vᴴ gV."""
    need_phase_free("svd_backward", "The singular vectors", x if y is None else y if x is None else x + y)
    a, b = [None if z is None else skew(z) for z in (x, y)]
    both = b if a is None else a if b is None else a + b
    apart = a if b is None else -b if a is None else a - b
    sums = S[..., None, :] + S[..., :, None]
    if both.dtype is S.dtype:  # real: the diagonal of a skew matrix is 0, whatever it is divided by
        sums = sums + diagonal_matrix(xp, xp.ones_like(S))
    else:
        both = hollow(xp, both)
    return both / differences(xp, S) + apart / sums


def _leaving(xp: Any, g: Any, u: Any, k: int, full: bool) -> Any:
    """The cotangent of the part of dU₁ that leaves the space of the first k vectors."""
    if not full:
        return g - xp.matmul(u, xp.matmul(adjoint(u), g))
    u1, u2, g1, g2 = u[..., :k], u[..., k:], g[..., :k], g[..., k:]
    need_basis_free("svd_backward", xp.matmul(adjoint(u2), g2))
    return xp.matmul(u2, xp.matmul(adjoint(u2), g1) - xp.matmul(adjoint(g2), u1))


SVD = Op(
    "linalg.svd", lambda xp, x, /, full: xp.svd_factors(x, full), outputs=("U", "S", "Vh"), x=_svd_x, weight=1000.0
)
# The signs of singular vectors are LAPACK's, which PyTorch need not share; phases are no subject of the tests.
declare(
    "linalg.svd", [Sample(a, False) for a in MATRICES], reference=lambda a: tuple(np.linalg.svd(a, full_matrices=False))
)


@in_full_precision
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values of (..., m, n) matrices in descending order, (..., min(m, n)).  dS = Re diag(Uᴴ dA V).

    The gradient is finite everywhere: of equal singular values it is that of one choice of vectors, and zero singular
    values get 0 (as abs at 0).  Second derivatives are inf or nan where singular values are equal.

        >>> import ferro
        >>> ferro.linalg.svdvals(ferro.tensor([[3.0, 0.0], [4.0, 5.0]]))
        tensor([6.7082, 2.2361])
    """
    _need_no_driver("linalg.svdvals", driver)
    matrices("linalg.svdvals", A)
    result = apply(SVDVALS, (A,), (recorded(A),))
    return result if out is None else into("linalg.svdvals", out, result)


def _svdvals_x(xp: Any, g: Any, x: Any, out: Any, U: Any, Vh: Any) -> Any:
    u, s, vh = xp.svd_factors(x, False) if U is None else (U, out, Vh)
    return xp.matmul(u * xp.where(s == 0, 0.0, g)[..., None, :], vh)


SVDVALS = Op(
    "linalg.svdvals",
    lambda xp, x, /, keep: xp.svdvals_kept(x, keep),
    aux=("U", "Vh"),
    x=_svdvals_x,
    weight=1000.0,
    samples=[Sample(a) for a in MATRICES],
    complex=True,
)


@in_full_precision
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> return_types.svd:
    """The older form of `linalg.svd`: A = U diag(S) Vᴴ as (U, S, V), with V in the place of its adjoint.

    - `input` (Tensor): A, (..., m, n)
    - `some` (bool, default True): gives thin matrices, of k = min(m, n) columns
    - `compute_uv` (bool, default True): False gives zeros for U and V
    - `out` (tuple of three Tensors, default None): where to write them

    RuntimeError for fewer than two dimensions.

    Example::

        >>> import ferro
        >>> ferro.svd(ferro.tensor([[3.0, 0.0], [0.0, 4.0]])).S.round()
        tensor([4., 3.])
    """
    shape = matrices("svd", input, "input")._data.shape
    if compute_uv:
        u, s, vh = apply(SVD, (input,), (not some,))
        result = (u, s, adjoint(vh))
    else:
        dtype, (m, n) = input._data.dtype, shape[-2:]
        zeros = [wrap(backend.beside(input._data, np.zeros((*shape[:-2], k, k), dtype))) for k in (m, n)]
        result = (zeros[0], apply(SVDVALS, (input,), (recorded(input),)), zeros[1])
    return named("svd", return_types.svd, result, out)


declare("svd", [Sample(a, compute_uv=False) for a in MATRICES], complex=True)


singular(
    "linalg.svdvals",
    "the zero matrix",
    Sample(Arg(values=[[0.0, 0.0], [0.0, 0.0]])),
    "of the subgradients the smallest, as for abs at 0",
)
singular(
    "linalg.svdvals",
    "two equal singular values",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]])),
    "first: the gradient for one choice of singular vectors; second: these are no functions of the matrix",
)
singular(
    "linalg.svd",
    "two equal singular values",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]])),
    "the singular vectors are not continuous there: no finite number would be right",
)


class SpectralMethods:
    """Methods of Tensor."""

    __slots__ = ()
    svd = svd
