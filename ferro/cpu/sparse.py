"""Products with a sparse matrix given by its values and their rows and columns, on NumPy arrays: SciPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF

__all__ = ["sampled_mm", "sparse_mm"]

# Elements of both factors that sampled_mm gathers at a time: what a second-level cache holds.
GATHERED = 1 << 16


def sparse_mm(values: Any, y: Any, rows: Any, columns: Any, count: int) -> Any:
    """A sparse matrix with `count` rows times a dense one: row r is the sum of values[k] y[columns[k]] over rows[k] = r.

    SciPy multiplies by coordinates: to sort them into a CSR matrix first takes longer than the product itself.
    """
    if not values.size or not y.size:
        return np.zeros((count, y.shape[1]), y.dtype)
    from scipy.sparse import coo_array

    dtype = y.dtype
    if dtype in HALF:
        values, y = values.astype(np.float32), y.astype(np.float32)
    matrix = coo_array((values, (rows, columns)), shape=(count, y.shape[0]))
    return (matrix @ y).astype(dtype, copy=False)


def sampled_mm(x: Any, y: Any, rows: Any, columns: Any) -> Any:
    """The elements of x @ y.T with these rows and columns: the inner products of x[rows[k]] and y[columns[k]]."""
    found = np.empty(rows.size, x.dtype)
    dtype = np.dtype(np.float32) if x.dtype in HALF else x.dtype
    step = max(1, GATHERED // max(1, x.shape[1]))
    for start in range(0, rows.size, step):
        part = slice(start, start + step)
        left, right = (a.take(i[part], 0).astype(dtype, copy=False) for a, i in ((x, rows), (y, columns)))
        found[part] = np.einsum("kj,kj->k", left, right)
    return found
