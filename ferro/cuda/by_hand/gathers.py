"""Rows and slices taken by index: one launch that copies bytes, as many at once as the slices and their places allow.

The index is checked by the same launch, which notes a place beyond the end; the processor waits for that note, but not while a CUDA graph is
recorded: there such a place gives the row 0. Bytes: what is taken, read and written, and the index once for each 16 of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.driver import cupy

__all__ = ["index_select", "take_rows"]

UNITS = {16: "Sixteen", 8: "unsigned long long", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}

TEXT = """
struct __align__(16) Sixteen { unsigned v[4]; };
typedef UNIT unit;
// Element u of slice j of part o: units of the slice x[o, index[j]] of sizes (outer, n, units).
KERNEL gather_slices(place total, place n, place count, place units, const place* index, const char* x, char* out, int* wrong) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= total) return;
  const place u = id % units, slice = id / units, j = slice % count, o = slice / count;
  place i = index[j];
  if (i < 0 || i >= n) {
    *wrong = 1;
    i = 0;
  }
  ((unit*)out)[id] = ((const unit*)x)[(o * n + i) * units + u];
}
"""


def _text(size: int) -> str:
    return text_of(TEXT, "float32", UNIT=UNITS[size])


def texts(dtype: str) -> list[str]:
    """The texts of this family, which are the same for all dtypes."""
    return [_text(size) for size in UNITS]


def gathered(x: Any, dim: int, index: Any, name: str) -> Any:
    """The slices of x, in C order, along `dim` that an index of any shape names; IndexError for a place that is not there."""
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    out = cupy().empty(shape, x.dtype)
    bytes_of = math.prod(x.shape[dim + 1 :]) * x.itemsize
    if not out.size:
        return out
    if not x.size:
        raise IndexError(f"{name}: index out of range: a dimension without elements has no slices")
    places = cupy().ascontiguousarray(index, np.int64)
    size = next(s for s in UNITS if bytes_of % s == 0 and x.data.ptr % s == 0)
    total, wrong = out.nbytes // size, cupy().zeros(1, np.int32)
    where = (total, x.shape[dim], places.size, bytes_of // size, places)
    launch(_text(size), "gather_slices", (-(-total // THREADS),), (THREADS,), *where, _bytes(x), _bytes(out), wrong)
    if not cupy().cuda.get_current_stream().is_capturing() and int(wrong[0]):
        outside = places[(places < 0) | (places >= x.shape[dim])]
        raise IndexError(
            f"{name}: index out of range: {int(outside.reshape(-1)[0])} (index out of range in self) along a dimension of "
            f"{x.shape[dim]}; allowed are 0 to {x.shape[dim] - 1}"
        )
    return out


def _bytes(x: Any) -> Any:
    """The memory of an array in C order as int8."""
    return cupy().ndarray((x.nbytes,), np.int8, x.data)


def _takes(x: Any, index: Any) -> bool:
    return (
        isinstance(x, cupy().ndarray) and isinstance(index, cupy().ndarray) and index.dtype.kind in "iu" and x.ndim > 0
    )


@or_twin(cpu.take_rows)
def take_rows(table: Any, indices: Any) -> Any:
    """The rows of `table` with the given indices; IndexError out of range."""
    if not _takes(table, indices):
        return NotImplemented
    return gathered(cupy().ascontiguousarray(table), 0, indices, "embedding")


@or_twin(cpu.index_select)
def index_select(x: Any, dim: int, index: Any) -> Any:
    """The slices of x along `dim` that `index` names; IndexError where one is not in [0, x.shape[dim])."""
    if not _takes(x, index):
        return NotImplemented
    return gathered(cupy().ascontiguousarray(x), dim, index, "index_select")
