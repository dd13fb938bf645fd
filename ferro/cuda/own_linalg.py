"""Linear algebra of a GPU by CuPy's (cuBLAS, cuSOLVER): products, factors, systems of equations, transforms of Fourier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.fourier import NORMS
from ferro.cuda import layouts
from ferro.cuda.by_hand.refused import first_minors, solved_anyway
from ferro.cuda.driver import cupy
from ferro.cuda.half_products import add_product
from ferro.linalg_errors import accepted

__all__ = ["addmm", "cholesky", "cholesky_ex", "det", "dot", "eigh_factors", "eigvalsh", "eigvalsh_kept", "fft_bins", "fft_c2c", "fft_c2r",
           "fft_r2c", "inv", "inv_ex", "linear", "matmul", "mm", "mv", "outer", "qr_factors", "slogdet", "solve", "solve_lu", "solve_tri",
           "svd_factors", "svdvals", "svdvals_kept"]  # fmt: skip


# -- products: cuBLAS adds 16-bit floats in float32 by itself -----------------------------------------------------------------


def matmul(x: Any, y: Any) -> Any:
    """The product of (stacks of) matrices, or of matrices and vectors, of one dtype; stacks are broadcast."""
    return cupy().matmul(x, y)


mm = mv = matmul


def dot(x: Any, y: Any) -> Any:
    """The sum of the products of the elements of two vectors, without conjugation."""
    return cupy().matmul(x, y)


def outer(x: Any, y: Any) -> Any:
    """The products of every element of a vector with every element of another."""
    return x[:, None] * y


def linear(x: Any, w: Any, b: Any = None) -> Any:
    """x wᵀ + b for x of any number of dimensions and a matrix w; of 16-bit floats rounded once."""
    rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), w.shape[1])
    if b is not None and layouts.is_half(x) and rows.size and w.size:
        out = cupy().empty((rows.shape[0], w.shape[0]), x.dtype)
        out[...] = b
        add_product(out, rows, w.T)
    else:
        out = matmul(rows, w.T)
        if b is not None:
            out += b
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], w.shape[0])


def addmm(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta c + alpha x y, where x y is any `matmul`; with beta 0, nan and inf in c do not count."""
    if layouts.is_half(x):
        if x.ndim == y.ndim == 2 and beta != 0 and x.size and y.size:
            out = cupy().empty((x.shape[0], y.shape[1]), x.dtype)
            out[...] = c
            add_product(out, x, y, float(alpha), float(beta))
            return out
        return addmm(layouts.widened(c), layouts.widened(x), layouts.widened(y), beta, alpha).astype(x.dtype)
    out = matmul(x, y)
    if alpha != 1:
        out *= alpha
    if beta != 0:
        out += c if beta == 1 else c * beta
    return out


# -- factors -----------------------------------------------------------------------------------------------------------


def _no_info(x: Any) -> Any:
    return cupy().zeros(x.shape[:-2], np.int32)


def cholesky_ex(x: Any) -> tuple:
    """(L, info): A = L Lᴴ by the lower triangle of A; where there is none, info is the first minor that is not positive."""
    if not x.size:
        return x.copy(), _no_info(x)
    lower = cupy().tril(x)
    eye = cupy().eye(x.shape[-1], dtype=x.dtype)
    whole = lower + cupy().tril(x, -1).conj().swapaxes(-1, -2)
    whole = cupy().where(eye != 0, whole.real.astype(x.dtype), whole) if x.dtype.kind == "c" else whole
    out = cupy().tril(cupy().linalg.cholesky(whole))
    size = (out * out.conj()).real.sum(-1)
    diagonal = whole.real.diagonal(0, -2, -1)
    near = x.shape[-1] * 8 * float(np.finfo(x.dtype).eps) * cupy().abs(diagonal)
    refused = ~(cupy().abs(size - diagonal) <= near).all(-1)  # (nan is not near)
    info = _no_info(x)
    first_minors(cupy().ascontiguousarray(whole), refused, info)
    return out, info


def cholesky(x: Any) -> Any:
    """L with A = L Lᴴ by the lower triangle of A; Refused where there is none."""
    out, info = cholesky_ex(x)
    accepted(info.get())
    return out


def solve_lu(a: Any, b: Any, left: bool) -> tuple:
    """(X, info, LU, pivots): A X = B or (left False) X A = B; the factors are not kept: None."""
    if not left:
        x, info, _, _ = solve_lu(a.swapaxes(-1, -2), b.swapaxes(-1, -2), True)
        return cupy().ascontiguousarray(x.swapaxes(-1, -2)), info, None, None
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not a.size or not b.size:
        info = (
            solved_anyway(a.copy("C"), cupy().zeros((*a.shape[:-1], 0), a.dtype), _singular(a))
            if a.size
            else _no_info(a)
        )
        return cupy().zeros((*batch, *b.shape[-2:]), b.dtype), info, None, None
    wide, c = (cupy().broadcast_to(m, (*batch, *m.shape[-2:])).copy("C") for m in (a, b))
    found, refused = cupy().linalg.solve(wide, c), _singular(wide)
    info = solved_anyway(wide, c, refused)
    if a.shape[:-2] != batch:
        info = solved_anyway(a.copy("C"), cupy().zeros((*a.shape[:-1], 0), a.dtype), _singular(a))
    return cupy().where(refused[..., None, None], c, found), info, None, None


