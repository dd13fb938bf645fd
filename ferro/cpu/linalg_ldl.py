"""LDL factorisations of symmetric and Hermitian NumPy matrices, as LAPACK packs them, and what their derivatives need."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.linalg_solve import lapack, no_info, stacked
from ferro.native.blas import scipy_blas_single

__all__ = ["ldl_below", "ldl_blocks", "ldl_exchanges", "ldl_factor", "ldl_multipliers"]


def ldl_factor(x: Any, hermitian: bool) -> tuple:
    """(LD, pivots, info) of symmetric or Hermitian matrices by their lower triangles (Bunch and Kaufman, as in LAPACK)."""
    out, pivots, info = np.empty(x.shape, x.dtype), np.empty(x.shape[:-1], np.int32), no_info(x)
    if x.size:
        hetrf = lapack("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", x)
        flat = info.reshape(-1)
        with scipy_blas_single():
            for i, (a, ld, p) in enumerate(zip(stacked(x), stacked(out), stacked(pivots, 1), strict=True)):
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
    for p, e in zip(stacked(pivots, 1), stacked(exchanges, 1), strict=True):
        for k, r, q, _ in _ldl_steps(p):
            e[k] = k + 1
            e[r] = q + 1
    return exchanges


def ldl_blocks(pivots: Any) -> tuple:
    """For each row the other row of its block of two, or itself; and whether there is another."""
    partners = np.empty(pivots.shape, np.int64)
    partners[...] = np.arange(pivots.shape[-1])
    for p, o in zip(stacked(pivots, 1), stacked(partners, 1), strict=True):
        for k, r, _, _ in _ldl_steps(p):
            o[k], o[r] = r, k
    return partners, partners != np.arange(pivots.shape[-1])


def ldl_below(pivots: Any, like: Any) -> Any:
    """Ones below the blocks of D, zeros elsewhere, of the dtype of `like`."""
    n = pivots.shape[-1]
    ones = np.empty((*pivots.shape, n), like.dtype)
    ones[...] = np.tri(n, n, -1)
    for p, one in zip(stacked(pivots, 1), stacked(ones), strict=True):
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
    for p, source in zip(stacked(pivots, 1), stacked(rows), strict=True):
        for k, r, q, _ in _ldl_steps(p):
            if r != q:
                source[[r, q], :k] = source[[q, r], :k]
    below = ldl_below(pivots, ld)
    if inverse:
        return np.take_along_axis(ld * below, rows.argsort(-2), -2)
    return np.take_along_axis(ld, rows, -2) * below
