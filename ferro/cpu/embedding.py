"""Rows of a table of NumPy arrays: taking them by index, adding into them by index."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.by_kernels import Make, by_kernels, places, sides
from ferro.cpu.kernels import gather_scatter
from ferro.cpu.kernels.common import SMALL, has_kernel
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.strided_copy import zeros
from ferro.cpu.sparse_rows import Rows
from ferro.cpu.thresholds import GRAIN

__all__ = ["add_rows", "long_rows", "row_scale", "table_rows", "take_rows"]


_COUNTS = (*sides(math.ceil(SMALL / 20)), GRAIN // 20)  # of rows, around thresholds


@entry("", "jit_places.entries")
@by_kernels("take", lambda make: ((make(300, 20), places(make, 300, n)) for n in _COUNTS))
def take_rows(table: Any, indices: Any) -> Any:
    """The rows of `table` with the given indices; IndexError out of range."""
    line = indices if indices.ndim == 1 else indices.reshape(-1)
    try:
        rows = gather_scatter.take(table, 0, line)
    except IndexError:  # the kernel's, of an index out of range: the check below says which
        rows = None
    if rows is not None:
        return rows if line is indices else rows.reshape(*indices.shape, table.shape[1])
    if not gather_scatter.within(indices, table.shape[0]):
        wrong = indices[(indices < 0) | (indices >= table.shape[0])].flat[0]
        raise IndexError(
            f"embedding: index out of range: {wrong} (index out of range in self) for a table of {table.shape[0]} "
            f"rows; allowed are 0 to {table.shape[0] - 1}"
        )
    return table.take(indices, 0) if table.flags.c_contiguous else table[indices]


def row_scale(indices: Any, padding: int | None, by_frequency: bool, like: Any) -> Any:
    """What each of the rows `like` that belong to `indices` is multiplied by: 0 for the padding, divided by how often the
    index occurs; None if all are 1.
    """
    scale = _scale(indices, padding, by_frequency, like.dtype)
    return None if scale is None else scale[..., None]


def _scale(indices: Any, padding: int | None, by_frequency: bool, dtype: Any) -> Any:
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


def long_rows(table: Any, indices: Any, max_norm: float, norm_type: float) -> tuple | None:
    """The rows of `table` named in `indices` whose p-norm is above max_norm, as their numbers and what they become."""
    used = np.unique(indices)
    rows = take_rows(table, used).astype(np.float32 if table.dtype in HALF else table.dtype, copy=False)
    norms = np.linalg.norm(rows, norm_type, axis=1)
    long = norms > max_norm
    if not long.any():
        return None
    return used[long], (rows[long] * (max_norm / (norms[long] + 1e-7))[:, None]).astype(table.dtype, copy=False)


def table_rows(g: Any, indices: Any, count: int, padding: int | None, by_frequency: bool) -> Rows:
    """The gradient of a table of which rows were looked up, as these rows."""
    return Rows.of(g, indices, count, padding, by_frequency)


def _added(make: Make) -> Iterator[tuple]:
    for n in _COUNTS:
        yield make(n, 20), places(make, 50, n), 50, 3, True


@entry("x index count none false -> counted ?", "jit_small.add_rows")
@by_kernels("add_slices", _added)
def add_rows(g: Any, indices: Any, count: int, padding: int | None, by_frequency: bool) -> Any:
    """A table of `count` rows in which row i is the sum of the rows of g that have index i, each times its row_scale.

    Rows are added in the order of their position, whatever the number of threads.
    """
    rest = g.shape[indices.ndim :]
    dtype = np.dtype(np.float32) if g.dtype in HALF else g.dtype
    flat = indices if indices.ndim == 1 else indices.reshape(-1)
    rows = g.reshape(flat.size, math.prod(rest))
    if rows.dtype is not dtype:
        rows = rows.astype(dtype)
    scale = None if padding is None and not by_frequency else _scale(flat, padding, by_frequency, dtype)
    if scale is not None:
        kept = np.flatnonzero(scale)  # what counts as 0 must not be multiplied: it may be infinite
        flat, rows = flat[kept], rows[kept] * scale[kept, None]
    table = zeros((count, rows.shape[1]), dtype)
    if has_kernel(rows, "add_slices", "scatter_add_rows"):
        gather_scatter.add_slices(table[None], 1, flat.astype(np.int64, copy=False), rows[None])
    else:
        np.add.at(table, flat, rows)
    table = table.astype(g.dtype, copy=False)
    return table if len(rest) == 1 else table.reshape(count, *rest)  # (a view is not taken over as a gradient)
