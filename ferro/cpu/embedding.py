"""Rows of a table of NumPy arrays: taking them by index, adding into them by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.pointwise import HALF

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
    rows = g.reshape(indices.size, *rest).astype(dtype, copy=False)
    flat = indices.reshape(-1)
    scale = row_scale(flat, padding, by_frequency, dtype)
    if scale is not None:
        rows = np.where(scale.reshape(-1, *[1] * len(rest)) == 0, 0, rows * scale.reshape(-1, *[1] * len(rest)))
    table = np.zeros((count, *rest), dtype)
    if flat.size:
        order = flat.argsort(kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        table[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return table.astype(g.dtype, copy=False)
