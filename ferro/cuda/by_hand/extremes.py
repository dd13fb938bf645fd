"""Largest and smallest elements with their places, of real floats along one dimension or in all: one launch, or two for few rows.

A nan counts as larger (or smaller) than all else, and of equal elements the first one counts: so which thread sees which element decides
nothing. A row of many elements, where there are few rows, is cut into parts; the second launch goes over what these found.
Bytes: one read of x, nine or more written for a result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import block_of, is_float, launch, parts_of
from ferro.cuda.by_hand.reductions import layout_of
from ferro.cuda.by_hand.texts import both_ways, text_of
from ferro.cuda.driver import cupy

__all__ = ["argmax", "argmin", "max_dim", "min_dim"]

TEXT = """
struct Found { T v; place i; };
__device__ inline Found better(Found a, Found b) {
  const bool nan_a = a.v != a.v, nan_b = b.v != b.v;
  if (b.i < 0 || a.i < 0) return b.i < 0 ? a : b;
  if (nan_a || nan_b) return nan_a && (!nan_b || a.i < b.i) ? a : b;
  if (a.v == b.v) return a.i < b.i ? a : b;
  return (SIGN a.v) > (SIGN b.v) ? a : b;
}
template <bool columns> __device__ inline Found of_team(const Team<columns>& team, Found mine, T* values, place* places) {
  if (!columns) {
    for (int step = (blockDim.x < 32 ? blockDim.x : 32) / 2; step > 0; step /= 2) {
      const Found other = {__shfl_xor_sync(0xffffffffu, mine.v, step), __shfl_xor_sync(0xffffffffu, mine.i, step)};
      mine = better(mine, other);
    }
    if (blockDim.x <= 32) return mine;
  }
  const int at = columns ? threadIdx.y * blockDim.x + threadIdx.x : threadIdx.x / 32;
  if (columns || threadIdx.x % 32 == 0) values[at] = mine.v, places[at] = mine.i;
  __syncthreads();
  const int first = columns ? threadIdx.x : 0, step = columns ? blockDim.x : 1;
  const int end = columns ? blockDim.x * blockDim.y : blockDim.x / 32;
  mine = {values[first], places[first]};
  for (int k = first + step; k < end; k += step) mine = better(mine, Found{values[k], places[k]});
  return mine;
}
// As reduce of reductions.py; `known`, if there is one, has the places of what x holds. `values` need not be there.
template <bool columns>
__device__ inline void extreme(place results, place near, place far_step, place near_step, place inner, place outer_step,
                               place inner_step, place n, place each, const S* x, const place* known, S* values, place* places,
                               T* shared, place* shared_places) {
  const Team<columns> team;
  const bool live = team.row < results;
  Found best = {T(0), -1};
  if (live) {
    const place origin = team.row / near * far_step + team.row % near * near_step;
    const place begin = blockIdx.y * each + team.first, end = begin - team.first + each < n ? begin - team.first + each : n;
    for (place i = begin; i < end; i += team.count) {
      const place at = origin + i / inner * outer_step + i % inner * inner_step;
      best = better(best, Found{load(x[at]), known ? known[at] : i});
    }
  }
  best = of_team<columns>(team, best, shared, shared_places);
  if (live && team.first == 0) {
    const place at = blockIdx.y * results + team.row;
    if (values) store(values + at, best.v);
    places[at] = best.i;
  }
}
"""
_KERNEL = """
KERNEL extreme_KIND(place results, place near, place far_step, place near_step, place inner, place outer_step, place inner_step,
                    place n, place each, const S* x, const place* known, S* values, place* places) {
  __shared__ T shared[256];
  __shared__ place shared_places[256];
  extreme<COLUMNS>(results, near, far_step, near_step, inner, outer_step, inner_step, n, each, x, known, values, places, shared,
                   shared_places);
}
"""
TEXT += both_ways(_KERNEL)


def _text(dtype: str, largest: bool) -> str:
    return text_of(TEXT, dtype, SIGN="" if largest else "-")


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [_text(dtype, largest) for largest in (True, False)]


def _found(x: Any, dim: tuple, keepdim: bool, largest: bool, wants_values: bool) -> tuple:
    shape = [1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]
    near, kept, taken = layout_of(x, dim)
    results, n = kept[0][0] * kept[1][0], taken[0][0] * taken[1][0]
    columns = kept[1][0] > 1 and (abs(kept[1][1]) < abs(taken[1][1]) or n == 1)
    block, each_block = block_of(columns, results, n)
    blocks = -(-results // each_block)
    parts = parts_of(blocks, n)
    where = (results, kept[1][0], kept[0][1], kept[1][1], taken[1][0], taken[0][1], taken[1][1], n, -(-n // parts))
    name, text = "extreme_columns" if columns else "extreme_rows", _text(x.dtype.name, largest)
    values = cupy().empty(shape, x.dtype) if wants_values else 0
    places = cupy().empty(shape, np.int64)
    if parts == 1:
        launch(text, name, (blocks,), block, *where, near, 0, values, places)
        return values, places
    some, some_places = cupy().empty((parts, results), x.dtype), cupy().empty((parts, results), np.int64)
    launch(text, name, (blocks, parts), block, *where, near, 0, some, some_places)
    columns = results > 1
    block, each_block = block_of(columns, results, parts)
    where = (results, results, 0, 1, parts, 0, results, parts, parts)
    name = "extreme_columns" if columns else "extreme_rows"
    launch(text, name, (-(-results // each_block),), block, *where, some, some_places, values, places)
    return values, places


def _place(x: Any, dim: int | None, keepdim: bool, largest: bool) -> Any:
    if not is_float(x):
        return NotImplemented
    return _found(x, tuple(range(x.ndim)) if dim is None else (dim % x.ndim,), keepdim, largest, False)[1]


@or_twin(cpu.argmax)
def argmax(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Index of the largest element (the first of several, or the first nan) along `dim`, or in the flattened array."""
    return _place(x, dim, keepdim, True)


@or_twin(cpu.argmin)
def argmin(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Index of the smallest element (the first of several, or the first nan) along `dim`, or in the flattened array."""
    return _place(x, dim, keepdim, False)


@or_twin(cpu.max_dim)
def max_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """Largest element along one dimension, and its index."""
    return _found(x, (dim % x.ndim,), keepdim, True, True) if is_float(x) else NotImplemented


@or_twin(cpu.min_dim)
def min_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """Smallest element along one dimension, and its index."""
    return _found(x, (dim % x.ndim,), keepdim, False, True) if is_float(x) else NotImplemented