def _singular(a: Any) -> Any:
    """Which matrices have a pivot that is 0."""
    return cupy().linalg.slogdet(a)[0] == 0


def solve(a: Any, b: Any, left: bool) -> tuple:
    """(X, LU, pivots) of `solve_lu`; Refused for a singular matrix."""
    x, info, lu, pivots = solve_lu(a, b, left)
    accepted(info.get())
    return x, lu, pivots


def inv_ex(x: Any) -> tuple:
    """(A⁻¹, info)."""
    eye = cupy().broadcast_to(cupy().eye(x.shape[-1], dtype=x.dtype), x.shape)
    out, info, _, _ = solve_lu(x, eye, True)
    return out, info


def inv(x: Any) -> Any:
    """A⁻¹; Refused for a singular matrix."""
    out, info = inv_ex(x)
    accepted(info.get())
    return out


def threshold(size: Any, atol: Any, rtol: Any) -> Any:
    """max(atol, rtol times the largest of the sizes), in their dtype."""
    largest = size.max(-1, keepdims=True) if size.shape[-1] else cupy().zeros((*size.shape[:-1], 1), size.dtype)
    return cupy().maximum(cupy().asarray(atol), cupy().asarray(rtol) * largest).astype(size.dtype)


def solve_tri(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """X with A X = B, or (left False) X A = B, where only one triangle of A is read (unit: nor its diagonal)."""
    if not left:
        return solve_tri(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, True, unit).swapaxes(-1, -2)
    turn = slice(
        None, None, 1 if upper else -1
    )  # (the pivots of an upper triangle are its diagonal, whatever there is)
    triangle = cupy().triu(a) if upper else cupy().tril(a)[..., ::-1, ::-1].copy("C")
    if unit:
        i = cupy().arange(a.shape[-1])
        triangle[..., i, i] = 1
    return solve_lu(triangle, b[..., turn, :], True)[0][..., turn, :]


def det(x: Any) -> Any:
    """The determinant."""
    return cupy().linalg.det(x)


def slogdet(x: Any) -> tuple:
    """(det A / |det A|, ln |det A|, None, None); (0, -inf) for a singular matrix: no factors are kept."""
    return *cupy().linalg.slogdet(x), None, None


def qr_factors(x: Any, mode: str) -> tuple:
    """(Q, R); mode: "reduced", "complete", or "r" for an empty Q."""
    if mode == "r":
        return cupy().zeros(0, x.dtype), cupy().linalg.qr(x, "r")
    return tuple(cupy().linalg.qr(x, mode))


def svd_factors(x: Any, full: bool) -> tuple:
    """(U, S, Vᴴ) with X = U diag(S) Vᴴ; full: U and V are square."""
    return tuple(cupy().linalg.svd(x, full))


def svdvals(x: Any) -> Any:
    """The singular values in descending order."""
    return cupy().linalg.svd(x, compute_uv=False)


def svdvals_kept(x: Any, keep: bool) -> tuple:
    """(singular values, U, Vᴴ), the vectors None unless they are kept for the derivative."""
    if not keep:
        return svdvals(x), None, None
    u, s, vh = svd_factors(x, False)
    return s, u, vh


def eigh_factors(x: Any, upper: bool) -> tuple:
    """(eigenvalues, eigenvectors) of the Hermitian matrices of which one triangle is read; ascending."""
    return tuple(cupy().linalg.eigh(x, "U" if upper else "L"))


def eigvalsh(x: Any, upper: bool) -> Any:
    """The eigenvalues of Hermitian matrices of which one triangle is read; ascending."""
    return cupy().linalg.eigvalsh(x, "U" if upper else "L")


def eigvalsh_kept(x: Any, upper: bool, keep: bool) -> tuple:
    """(eigenvalues, eigenvectors), the vectors None unless they are kept for the derivative."""
    return eigh_factors(x, upper) if keep else (eigvalsh(x, upper), None)


# -- Fourier -----------------------------------------------------------------------------------------------------------


def fft_c2c(x: Any, dims: tuple, scale: int, inverse: bool) -> Any:
    """Σ_j x_j exp(∓2πi jk/n), times a scale, along every one of `dims`; + in the inverse transform."""
    f = cupy().fft
    return (f.ifftn if inverse else f.fftn)(x, axes=dims, norm=NORMS[inverse][scale])


def fft_r2c(x: Any, dims: tuple, scale: int, inverse: bool) -> Any:
    """fft_c2c of real numbers, of which the last of `dims` shows the bins 0 to n // 2: the others are conjugates."""
    found = cupy().fft.rfftn(x, axes=dims, norm=NORMS[False][scale])
    return found.conj() if inverse else found


def fft_c2r(x: Any, dims: tuple, n: int, scale: int, inverse: bool) -> Any:
    """The n real numbers, along the last of `dims`, whose bins 0 to n // 2 are given; what cannot be theirs is ignored."""
    size = (*[x.shape[d] for d in dims[:-1]], n)
    given, norm = (x, NORMS[True][scale]) if inverse else (x.conj(), ("forward", "ortho", "backward")[scale])
    return cupy().fft.irfftn(given, size, dims, norm)


def fft_bins(x: Any, dim: int, n: int, factor: float) -> Any:
    """A copy of the bins 0 to n // 2 of n real numbers with those multiplied by `factor` that stand for two."""
    out = x.copy()
    out[(slice(None),) * dim + (slice(1, (n + 1) // 2),)] *= factor
    return out
