"""LU, QR and Cholesky factors by kernels of our own, where they beat LAPACK and there is the tile of tiles.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.tiles import DTYPES, PANEL
from ferro.cpu.thresholds import FACTOR_CHUNK, FACTOR_MOST, REFLECT_CHUNK
from ferro.native import readiness
from ferro.native.readiness import get
from ferro.native.workers import helpers, run_rows

_KERNELS = kernels(
    "jit_factor.eliminate_blocks log_determinants reflect_back reflect_blocks root jit_cholesky.root_blocks",
    here=bool(DTYPES),
)
ORDER = 16  # up to which numbers one by one are quick enough for `cholesky`


def ready(x: np.ndarray) -> bool:
    """Whether there are kernels for these matrices."""
    dtype = x.dtype
    return (
        dtype in DTYPES and readiness.ready(_KERNELS, dtype) and x.size > 0 and x.shape[-1] * x.shape[-2] <= FACTOR_MOST
    )


def _run(name: str, multiplications: int, count: int, *stacks: Any) -> bool:
    """The kernel of a stack of so many matrices."""
    chunks = min(multiplications // FACTOR_CHUNK, count)
    if chunks < 2:
        return get(name)(0, count, *stacks) is not False
    return run_rows(name, chunks, count, (0, count, *stacks), whole=-1, span=0)


def _stack(x: np.ndarray, ndim: int) -> np.ndarray:
    """The matrices (or, ndim 1, vectors) as a stack of one dimension."""
    cut = x.ndim - ndim
    if cut < 2:
        return x if cut else x[None]
    return x.reshape(math.prod(x.shape[:cut]), *x.shape[cut:])


def lu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LU, pivots, info) of matrices that are not empty, as LAPACK's getrf gives them, but by rows."""
    m, n = x.shape[-2:]
    out, count = np.array(x, order="C"), min(m, n)
    pivots, info = np.empty((*x.shape[:-2], count), np.int32), np.empty(x.shape[:-2], np.int32)
    _run("eliminate_blocks", x.size * count, info.size, _stack(out, 2), _stack(pivots, 1), info.reshape(-1))
    return out, pivots, info


def log_determinants(factors: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sign, ln |det|) by what `lu` gives of square matrices."""
    sign, log = np.empty(factors.shape[:-2], factors.dtype), np.empty(factors.shape[:-2], factors.dtype)
    get("log_determinants")(0, sign.size, _stack(factors, 2), _stack(pivots, 1), sign.reshape(-1), log.reshape(-1))
    return sign, log


def qr(x: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(Q, R) with so many columns of Q, as LAPACK's geqrf and orgqr give them, of matrices that are not empty.

    None for numbers so large or small that LAPACK's care is needed.
    """
    *stack, m, n = x.shape
    if not (x.flags.c_contiguous and x.flags.aligned):
        x = np.array(x, order="C")
    if not stack:
        q, r = np.empty((m, columns), x.dtype), np.empty((columns, n), x.dtype)
        return (q, r) if get("reflect_blocks")(0, 1, m, x, q, r) else None
    count = x.size // (m * n)
    q, r = np.empty((count * m, columns), x.dtype), np.empty((count * columns, n), x.dtype)
    if not _run("reflect_blocks", 2 * x.size * columns, count, m, x.reshape(-1, n), q, r):
        return None
    return q.reshape(*stack, m, columns), r.reshape(*stack, columns, n)


def reflected(
    packed: np.ndarray, tau: np.ndarray, below: int, z: np.ndarray, out: np.ndarray, in_rows: bool
) -> np.ndarray:
    """out = Q z for the product Q of LAPACK's reflectors: see `reflect_back`. Each vector is computed by itself, so they are shared."""
    vectors, m = out.shape if in_rows else out.shape[::-1]
    groups = -(-vectors // PANEL)
    chunks = min(m * vectors * len(tau) // REFLECT_CHUNK, groups, helpers() + 1)
    run_rows("reflect_back", chunks, groups, (0, groups, packed, tau, below, z, out, in_rows), whole=-1, span=0)
    return out


def cholesky(x: np.ndarray) -> np.ndarray | None:
    """L with A = L Lᵀ by the lower triangles of matrices that are not empty; None if there is none."""
    n = x.shape[-1]
    if n <= ORDER:
        out = np.array(x, order="C")
        return out if get("root")(_stack(out, 2)) else None
    if not (x.flags.c_contiguous and x.flags.aligned):
        x = np.array(x, order="C")
    out = np.empty(x.shape, x.dtype)
    count = x.size // (n * n)
    return out if _run("root_blocks", x.size * n // 6, count, _stack(x, 2), _stack(out, 2)) else None
