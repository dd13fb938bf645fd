"""Rows of a table of NumPy arrays: taking them by index, adding into them by index."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.kernels.common import SMALL

__all__ = ["add_rows", "row_scale", "take_rows"]


def take_rows(table: Any, indices: Any) -> Any:
    """The rows of `table` with the given indices; IndexError out of range."""
    if indices.size and not 0 <= indices.min() <= indices.max() < table.shape[0]:
        wrong = indices[(indices < 0) | (indices >= table.shape[0])].flat[0]
        raise IndexError(f"embedding: index out of range: {wrong} for a table of {table.shape[0]} "
                         f"rows; allowed are 0 to {table.shape[0] - 1}")  # fmt: skip
    return table[indices]


def row_scale(indices: Any, padding: int | None, by_frequency: bool, dtype: Any) -> Any:
    """The factor of each index's gradient: 0 for the padding, divided by how often the index occurs; None
    if all are 1.
    """
    scale = None
    if by_frequency:
        _, inverse, counts = np.unique(indices, return_inverse=True, return_counts=True)
        scale = (1 / counts[inverse]).reshape(indices.shape).astype(dtype)
    if padding is not None:
        kept = indices != padding
        if scale is not None:
            scale = scale * kept
        elif not kept.all():
            scale = kept.astype(dtype)
    return scale


def add_rows(g: Any, indices: Any, count: int, padding: int | None, by_frequency: bool) -> Any:
    """A table of `count` rows in which row i is the sum of the rows of g that have index i, each times its row_scale.

    Rows are added in the order of their position, whatever the number of threads.
    """
    rest = g.shape[indices.ndim :]
    dtype = np.dtype(np.float32) if g.dtype in HALF else g.dtype
    flat = indices.reshape(-1)
    rows = g.reshape(flat.size, math.prod(rest)).astype(dtype, copy=False)
    scale = row_scale(flat, padding, by_frequency, dtype)
    if scale is not None:
        kept = np.flatnonzero(scale)  # what counts as 0 must not be multiplied: it may be infinite
        flat, rows, scale = flat[kept], rows[kept], scale[kept]
    if rows.size >= SMALL:
        weights = np.ones(flat.size, dtype) if scale is None else scale
        table = _sparse()((weights, flat, np.arange(flat.size + 1)), shape=(flat.size, count)).T @ rows
    else:
        table = np.zeros((count, rows.shape[1]), dtype)
        np.add.at(table, flat, rows if scale is None else rows * scale[:, None])
    return table.astype(g.dtype, copy=False).reshape(count, *rest)


@cache
def _sparse() -> Any:
    """SciPy's sparse matrix, imported when first needed; its product adds rows one after the other, as np.add.at does."""
    from scipy.sparse import csr_matrix

    return csr_matrix
