"""Factorisations by elimination, and what solves systems with them: Cholesky, LU, triangles, inverses.

A stack of small matrices is one call of NumPy's LAPACK; large ones go to kernels of our own (kernels/factor.py), and
where there are none, or to tell which of a stack it was that NumPy refused, one by one to SciPy's.  Nothing here raises
for a singular matrix: `info` is LAPACK's number of the first zero pivot, or of the first minor that is not positive; 0 is
success.  LAPACK runs on one thread, so that numbers do not depend on the number of threads (see Note in threads.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels import factor, triangle
from ferro.cpu.kernels.gemm import gemm
from ferro.cpu.lapack import SMALL, native, refused, routine
from ferro.cpu.products import matmul
from ferro.cpu.thresholds import CHOLESKY_BLOCK, CHOLESKY_LEAST, FACTOR_CHUNK, FACTOR_MOST, PRODUCT_CHUNK, TRIANGLE_MOST
from ferro.linalg_errors import accepted
from ferro.native.blas import scipy_blas_single
from ferro.native.readiness import ready
from ferro.native.workers import run_rows

__all__ = ["cholesky", "cholesky_ex", "inv", "inv_ex", "lu_factor", "lu_packed_solve", "solve", "solve_lu", "solve_tri", "swap_rows"]  # fmt: skip


_ELIMINATE = kernels("jit_linalg.eliminate")
_TINY = 16  # order up to which elimination without blocks is quick
_STACK = 16  # such matrices from which a kernel for all costs less than a call of LAPACK for each


def lapack(name: str, x: Any) -> Any:
    return routine("lapack", name, x.dtype.char)


def stacked(x: Any, ndim: int = 2) -> Any:
    """The matrices (or, ndim 1, vectors) as a stack of one dimension."""
    rest = x.shape[x.ndim - ndim :]
    return x.reshape(math.prod(x.shape[: x.ndim - ndim]), *rest)


def _by_columns(x: Any) -> Any:
    """A copy whose matrices lie by columns, as LAPACK reads and writes them."""
    return np.array(x.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def no_info(x: Any) -> Any:
    return np.zeros(x.shape[:-2], np.int32)


# -- triangles ---------------------------------------------------------------------------------------------------------


def _triangles(make: Make) -> Iterator[tuple]:
    for n, columns in ((1, 1), (8, 17), (9, 33), *[(n, 4) for n in sides(TRIANGLE_MOST + 1)]):
        for upper, left, unit in itertools.product((False, True), repeat=3):
            b = make(n, columns)
            yield make(n, n) / n + 2 * np.eye(n, dtype=b.dtype), b if left else b.T, upper, left, unit
    for n in sides(2 * PRODUCT_CHUNK, 3):
        yield make(2, n, n) / n + 2 * np.eye(n, dtype=make(1).dtype), make(2, n, n), True, True, False


@by_kernels("substitute", _triangles)
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
            for c, d, x in zip(stacked(a), stacked(b), stacked(out), strict=True):
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
    if factor.ORDER < x.shape[-1] < CHOLESKY_LEAST and factor.ready(x):
        found = factor.cholesky(x)
        if found is not None:
            return found, no_info(x)
    elif x.shape[-1] <= SMALL:
        char = x.dtype.char
        try:
            out = native("cholesky_lo", f"{char}->{char}", np.linalg.cholesky, x)
            if not out.size or not refused(out[..., -1, -1]):  # a nan spreads to the last pivot
                return out, no_info(x)
        except np.linalg.LinAlgError:
            pass  # below, each matrix says for itself where it is not positive definite
    block = x[..., :CHOLESKY_BLOCK, :CHOLESKY_BLOCK]
    if x.shape[-1] >= CHOLESKY_LEAST and x.size and triangle.ready(block, block):
        by_blocks = [_by_blocks(a, lapack("potrf", x)) for a in stacked(x)]
        if all(found is not None for found in by_blocks):
            return by_blocks[0] if x.ndim == 2 else np.stack(by_blocks).reshape(x.shape), no_info(x)
    out, info = _by_columns(x), no_info(x)
    if x.size:
        potrf, flat = lapack("potrf", x), info.reshape(-1)
        with scipy_blas_single():
            for i, a in enumerate(stacked(out)):
                found, flat[i] = potrf(a, lower=1, clean=1, overwrite_a=1)
                if found is not a:
                    a[...] = found
        lost = np.isnan(out.diagonal(0, -2, -1))  # not every LAPACK takes a nan for a pivot that is not positive
        if lost.any():
            info = np.where(lost.any(-1) & (info == 0), lost.argmax(-1) + 1, info).astype(np.int32)
    return out, info


def _by_blocks(x: Any, potrf: Any) -> Any:
    """L, whose columns are found a block at a time: LAPACK's for the diagonal, one product and one triangle for what is left.

    None where a diagonal block has no factor.
    """
    n, out = len(x), np.zeros(x.shape, x.dtype)
    for i in range(0, n, CHOLESKY_BLOCK):
        j = min(i + CHOLESKY_BLOCK, n)
        column = gemm(out[i:, :i], -out[i:j, :i].T, x[i:, i:j]) if i else x[:, :j]
        with scipy_blas_single():
            diagonal, info = potrf(column[: j - i], lower=1, clean=1)
        if info or np.isnan(diagonal[-1, -1]):  # (a nan spreads to the last pivot)
            return None
        out[i:j, i:j] = diagonal
        if j < n:
            out[j:, i:j] = solve_tri(diagonal.T, column[j - i :], True, False, False)
    return out


def _positive(make: Make) -> Iterator[tuple]:
    for n in (1, *sides(factor.ORDER + 1), *sides(CHOLESKY_LEAST), CHOLESKY_LEAST + CHOLESKY_BLOCK + 1):
        x = make(3, n, n)
        yield (x @ x.swapaxes(-1, -2) / n + np.eye(n, dtype=x.dtype),)


@by_kernels(("root", "root_blocks", "product_part", "substitute"), _positive)
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


def _factored(make: Make) -> Iterator[tuple]:
    """Matrices and stacks of them whose order, number and multiplications are around thresholds."""
    for n in (1, *sides(_TINY + 1)):
        yield (make(n, n) + np.eye(n, dtype=make(1).dtype)[::-1],)
    for m in sides(FACTOR_MOST // 8 + 1):
        yield (make(m, 8),)
    for n, least in (
        (_TINY, _STACK),
        (_TINY + 1, 2),
        (_TINY, 2 * FACTOR_CHUNK / _TINY**3),
        (40, 2 * FACTOR_CHUNK / 40**3),
    ):
        for count in sides(math.ceil(least)):
            yield (make(max(count, 1), n, n) + np.eye(n, dtype=make(1).dtype)[::-1],)
    yield (make(70, 33),)
    yield (make(2, 33, 70),)


def _multiplied(_: tuple, found: tuple) -> tuple:
    """The matrix that LU factors make (rounding decides which of two pivots is taken), and info."""
    lu, pivots, info = found
    m, n = lu.shape[-2:]
    lower, upper = np.tril(lu[..., : min(m, n)], -1) + np.eye(m, min(m, n)), np.triu(lu[..., : min(m, n), :])
    return swap_rows(matmul(lower.astype(lu.dtype), upper), pivots, True), info


@by_kernels("eliminate eliminate_blocks", _factored, _multiplied)
def lu_factor(x: Any) -> tuple:
    """(LU, pivots, info) of matrices of any shape: P A' = L U with partial pivoting, pivots counted from 1."""
    m, n = x.shape[-2:]
    pivots, info = np.empty((*x.shape[:-2], min(m, n)), np.int32), no_info(x)
    if _eliminated(x):
        out = np.array(x, order="C")
        args = (0, info.size, stacked(out), stacked(pivots, 1), info.reshape(-1))
        run_rows("eliminate", out.size * n // FACTOR_CHUNK, info.size, args, whole=-1, span=0)
        return out, pivots, info
    if factor.ready(x):
        return factor.lu(x)
    out = _by_columns(x)
    if x.size:
        getrf = lapack("getrf", x)
        flat = info.reshape(-1)
        with scipy_blas_single():
            for i, (a, p) in enumerate(zip(stacked(out), stacked(pivots, 1), strict=True)):
                found, p[...], flat[i] = getrf(a, overwrite_a=1)
                if found is not a:
                    a[...] = found
        pivots += 1
    return out, pivots, info


def permutation(pivots: Any, m: int) -> Any:
    """The order in which the exchanges of rows i and pivots[i] - 1, one after another, leave m rows."""
    order = np.empty((*pivots.shape[:-1], m), np.int64)
    order[...] = np.arange(m)
    steps, flat = stacked(pivots, 1), stacked(order, 1)
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


def _packed(make: Make) -> Iterator[tuple]:
    for n, left, adjoint in ((20, True, False), (40, True, True), (40, False, False), (TRIANGLE_MOST + 1, True, True)):
        lu = make(2, n, n) / n + 2 * np.eye(n, dtype=make(1).dtype)
        pivots = np.minimum(np.arange(n) + 4, n).astype(np.int32)
        yield lu, np.stack((pivots, pivots)), make(2, n, 3) if left else make(2, 3, n), left, adjoint


@by_kernels("exchange substitute", _packed)
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
    """(X, info, LU, pivots): A X = B or (left False) X A = B.  Of small matrices the factors are not kept, whatever their numbers: None."""
    small = a.shape[-1] <= SMALL and not _eliminated(a)
    if small:
        try:
            x = _solve_small(a, b, left)
            # what is refused is nan throughout; without a single element nothing could be told
            if x.size and not refused(x[..., 0, 0]):
                return x, no_info(a), None, None
        except np.linalg.LinAlgError:
            pass
        # perhaps a singular matrix: the factors below tell which, and the others get their solutions
    lu, pivots, info = lu_factor(a)
    x = lu_packed_solve(lu, pivots, b, left, False)
    return (x, info, None, None) if small else (x, info, lu, pivots)


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
                return out, no_info(x)
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
