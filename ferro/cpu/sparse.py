"""Products with a sparse matrix given by its values and their rows and columns, on NumPy arrays: SciPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.thresholds import SPARSE_GATHERED

__all__ = ["sampled_mm", "sparse_mm"]

# Elements of both factors that sampled_mm gathers at a time: what a second-level cache holds.


def sparse_mm(values: Any, y: Any, rows: Any, columns: Any, count: int) -> Any:
    """A sparse matrix with `count` rows times a dense one: row r is the sum of values[k] y[columns[k]] over rows[k] = r."""
    if not values.size or not y.size:
        return np.zeros((count, y.shape[1]), y.dtype)
    dtype = y.dtype
    if dtype in HALF:
        values, y = values.astype(np.float32), y.astype(np.float32)
    return (_matrix(values, rows, columns, (count, y.shape[0])) @ y).astype(dtype, copy=False)


def _matrix(values: Any, rows: Any, columns: Any, shape: tuple) -> Any:
    """SciPy's matrix: CSR or CSC of values that are in the order of rows or columns; to sort them takes longer than to multiply."""
    from scipy.sparse import coo_array, csc_array, csr_array

    integer = np.int32 if max(*shape, values.size) < 2**31 else np.int64
    for kind, lines, others, count in ((csr_array, rows, columns, shape[0]), (csc_array, columns, rows, shape[1])):
        if (lines[1:] >= lines[:-1]).all():
            starts = np.zeros(count + 1, integer)
            np.cumsum(np.bincount(lines, minlength=count), out=starts[1:])
            return kind((values, others.astype(integer), starts), shape=shape)
    return coo_array((values, (rows.astype(integer), columns.astype(integer))), shape=shape)


def sampled_mm(x: Any, y: Any, rows: Any, columns: Any) -> Any:
    """The elements of x @ y.T with these rows and columns: the inner products of x[rows[k]] and y[columns[k]]."""
    found = np.empty(rows.size, x.dtype)
    dtype = np.dtype(np.float32) if x.dtype in HALF else x.dtype
    step = max(1, SPARSE_GATHERED // max(1, x.shape[1]))
    for start in range(0, rows.size, step):
        part = slice(start, start + step)
        left, right = (a.take(k[part], 0).astype(dtype, copy=False) for a, k in ((x, rows), (y, columns)))
        found[part] = np.einsum("kj,kj->k", left, right)
    return found
