"""Spectra and orthogonal factors of NumPy arrays: SVD, eigenvalues, QR, reflectors, least squares.

Stacks of matrices go to NumPy's LAPACK in one call, and float32 stays float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.joining import triu
from ferro.cpu.kernels import factor
from ferro.cpu.kernels.common import contiguous
from ferro.cpu.lapack import SMALL, gufunc_of, has, refused, routine, run
from ferro.cpu.linalg_solve import solve_tri
from ferro.cpu.products import matmul
from ferro.cpu.thresholds import FACTOR_CHUNK, FACTOR_MOST, SVD_LEAST
from ferro.linalg_errors import LinAlgError
from ferro.native.blas import blas_single, scipy_blas_single

_ALONE = SMALL * SMALL  # numbers of which LAPACK uses one thread anyway
_QR_BLOCK, _BLOCK = 32, 16  # columns that LAPACK reflects together, to triangular form, and to two or three diagonals
_LINE = 64  # bytes between columns that LAPACK reads, lest columns a page apart drive each other out of the caches

__all__ = ["count_above", "eig_factors", "eigh_factors", "eigvals", "eigvalsh", "eigvalsh_kept", "geqrf", "householder_product", "lstsq",
           "nuclear_norm", "ormqr", "polar_factor", "pseudo_inverse", "qr_factors", "svd_factors", "svdvals", "svdvals_kept"]  # fmt: skip


def _lapack(name: str, function: Callable, x: Any, *args: Any) -> Any:
    """A call of NumPy's LAPACK on one thread (more would round differently), its complaint in the words of `name`."""
    try:
        with blas_single():
            return function(x, *args)
    except np.linalg.LinAlgError:
        bad = ~np.isfinite(x).all((-2, -1))
        why = (
            "the input contains inf or nan"
            if bad.any()
            else "the iteration did not converge: the matrix is ill-conditioned or has too many repeated values"
        )
        where = f" (Batch element {np.argwhere(bad)[0].tolist()})" if bad.any() and bad.ndim else ""
        raise LinAlgError(f"{name}: The algorithm failed to converge because {why}{where}") from None


@lru_cache(maxsize=64)
def _signature(results: str, char: str) -> str:
    """The signature of a gufunc for a dtype; among the results r is real, x as the argument."""
    return f"{char}->" + results.replace("r", {"F": "f", "D": "d"}.get(char, char)).replace("x", char)


def _native(name: str, gufunc: Any, results: str, values: int, x: Any, public: Callable) -> Any:
    """The same without NumPy's wrapper, in which float32 becomes float64; `values` is the number of the real result.

    The wrapper serves where there is no such gufunc, and for a nan among the results: it knows whether to complain.
    """
    if gufunc is not None:
        signature = _signature(results, x.dtype.char)
        if x.size <= _ALONE:
            found = gufunc(x, signature=signature)
        else:
            with blas_single():
                found = gufunc(x, signature=signature)
        some = found[values] if type(found) is tuple else found
        if not some.size or not refused(some[..., 0]):
            return found
    return _lapack(name, public, x)


def adjoint(x: Any) -> Any:
    """The conjugate transposes."""
    return x.conj().swapaxes(-1, -2)


# -- singular values ---------------------------------------------------------------------------------------------------


def _rectangles(make: Make) -> Iterator[tuple]:
    for n in (*sides(SVD_LEAST), SVD_LEAST + 30):
        for m in (n, n + 9, 2 * n):
            for full in (False, True):
                yield make(m, n), full
                yield make(n, m), full


def _product(_: tuple, found: tuple) -> tuple:
    """The singular values, the matrix that all factors make, and the products of columns and of rows."""
    u, s, vh = found
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], adjoint(u) @ u, vh @ adjoint(vh)


@by_kernels("reflect_back", _rectangles, _product)
def svd_factors(x: Any, full: bool) -> tuple:
    """(U, S, Vᴴ) with X = U diag(S) Vᴴ; full: U and V are square."""
    m, n = x.shape[-2:]
    if x.ndim == 2 and min(m, n) >= SVD_LEAST and 6 * max(m, n) < 11 * min(m, n) and factor.ready(x):
        steps = _svd_in_steps(x, full)
        if steps is not None:
            return steps
    found = gufunc_of("svd_f" if full else "svd_s", "svd_" + ("m" if m < n else "n") + ("_f" if full else "_s"))
    return tuple(_native("linalg.svd", found, "xrx", 1, x, lambda a: np.linalg.svd(a, full)))


