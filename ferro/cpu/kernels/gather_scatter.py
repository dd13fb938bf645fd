"""Reading and writing along one dimension, at the places that an index names, of large C-contiguous arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, SMALL, contiguous, has_kernel, share_rows
from ferro.cpu.kernels.strided_copy import assign
from ferro.cpu.thresholds import ADD_CHUNK, COPY_LEAST, INDEX_LIST, TAKE_NARROW
from ferro.native.thresholds import CHUNK
from ferro.native.workers import helpers, run_parts, run_rows

kernels(
    "jit_gather_scatter.gather scatter scatter_add take add_slices gather_rows scatter_rows scatter_add_rows count_bins"
)
_PLACES = np.dtype(np.int64)
_UNSIGNED = {_PLACES: np.dtype(np.uint64), np.dtype(np.int32): np.dtype(np.uint32)}
WIDE, PARTS = (
    32,
    8,
)  # elements of a slice from which parts of a dimension are added to by themselves, and how many parts

RUNS = 16  # of neighbours in an index, up to which they are copied as slices


def fits(x: np.ndarray, dim: int, index: np.ndarray) -> bool:
    """Whether x is contiguous, large and of a dtype with kernels, and the index large and of the shape of x but along `dim`."""
    return (
        index.size >= SMALL
        and has_kernel(x)
        and x.flags.c_contiguous
        and index.dtype == np.int64
        and index.shape == (*x.shape[:dim], index.shape[dim], *x.shape[dim + 1 :])
    )


def within(index: np.ndarray, size: int) -> bool:
    """Whether all integers of an index are in [0, size)."""
    if index.size < INDEX_LIST:
        places = index.tolist() if index.ndim == 1 else index.reshape(-1).tolist()
        return not places or (min(places) >= 0 and max(places) < size)
    unsigned = _UNSIGNED.get(index.dtype)
    if unsigned is None:
        return int(index.min()) >= 0 and int(index.max()) < size
    return np.maximum.reduce(index.view(unsigned), None) < size  # a negative number is huge without its sign


def line(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray | None:
    """The one-dimensional index that an index which `fits` repeats along all other dimensions; None if it does not."""
    if index.ndim < 2 or any(s and n > 1 for d, (s, n) in enumerate(zip(index.strides, index.shape)) if d != dim):
        return None
    return index[tuple([slice(None) if d == dim else 0 for d in range(index.ndim)])]


def _three(x: np.ndarray, dim: int) -> np.ndarray:
    return x.reshape(math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))


def _run(name: str, dim: int, size: int, first: np.ndarray, index: np.ndarray, out: np.ndarray) -> Any:
    """Runs a kernel on `first`, the index and `out`."""
    a, b = _three(first, dim), _three(out, dim)
    line = name in _OF_LINES
    where = contiguous(index) if line else _three(contiguous(index), dim)
    if b.shape[2] == 1 and a.size:  # one number after each place
        fine = _by_rows(
            _OF_LINES.get(name, name) + "_rows", a[:, :, 0], where.reshape(1 if line else len(b), -1), b[:, :, 0]
        )
    elif name == "add_slices":
        wide = len(b) >= MOST_CHUNKS or b.shape[2] >= WIDE  # every part looks at all of the index
        parts = max(1, min(a.size // ADD_CHUNK, MOST_CHUNKS if len(b) >= MOST_CHUNKS else PARTS)) if wide else 1
        fine = run_rows(name, parts, parts, (0, parts, parts, a, where, b), -1, 0)
    else:
        fine = _by_rows(name, a, where, b)
    return out if fine else _refuse(name, dim, size, index)


# Kernels whose index has one dimension, and what they are where it names numbers.
_OF_LINES = {"take": "gather", "add_slices": "scatter_add"}


def _refuse(name: str, dim: int, size: int, index: np.ndarray) -> Any:
    raise IndexError(
        f"{name}: the index holds {index.min()} to {index.max()}, which is out of bounds for dimension {dim} "
        f"with size {size}"
    )


def _by_rows(name: str, a: np.ndarray, where: np.ndarray, b: np.ndarray) -> bool:
    """Runs a kernel cut along what lies before the dimension that is read or written along."""
    work = max(a[0].size, b[0].size) if len(b) else 1
    return share_rows(name, len(b), GRAIN // max(work, 1) + 1, (a, where, b), 0b010 if len(where) == 1 else 0)


def gather(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """The elements of x that the index names along `dim`."""
    return _run("gather", dim, x.shape[dim], x, index, np.empty(index.shape, x.dtype))


def write(name: str, out: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> None:
    """Writes ("scatter") or adds ("scatter_add") `source` where the index says along `dim`."""
    _run(name, dim, out.shape[dim], contiguous(source, out.dtype), index, out)


def take(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray | None:
    """The slices of x along `dim` that an index of one dimension names; None if they are few, or no kernel can do it."""
    shape, count, kind = x.shape, index.size, x.dtype
    table = x.ndim == 2 and dim == 0
    size, width = shape if table else (shape[dim], math.prod(shape[dim + 1 :]))
    if math.prod(shape[:dim]) * count * width < SMALL or (1 < width < TAKE_NARROW and not helpers()):
        return None
    if not (x.flags.c_contiguous and index.dtype == _PLACES and has_kernel(x, "take", "gather_rows")):
        return None
    out = np.empty((count, width) if table else (*shape[:dim], count, *shape[dim + 1 :]), kind)
    if width == 1:
        return out if _in_runs(x, size, index, out) else _run("take", dim, size, x, index, out)
    a, b = (x, out) if table else (x.reshape(-1, width), out.reshape(-1, width))
    rows = len(b)
    chunks = min(out.size // CHUNK, rows, MOST_CHUNKS)
    args = (0, rows, size, a, index if index.flags.carray else contiguous(index), b)
    return out if run_rows("take", chunks, rows, args, -1, 0) else _refuse("take", dim, size, index)


def _in_runs(x: np.ndarray, size: int, index: np.ndarray, out: np.ndarray) -> bool:
    """Whether an index of the last dimension is a few runs of neighbours (that of a padding, say), and they are copied."""
    if out.size < COPY_LEAST or out.size < RUNS * index.size:
        return False
    ends = np.flatnonzero(index[1:] - index[:-1] != 1) + 1
    if len(ends) >= RUNS or not within(index, size):
        return False
    starts, stops = [0, *ends.tolist()], [*ends.tolist(), index.size]
    assign(*[(out[..., a:b], x[..., (k := int(index[a])) : k + b - a]) for a, b in zip(starts, stops, strict=True)])
    return True


def add_slices(out: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> None:
    """Adds the slices of `source` along `dim`, in order, to those of `out` that an index of one dimension names."""
    _run("add_slices", dim, out.shape[dim], contiguous(source, out.dtype), index, out)


def count_bins(x: np.ndarray, low: Any, high: Any, bins: int) -> np.ndarray:
    """How many elements of a vector lie in each of as many equal bins from low to high."""
    parts = max(1, min(x.size // max(GRAIN, 4 * bins), MOST_CHUNKS))
    found = np.zeros(parts * bins, np.int64)
    run_parts("count_bins", parts, (x, low, high, found))
    return found.reshape(parts, bins).sum(0)
