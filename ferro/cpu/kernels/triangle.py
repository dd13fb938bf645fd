"""Triangular systems by a kernel of our own, where it beats BLAS and there is the tile of tiles.py."""

from __future__ import annotations

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.tiles import COLUMNS, DTYPES
from ferro.cpu.thresholds import PRODUCT_CHUNK, TRIANGLE_MOST
from ferro.native import readiness
from ferro.native.readiness import get
from ferro.native.workers import run_rows

_KERNELS = kernels("jit_linalg.substitute exchange", here=bool(DTYPES))


def ready(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether there is a kernel for A X = B."""
    return (
        a.dtype in DTYPES and a.dtype is b.dtype and a.shape[-1] <= TRIANGLE_MOST and readiness.ready(_KERNELS, a.dtype)
    )


def solve(a: np.ndarray, x: np.ndarray, upper: bool, unit: bool) -> None:
    """Put the solution X of A X = B in the place of B. Only one triangle of A is read; `unit`: nor its diagonal.

    x: (..., n, k), contiguous and not empty; a: (n, n), or (..., n, n) with the leading dimensions of x.
    """
    n, columns = x.shape[-2:]
    if not a.flags.aligned:
        a = np.array(a)
    turned = not a.flags.c_contiguous
    if turned:
        a = a.swapaxes(-1, -2)
        if not a.flags.c_contiguous:
            a, turned = np.array(a.swapaxes(-1, -2), order="C"), False
    if x.ndim > 2:
        a, x = a.reshape(-1, n), x.reshape(-1, columns)
    panels = -(-columns // COLUMNS[x.itemsize]) * (len(x) // n)
    chunks = x.size * n // PRODUCT_CHUNK
    if chunks < 2:
        get("substitute")(0, panels, a, x, n, turned, upper, unit)
    else:
        run_rows("substitute", min(chunks, panels), panels, (0, panels, a, x, n, turned, upper, unit), whole=-1, span=0)


def exchange(x: np.ndarray, pivots: np.ndarray, back: bool) -> None:
    """Exchange the rows i and pivots[i] - 1 of matrices, one after another, in place; `back`: in reverse order."""
    stack = x.reshape(-1, *x.shape[-2:])
    get("exchange")(0, len(stack), stack, pivots.reshape(-1, pivots.shape[-1]), back)
