"""Sparse matrices on a GPU: products by gathered rows that are added in a fixed order, and the rows of a table's gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.sparse_rows import Rows
from ferro.cuda import layouts
from ferro.cuda.driver import cupy
from ferro.cuda.numpy_by_cupy import numpy

__all__ = ["sampled_mm", "sparse_mm", "table_rows"]


def sparse_mm(values: Any, y: Any, rows: Any, columns: Any, count: int) -> Any:
    """A sparse matrix with `count` rows times a dense one: row r is the sum of values[k] y[columns[k]] over rows[k] = r."""
    wide = layouts.widened(y)
    out = cupy().zeros((count, y.shape[1]), wide.dtype)
    if values.size and y.size:
        numpy.add.at(out, rows, layouts.widened(values)[:, None] * wide[columns])
    return out.astype(y.dtype, copy=False)


def sampled_mm(x: Any, y: Any, rows: Any, columns: Any) -> Any:
    """The elements of x @ y.T with these rows and columns: the inner products of x[rows[k]] and y[columns[k]]."""
    left, right = layouts.widened(x)[rows], layouts.widened(y)[columns]
    return cupy().sum(left * right, 1).astype(x.dtype, copy=False)


def table_rows(g: Any, indices: Any, count: int, padding: int | None, by_frequency: bool) -> Rows:
    """The gradient of a table of which the rows `indices` were looked up, as these rows."""
    places = indices.astype(np.int64).reshape(-1)  # (a copy: the indices may be changed before the gradient is read)
    values = g.reshape(places.size, g.shape[-1]).copy()
    if by_frequency:
        often = cupy().bincount(places, minlength=count)[places][:, None]
        values = (layouts.widened(values) / often).astype(values.dtype)
    if padding is not None:
        kept = places != padding
        values, places = values[kept], places[kept]
    return Rows(places, values, (count, g.shape[-1]), numpy)