def _columns_apart(x: Any) -> Any:
    """The columns of a matrix as rows, with a line of the cache between them."""
    m, n = x.shape
    out = np.empty((n, m + _LINE // x.itemsize), x.dtype)
    out[:, :m] = x.T
    return out


def _svd_in_steps(x: Any, full: bool) -> tuple | None:
    """The steps of LAPACK's gesdd for a real matrix that is not far from square, the last one by our kernel, on all threads.

    None where there are no such steps, or the matrix needs LAPACK's care, as in `_eigh_in_steps`.
    """
    (m, n), dtype, number = x.shape, x.dtype, np.finfo(x.dtype)
    k, char, tall = min(m, n), dtype.char, m >= n
    least, largest = math.sqrt(number.tiny) / number.eps, abs(x).max()
    if not least < largest < 1 / least or not has("gebrd", "bdsdc"):
        return None
    a, room = _columns_apart(x), np.empty(max(_BLOCK * (m + n), k * (3 * k + 4)), dtype)
    s, beside, tau_left, tau_right = np.empty((4, k), dtype)
    pitch, integers = k + _LINE // dtype.itemsize, np.empty(8 * k, np.int32)
    u, v = np.empty((k, pitch), dtype), np.empty((k, pitch), dtype)  # of the bidiagonal matrix, by columns
    with scipy_blas_single():
        run("gebrd", char, m, n, a, a.shape[1], s, beside, tau_left, tau_right, room, room.size)
        both = (u, pitch, v, pitch, room, integers, room, integers)
        failed = run("bdsdc", char, "U" if tall else "L", "I", k, s, beside, *both)
    if failed:
        return None
    left, right = np.empty((m, m if full else k), dtype), np.empty((n if full else k, n), dtype)
    factor.reflected(a, tau_left[: k - (not tall)], int(not tall), u, left, in_rows=False)
    factor.reflected(contiguous(a[:, :k].T), tau_right[: k - tall], int(tall), v, right, in_rows=True)
    return left, s, right


def svdvals(x: Any) -> Any:
    """The singular values in descending order."""
    found = gufunc_of("svd", "svd_m" if x.shape[-2] < x.shape[-1] else "svd_n")
    return _native("linalg.svdvals", found, "r", 0, x, lambda a: np.linalg.svd(a, compute_uv=False))


def svdvals_kept(x: Any, keep: bool) -> tuple:
    """(singular values, U, Vᴴ), the vectors None unless they are kept for the derivative: both together cost least."""
    if not keep:
        return svdvals(x), None, None
    u, s, vh = svd_factors(x, False)
    return s, u, vh


def nuclear_norm(x: Any) -> Any:
    """The sum of the singular values."""
    return svdvals(x).sum(-1)


def kept(s: Any, m: int, n: int) -> Any:
    """Which singular values of m x n matrices are above rounding error."""
    largest = s[..., :1] if s.shape[-1] else s
    return s > largest * (max(m, n) * float(np.finfo(s.dtype).eps))


def polar_factor(x: Any) -> Any:
    """U Vᴴ from the singular vectors whose singular values are above rounding error."""
    u, s, vh = svd_factors(x, False)
    return matmul(u * kept(s, *x.shape[-2:])[..., None, :], vh)


# -- eigenvalues -------------------------------------------------------------------------------------------------------


def _symmetric(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL + 1), 130):
        x = make(n, n)
        yield x + x.T, n % 2 == 0


def _eigen(_: tuple, found: tuple) -> tuple:
    """The eigenvalues, and the matrix that they and the eigenvectors make."""
    values, vectors = found
    return values, (vectors * values) @ vectors.T


@by_kernels("reflect_back", _symmetric, _eigen)
def eigh_factors(x: Any, upper: bool) -> tuple:
    """(eigenvalues, eigenvectors) of the Hermitian matrices of which one triangle is read; ascending."""
    if x.ndim == 2 and len(x) > SMALL and factor.ready(x):
        found = _eigh_in_steps(x.T if upper else x)
        if found is not None:
            return found
    found = gufunc_of("eigh_up" if upper else "eigh_lo")
    return tuple(_native("linalg.eigh", found, "rx", 0, x, lambda a: np.linalg.eigh(a, "U" if upper else "L")))


def _eigh_in_steps(x: Any) -> tuple | None:
    """The steps of LAPACK's syevd for the lower triangle of a real matrix, the last one by our kernel, a fifth quicker.

    None for what needs LAPACK's care: numbers so large or small that it scales them, inf, nan, and no convergence.
    """
    n, char, number = len(x), x.dtype.char, np.finfo(x.dtype)
    if not has("sytrd"):
        return None
    packed, room = _columns_apart(x), np.empty(_BLOCK * n, x.dtype)
    diagonal, beside, tau = np.empty((3, n), x.dtype)
    with scipy_blas_single():
        run("sytrd", char, "L", n, packed, packed.shape[1], diagonal, beside, tau, room, room.size)
        largest = abs(diagonal).max() + abs(beside[:-1]).max()  # (of nan `max` may choose the other)
        if not math.sqrt(number.tiny / number.eps) < largest < math.sqrt(number.max * number.eps):
            return None
        values, vectors, failed = routine("lapack", "stevd", char)(diagonal, beside[:-1])
    if failed:
        return None
    return values, factor.reflected(packed, tau[:-1], 1, vectors.T, np.empty(x.shape, x.dtype), in_rows=False)


def eigvalsh(x: Any, upper: bool) -> Any:
    """The eigenvalues of Hermitian matrices of which one triangle is read; ascending."""
    found = gufunc_of("eigvalsh_up" if upper else "eigvalsh_lo")
    return _native("linalg.eigvalsh", found, "r", 0, x, lambda a: np.linalg.eigvalsh(a, "U" if upper else "L"))


def eigvalsh_kept(x: Any, upper: bool, keep: bool) -> tuple:
    """(eigenvalues, eigenvectors), the vectors None unless they are kept for the derivative."""
    return eigh_factors(x, upper) if keep else (eigvalsh(x, upper), None)


def _complex(x: Any) -> Any:
    return x if x.dtype.kind == "c" else x.astype(np.complex64 if x.dtype.itemsize == 4 else np.complex128)


def eig_factors(x: Any) -> tuple:
    """(eigenvalues, eigenvectors of norm one), complex."""
    return tuple([_complex(r) for r in _lapack("linalg.eig", np.linalg.eig, x)])


def eigvals(x: Any) -> Any:
    """The eigenvalues, complex."""
    return _complex(_lapack("linalg.eigvals", np.linalg.eigvals, x))


# -- orthogonal factors ------------------------------------------------------------------------------------------------


def _columns(make: Make) -> Iterator[tuple]:
    for m, n in ((1, 1), (SMALL, SMALL), (SMALL + 1, SMALL + 1), *[(m, 8) for m in sides(FACTOR_MOST // 8 + 1)]):
        yield make(m, n) + np.eye(m, n, dtype=make(1).dtype), "reduced"
    for count in sides(math.ceil(FACTOR_CHUNK / 40**3)):
        yield make(max(count, 1), 40, 40), "reduced"
    for mode in ("reduced", "complete", "r"):
        yield make(70, 33), mode
        yield make(2, 33, 70), mode


@by_kernels("reflect_blocks", _columns)
def qr_factors(x: Any, mode: str) -> tuple:
    """(Q, R); mode: "reduced", "complete", or "r" for an empty Q."""
    m, n = x.shape[-2:]
    found = factor.qr(x, m if mode == "complete" else min(m, n)) if factor.ready(x) else None
    if found is not None:
        return found if mode != "r" else (np.zeros(0, x.dtype), found[1])
    if not x.size or (x.ndim > 2 and max(x.shape[-2:]) <= SMALL):
        result = _lapack("linalg.qr", np.linalg.qr, x, mode)
        return (np.zeros(0, x.dtype), result) if mode == "r" else tuple(result)
    if x.ndim > 2:
        found = [qr_factors(a, mode) for a in x.reshape(-1, *x.shape[-2:])]
        q, r = [np.stack(some).reshape(*x.shape[:-2], *some[0].shape) for some in zip(*found, strict=True)]
        return (np.zeros(0, x.dtype) if mode == "r" else q), r
    columns = m if mode == "complete" else min(m, n)
    with scipy_blas_single():
        packed, tau, _, _ = routine("lapack", "geqrf", x.dtype.char)(x, lwork=_QR_BLOCK * n)
        r = triu(packed[:columns], 0)
        if mode == "r":
            return np.zeros(0, x.dtype), r
        if columns > n:
            packed, short = np.empty((columns, m), x.dtype).T, packed
            packed[:, :n] = short
        form = routine("lapack", "orgqr" if x.dtype.kind == "f" else "ungqr", x.dtype.char)
        return form(packed[:, :columns], tau, lwork=_QR_BLOCK * columns, overwrite_a=1)[0], r


def geqrf(x: Any) -> tuple:
    """(A, tau): R on and above the diagonal, the Householder vectors below it and their factors."""
    h, tau = _lapack("geqrf", np.linalg.qr, x, "raw")
    return h.swapaxes(-1, -2), tau


def _block_reflector(a: Any, tau: Any) -> tuple:
    """(V, T) with H₁ ... H_k = I - V T Vᴴ."""
    k = tau.shape[-1]
    v = np.tril(a[..., :k], -1)
    i = np.arange(k)
    v[..., i, i] = 1
    d = tau[..., :, None]
    t = np.zeros((*tau.shape, k), a.dtype)
    t[..., i, i] = tau
    return v, solve_tri(d * np.triu(matmul(adjoint(v), v), 1), t, True, True, True)


def ormqr(a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> Any:
    """Q C, or (left False) C Q, or with Qᴴ (transpose), for the product Q of the reflectors in a and tau."""
    v, t = _block_reflector(a, tau)
    t = adjoint(t) if transpose else t
    if left:
        return c - matmul(v, matmul(t, matmul(adjoint(v), c)))
    return c - matmul(matmul(matmul(c, v), t), adjoint(v))


def householder_product(a: Any, tau: Any) -> Any:
    """The first n columns of the product of the reflectors in a (m x n) and tau."""
    e = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
    return ormqr(a, tau, e, True, False)


# -- least squares -----------------------------------------------------------------------------------------------------


def pseudo_inverse(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """V S⁺ Uᴴ, where singular values of at most max(atol, rtol s₁) count as zero; hermitian: by eigenvalues."""
    if hermitian:
        s, v = eigh_factors(x, False)
        size = abs(s)
        left, right = v, adjoint(v)
    else:
        u, s, vh = svd_factors(x, False)
        size, left, right = s, adjoint(vh), adjoint(u)
    keep = size > threshold(size, atol, rtol)
    inverse = np.where(keep, 1, 0).astype(s.dtype) / np.where(keep, s, 1)
    return matmul(left * inverse[..., None, :], right)


def threshold(size: Any, atol: Any, rtol: Any) -> Any:
    """max(atol, rtol times the largest of the sizes), in their dtype."""
    largest = size.max(-1, keepdims=True, initial=0)
    return np.maximum(np.asarray(atol), np.asarray(rtol) * largest).astype(size.dtype)


def count_above(size: Any, atol: Any, rtol: Any) -> Any:
    """How many sizes are above the threshold."""
    return (size > threshold(size, atol, rtol)).sum(-1)


def lstsq(a: Any, b: Any, rcond: float, driver: str) -> tuple:
    """(X, residuals, rank, singular values, U, S⁺, Vᴴ) of min |A X - B|; what a LAPACK driver does not give is empty.

    "gels" is QR and has no U, S⁺, Vᴴ (None); the others are the singular value decomposition of the whole stack.
    """
    m, n = a.shape[-2:]
    ranks = np.zeros(0, np.int64)
    values = residuals = np.zeros(0, a.real.dtype)
    u = inverse = vh = None
    if driver == "gels":
        x = _full_rank(a, b)
    else:
        u, s, vh = _lapack("linalg.lstsq", np.linalg.svd, a, False)
        keep = s > rcond * s[..., :1]
        inverse = np.where(keep, 1, 0).astype(s.dtype) / np.where(keep, s, 1)
        ranks = np.asarray(keep.sum(-1))
        x = matmul(adjoint(vh), inverse[..., :, None] * matmul(adjoint(u), b))
        values = s if driver != "gelsy" else values
    if m > n and (driver == "gels" or (driver != "gelsy" and (ranks == n).all())):
        residuals = (abs(b - matmul(a, x)) ** 2).sum(-2)
    return x, residuals, ranks, values, u, inverse, vh


def _full_rank(a: Any, b: Any) -> Any:
    """The solutions by QR of A, or of Aᴴ if A is wide."""
    tall = a.shape[-2] >= a.shape[-1]
    q, r = _lapack("linalg.lstsq", np.linalg.qr, a if tall else adjoint(a))
    pivots = abs(r.diagonal(0, -2, -1))
    if not (pivots > 0).all():
        why = (
            "the input contains inf or nan"
            if not np.isfinite(pivots).all()
            else (
                f"driver 'gels' needs matrices of full rank, but a triangular factor has a zero at {int(np.argmin(pivots)) % r.shape[-1] + 1}; "
                "use driver='gelsd'"
            )
        )
        raise LinAlgError(f"linalg.lstsq: The least squares solution could not be computed: {why}")
    if tall:
        return solve_tri(r, matmul(adjoint(q), b), True, True, False)
    return matmul(q, solve_tri(adjoint(r), b, False, True, False))
