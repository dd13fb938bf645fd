"""Additions at the places that an index names, in the order of the index, so that results never differ between runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, has_kernel, in_float32, is_half, split

COLUMNS = 64  # columns of a chunk, at least, where chunks are made of columns


def _check(name: str, index: np.ndarray, size: int) -> None:
    """Kernels write wherever the index says."""
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = index[(index < 0) | (index >= size)][0]
        raise IndexError(f"{name}: index {wrong} is out of bounds for a dimension of size {size}")


def index_add(
    x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: float = 1, name: str = "index_add"
) -> np.ndarray:
    """A copy of x with alpha times the j-th slice of `source` along `dim` added to slice index[j], for each j in order."""
    _check(name, index, x.shape[dim])
    if is_half(x):
        return in_float32(index_add, x, dim, index, source, alpha, name)
    out = np.array(x, order="C")
    if has_kernel(source) and source.dtype == x.dtype:
        _index_add(out, dim % x.ndim, contiguous(index, np.int64), contiguous(source), float(alpha))
    else:
        where: Any = (*[slice(None)] * (dim % x.ndim), index)
        np.add.at(out, where, source if alpha == 1 else source * alpha)
    return out


def _index_add(out: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: float) -> None:
    """In place; cut along the dimensions before `dim`, or else across those behind."""
    before, after = math.prod(out.shape[:dim]), math.prod(out.shape[dim + 1 :])
    target = out.reshape(before, out.shape[dim], after)
    rows = source.reshape(before, index.size, after)
    run = get("index_add")
    if before >= 8:
        split(before, GRAIN // rows[0].size + 1, lambda i, j: run(index, rows[i:j], alpha, 0, after, target[i:j]))
    else:
        grain = max(COLUMNS, GRAIN // (before * index.size) + 1)
        split(after, grain, lambda i, j: run(index, rows, alpha, i, j, target))


def embedding_vjp(g: np.ndarray, index: np.ndarray, num_rows: int, padding_idx: int = -1) -> np.ndarray:
    """The gradient of rows looked up at `index`: every row of g added to the row it came from, but for padding_idx."""
    rows, index = g.reshape(-1, g.shape[-1]), index.reshape(-1)
    out = index_add(np.zeros((num_rows, g.shape[-1]), g.dtype), 0, index, rows, name="embedding")
    if padding_idx >= 0:
        out[padding_idx] = 0
    return out


def scatter_add(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A copy of x with each number of `source` that has a place in `index` added where, along `dim`, the index says.

    `index` has as many dimensions as x and source, and is no larger than either, but along `dim` than x.
    """
    _check("scatter_add", index, x.shape[dim] if x.ndim else 1)
    if is_half(x):
        return in_float32(scatter_add, x, dim, index, source)
    out = np.array(x, order="C")
    if index.size == 0:
        return out
    dim = dim % x.ndim if x.ndim else 0
    values = source[tuple([slice(n) for n in index.shape])]
    if not (has_kernel(values) and values.dtype == x.dtype):
        where: Any = list(np.ogrid[tuple([slice(n) for n in index.shape])])
        if x.ndim:
            where[dim] = index
        np.add.at(out, tuple(where), values)
        return out
    places = contiguous(_places(index, dim, out.shape)).reshape(len(index), -1)
    values = contiguous(values).reshape(places.shape)
    run = get("add_at")
    flat = out.reshape(-1)
    chunk = len(index) if dim == 0 else GRAIN // places.shape[1] + 1
    split(len(index), chunk, lambda i, j: run(places[i:j].reshape(-1), values[i:j].reshape(-1), flat))
    return out


def _places(index: np.ndarray, dim: int, shape: tuple[int, ...]) -> np.ndarray:
    """The positions in the flattened array that the elements of an index along `dim` stand for."""
    places = index.astype(np.int64) * math.prod(shape[dim + 1 :])
    for axis, length in enumerate(index.shape):
        if axis != dim:
            step = math.prod(shape[axis + 1 :])
            places += (np.arange(length) * step).reshape(-1, *[1] * (index.ndim - axis - 1))
    return places
