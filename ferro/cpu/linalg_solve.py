"""Factorisations by elimination, and what solves systems with them: Cholesky, LU, LDL, triangles, inverses.

A stack of small matrices is one call of NumPy's LAPACK; large ones go to kernels of our own (kernels/factor.py), and
where there are none, or to tell which of a stack it was that NumPy refused, one by one to SciPy's.  Nothing here raises
for a singular matrix: `info` is LAPACK's number of the first zero pivot, or of the first minor that is not positive; 0 is
success.  LAPACK runs on one thread, so that numbers do not depend on the number of threads (see Note in threads.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import factor, triangle
from ferro.cpu.lapack import SMALL, native, refused, routine
from ferro.cpu.thresholds import FACTOR_CHUNK
from ferro.linalg_errors import accepted
from ferro.native.blas import scipy_blas_single
from ferro.native.readiness import ready
from ferro.native.workers import run_rows

__all__ = ["cholesky", "cholesky_ex", "inv", "inv_ex", "ldl_below", "ldl_blocks", "ldl_exchanges", "ldl_factor", "ldl_multipliers",
           "lu_factor", "lu_packed_solve", "solve", "solve_lu", "solve_tri", "swap_rows"]  # fmt: skip


_ELIMINATE = ("eliminate",)
_TINY = 16  # order up to which elimination without blocks is quick
_STACK = 16  # such matrices from which a kernel for all costs less than a call of LAPACK for each


def _lapack(name: str, x: Any) -> Any:
    return routine("lapack", name, x.dtype.char)


def _stacked(x: Any, ndim: int = 2) -> Any:
    """The matrices (or, ndim 1, vectors) as a stack of one dimension."""
    rest = x.shape[x.ndim - ndim :]
    return x.reshape(math.prod(x.shape[: x.ndim - ndim]), *rest)


def _by_columns(x: Any) -> Any:
    """A copy whose matrices lie by columns, as LAPACK reads and writes them."""
    return np.array(x.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def _no_info(x: Any) -> Any:
    return np.zeros(x.shape[:-2], np.int32)


# -- triangles ---------------------------------------------------------------------------------------------------------


def solve_tri(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """X with A X = B, or (left False) X A = B, where only one triangle of A is read (unit: nor its diagonal)."""
    if a.ndim == 2 and b.ndim > 2:  # one matrix, many right sides: they are columns of one
        return _side_by_side(lambda c: solve_tri(a, c, upper, left, unit), b, left)
    if triangle.ready(a, b):
        if not left:
            return solve_tri(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, True, unit).swapaxes(-1, -2)
        if a.shape[:-2] != b.shape[:-2]:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
        return _substituted(a, np.array(b, order="C"), upper, unit)
    if a.shape[-1] <= SMALL:
        try:
            return _solve_small_tri(a, b, upper, left, unit)
        except np.linalg.LinAlgError:
            pass  # a zero on the diagonal: back substitution gives inf and nan where they belong
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:]
    a, b = np.broadcast_to(a, shape[:-2] + a.shape[-2:]), np.broadcast_to(b, shape)
    out = np.empty(shape, b.dtype)
    if out.size:
        with scipy_blas_single():
            for c, d, x in zip(_stacked(a), _stacked(b), _stacked(out), strict=True):
                x[...] = _trsm(c, d, upper, left, unit)
    return out


def _substituted(a: Any, x: Any, *triangles: bool) -> Any:
    """x, changed to the solution of one system after the other with the same matrix: (upper, unit) for each."""
    if x.size:
        for upper, unit in zip(triangles[::2], triangles[1::2], strict=True):
            triangle.solve(a, x, upper, unit)
    return x


def _side_by_side(solve: Any, b: Any, left: bool) -> Any:
    """solve(B) for a stack of right sides of one matrix, joined to a single right side."""
    axis = -2 if left else -1
    flat = np.moveaxis(b, axis, 0 if left else -1)
    n = b.shape[axis]
    joined = solve(flat.reshape(n, b.size // n if n else 0) if left else flat.reshape(b.size // n if n else 0, n))
    return np.moveaxis(joined.reshape(flat.shape), 0 if left else -1, axis)


def _solve_small_tri(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """Back substitution as elimination: the pivots of an upper triangle are its diagonal, nothing is exchanged."""
    if not left:
        return _solve_small_tri(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, True, unit).swapaxes(-1, -2)
    a = np.triu(a) if upper else np.tril(a)[..., ::-1, ::-1]
    if unit:
        i = np.arange(a.shape[-1])
        a = np.array(a)
        a[..., i, i] = 1
    return np.linalg.solve(a, b) if upper else np.linalg.solve(a, b[..., ::-1, :])[..., ::-1, :]


def _trsm(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """One triangular system.  Its transpose is solved, which lies in Fortran's order where the arrays are in C's."""
    transposed = a.flags.f_contiguous and not a.flags.c_contiguous
    given, lower = (a, not upper) if transposed else (a.T, upper)
    trsm = routine("blas", "trsm", b.dtype.char)
    return trsm(1, given, b.T, side=int(left), lower=int(lower), trans_a=int(transposed), diag=int(unit)).T


# -- Cholesky ----------------------------------------------------------------------------------------------------------


def cholesky_ex(x: Any) -> tuple:
    """(L, info): A = L Lᴴ by the lower triangle of A."""
    if x.shape[-1] <= SMALL:
        char = x.dtype.char
        try:
            out = native("cholesky_lo", f"{char}->{char}", np.linalg.cholesky, x)
            if not out.size or not refused(out[..., -1, -1]):  # a nan spreads to the last pivot
                return out, _no_info(x)
        except np.linalg.LinAlgError:
            pass  # below, each matrix says for itself where it is not positive definite
    out, info = _by_columns(x), _no_info(x)
    if x.size:
        potrf, flat = _lapack("potrf", x), info.reshape(-1)
        with scipy_blas_single():
            for i, a in enumerate(_stacked(out)):
                found, flat[i] = potrf(a, lower=1, clean=1, overwrite_a=1)
                if found is not a:
                    a[...] = found
        lost = np.isnan(out.diagonal(0, -2, -1))  # not every LAPACK takes a nan for a pivot that is not positive
        if lost.any():
            info = np.where(lost.any(-1) & (info == 0), lost.argmax(-1) + 1, info).astype(np.int32)
    return out, info


def cholesky(x: Any) -> Any:
    """L with A = L Lᴴ by the lower triangle of A; Refused where there is none."""
    if x.shape[-1] <= factor.ORDER and factor.ready(x):
        found = factor.cholesky(x)
        if found is not None:
            return found
    out, info = cholesky_ex(x)
    accepted(info)
    return out


# -- LU ----------------------------------------------------------------------------------------------------------------


def _eliminated(x: Any) -> bool:
    """Whether a kernel factors the whole stack."""
    m, n = x.shape[-2:]
    return (
        x.ndim > 2
        and 0 < max(m, n) <= _TINY
        and x.size >= _STACK * m * n > 0
        and x.dtype.char in "fd"
        and ready(_ELIMINATE, x.dtype)
    )


def lu_factor(x: Any) -> tuple:
    """(LU, pivots, info) of matrices of any shape: P A' = L U with partial pivoting, pivots counted from 1."""
    m, n = x.shape[-2:]
    pivots, info = np.empty((*x.shape[:-2], min(m, n)), np.int32), _no_info(x)
    if _eliminated(x):
        out = np.array(x, order="C")
        args = (0, info.size, _stacked(out), _stacked(pivots, 1), info.reshape(-1))
        run_rows("eliminate", out.size * n // FACTOR_CHUNK, info.size, args, whole=-1, span=0)
        return out, pivots, info
    if factor.ready(x):
        return factor.lu(x)
    out = _by_columns(x)
    if x.size:
        getrf = _lapack("getrf", x)
        flat = info.reshape(-1)
        with scipy_blas_single():
            for i, (a, p) in enumerate(zip(_stacked(out), _stacked(pivots, 1), strict=True)):
                found, p[...], flat[i] = getrf(a, overwrite_a=1)
                if found is not a:
                    a[...] = found
        pivots += 1
    return out, pivots, info


def permutation(pivots: Any, m: int) -> Any:
    """The order in which the exchanges of rows i and pivots[i] - 1, one after another, leave m rows."""
    order = np.empty((*pivots.shape[:-1], m), np.int64)
    order[...] = np.arange(m)
    steps, flat = _stacked(pivots, 1), _stacked(order, 1)
    if len(steps) < 64:  # lists are quicker than that many calls of NumPy
        for o, p in zip(flat, steps.tolist(), strict=True):
            rows = list(range(m))
            for i, j in enumerate(p):
                rows[i], rows[j - 1] = rows[j - 1], rows[i]
            o[...] = rows
        return order
    rows = np.arange(len(steps))
    for i, j in enumerate(steps.T):
        here = flat[:, i].copy()
        flat[:, i] = flat[rows, j - 1]
        flat[rows, j - 1] = here
    return order


def swap_rows(x: Any, pivots: Any, inverse: bool) -> Any:
    """Pᵀ X, the rows of X after the exchanges of an LU factorisation; inverse: P X, before them."""
    order = permutation(pivots, x.shape[-2])
    if inverse:
        order = order.argsort(-1)
    if order.ndim == 1:
        return x.take(order, -2)
    batch = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = np.broadcast_to(x, batch + x.shape[-2:])
    return np.take_along_axis(x, np.broadcast_to(order, (*batch, order.shape[-1]))[..., None], -2)


def lu_packed_solve(lu: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> Any:
    """X with A X = B or (left False) X A = B, or with Aᴴ for A, where A = P L U."""
    if not left:  # Xᴴ solves the adjoint system
        x = lu_packed_solve(lu, pivots, b.conj().swapaxes(-1, -2), True, not adjoint)
        return x.conj().swapaxes(-1, -2)
    if lu.shape[:-2] == b.shape[:-2] and b.size and triangle.ready(lu, b):  # all on one copy
        x = np.array(b, order="C")
        if adjoint:
            _substituted(lu.swapaxes(-1, -2), x, False, False, True, True)
            triangle.exchange(x, pivots, True)
            return x
        triangle.exchange(x, pivots, False)
        return _substituted(lu, x, False, True, True, False)
    if adjoint:
        lh = lu.conj().swapaxes(-1, -2)
        return swap_rows(solve_tri(lh, solve_tri(lh, b, False, True, False), True, True, True), pivots, True)
    return solve_tri(lu, solve_tri(lu, swap_rows(b, pivots, False), False, True, True), True, True, False)


# -- general systems ---------------------------------------------------------------------------------------------------


def solve_lu(a: Any, b: Any, left: bool) -> tuple:
    """(X, info, LU, pivots): A X = B or (left False) X A = B.  Of small matrices the factors are not kept: None."""
    if a.shape[-1] <= SMALL and not _eliminated(a):
        try:
            x = _solve_small(a, b, left)
            # what is refused is nan throughout; without a single element nothing could be told
            if x.size and not refused(x[..., 0, 0]):
                return x, _no_info(a), None, None
        except np.linalg.LinAlgError:
            pass
        # perhaps a singular matrix: the factors below tell which, and the others get their solutions
    lu, pivots, info = lu_factor(a)
    return lu_packed_solve(lu, pivots, b, left, False), info, lu, pivots


def _solve_small(a: Any, b: Any, left: bool) -> Any:
    if a.ndim == 2 and b.ndim > 2:
        return _side_by_side(lambda c: _solve_small(a, c, left), b, left)
    if not left:
        return np.ascontiguousarray(_solve_small(a.swapaxes(-1, -2), b.swapaxes(-1, -2), True).swapaxes(-1, -2))
    char = a.dtype.char
    return native("solve", f"{char}{char}->{char}", np.linalg.solve, a, b)


def inv_ex(x: Any) -> tuple:
    """(A⁻¹, info)."""
    if x.shape[-1] <= SMALL and not _eliminated(x):
        char = x.dtype.char
        try:
            out = native("inv", f"{char}->{char}", np.linalg.inv, x)
            if not out.size or not refused(out[..., 0, 0]):
                return out, _no_info(x)
        except np.linalg.LinAlgError:
            pass  # the factors tell which matrix is singular
    lu, pivots, info = lu_factor(x)
    return lu_packed_solve(lu, pivots, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape), True, False), info


def inv(x: Any) -> Any:
    """A⁻¹; Refused for a singular matrix."""
    out, info = inv_ex(x)
    accepted(info)
    return out


def solve(a: Any, b: Any, left: bool) -> tuple:
    """(X, LU, pivots) of `solve_lu`; Refused for a singular matrix."""
    x, info, lu, pivots = solve_lu(a, b, left)
    accepted(info)
    return x, lu, pivots


# -- LDL ---------------------------------------------------------------------------------------------------------------


def ldl_factor(x: Any, hermitian: bool) -> tuple:
    """(LD, pivots, info) of symmetric or Hermitian matrices by their lower triangles (Bunch and Kaufman, as in LAPACK)."""
    out, pivots, info = np.empty(x.shape, x.dtype), np.empty(x.shape[:-1], np.int32), _no_info(x)
    if x.size:
        hetrf = _lapack("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", x)
        flat = info.reshape(-1)
        with scipy_blas_single():
            for i, (a, ld, p) in enumerate(zip(_stacked(x), _stacked(out), _stacked(pivots, 1), strict=True)):
                packed, p[...], flat[i] = hetrf(a, lower=1)
                ld[...] = np.tril(packed)
    return out, pivots, info


def _ldl_steps(pivots: Any) -> Any:
    """For the pivots of one matrix: (first column of the step, the two rows that it exchanges, its width)."""
    k = 0
    while k < len(pivots):
        p = int(pivots[k])
        width = 1 if p > 0 or k + 1 == len(pivots) else 2
        yield k, k + width - 1, abs(p) - 1, width
        k += width


def ldl_exchanges(pivots: Any) -> Any:
    """The exchanges of rows as `lu_factor` gives them: in step i the rows i and exchanges[i] - 1."""
    exchanges = np.array(pivots, np.int32)
    for p, e in zip(_stacked(pivots, 1), _stacked(exchanges, 1), strict=True):
        for k, r, q, _ in _ldl_steps(p):
            e[k] = k + 1
            e[r] = q + 1
    return exchanges


def ldl_blocks(pivots: Any) -> tuple:
    """For each row the other row of its block of two, or itself; and whether there is another."""
    partners = np.empty(pivots.shape, np.int64)
    partners[...] = np.arange(pivots.shape[-1])
    for p, o in zip(_stacked(pivots, 1), _stacked(partners, 1), strict=True):
        for k, r, _, _ in _ldl_steps(p):
            o[k], o[r] = r, k
    return partners, partners != np.arange(pivots.shape[-1])


def ldl_below(pivots: Any, like: Any) -> Any:
    """Ones below the blocks of D, zeros elsewhere, of the dtype of `like`."""
    n = pivots.shape[-1]
    ones = np.empty((*pivots.shape, n), like.dtype)
    ones[...] = np.tri(n, n, -1)
    for p, one in zip(_stacked(pivots, 1), _stacked(ones), strict=True):
        for k, r, _, _ in _ldl_steps(p):
            one[r, k] = 0
    return ones


def ldl_multipliers(ld: Any, pivots: Any, inverse: bool) -> Any:
    """What L has below the blocks of D, zeros elsewhere.  LD holds each column as it was before the later exchanges.

    inverse: the transpose of this linear map, from the place in L to that in LD.
    """
    n = ld.shape[-1]
    rows = np.empty((*pivots.shape, n), np.int64)
    rows[...] = np.arange(n)[:, None]
    for p, source in zip(_stacked(pivots, 1), _stacked(rows), strict=True):
        for k, r, q, _ in _ldl_steps(p):
            if r != q:
                source[[r, q], :k] = source[[q, r], :k]
    below = ldl_below(pivots, ld)
    if inverse:
        return np.take_along_axis(ld * below, rows.argsort(-2), -2)
    return np.take_along_axis(ld, rows, -2) * below
