"""Images resampled along a dimension: each new place is a sum of the few old ones that a sparse map names, in one launch.

See Note [Resampling] in ferro/cpu/interpolation.py for the maps. What has no entry in the map is not read, so a number that is none spoils its
neighbours alone. Bytes: each entry's element, and the result; the map's rows stay in the cache.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import COMPUTED_NAME, text_of
from ferro.cuda.driver import cupy

__all__ = ["resampled"]

TEXT = """
// Element (o, r, i) of (outer, rows, inner) is the sum over the entries starts[r] to starts[r + 1] of weight times (o, column, i).
KERNEL resample(place total, place rows, place inner, place size, const place* starts, const place* columns, const T* weights,
                const S* x, S* out) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= total) return;
  const place i = id % inner, r = id / inner % rows, o = id / inner / rows;
  const S* from = x + o * size * inner + i;
  A sum = 0;
  for (place k = starts[r]; k < starts[r + 1]; ++k) sum += A(weights[k]) * A(load(from[columns[k] * inner]));
  store(out + id, T(sum));
}
"""


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


@lru_cache(maxsize=256)
def _arrays(found: Any, dtype: str) -> tuple:
    """The rows, the columns and the weights of a map, on the GPU."""
    weights = np.ones(len(found.columns)) if found.weights is None else found.weights
    return tuple(
        [cupy().asarray(a.astype(d)) for a, d in ((found.starts, "i8"), (found.columns, "i8"), (weights, dtype))]
    )


def resampled(x: Any, dim: int, found: Any) -> Any:
    """The map applied to one dimension of real floats."""
    x = cupy().ascontiguousarray(x)
    out = cupy().empty((*x.shape[:dim], found.rows, *x.shape[dim + 1 :]), x.dtype)
    if not out.size:
        return out
    if not x.size:
        raise ValueError("resample: a dimension without elements has nothing to be resampled")
    inner, dtype = math.prod(x.shape[dim + 1 :]), x.dtype.name
    kept = _arrays(found, COMPUTED_NAME[dtype])
    where = (out.size, found.rows, inner, x.shape[dim])
    launch(text_of(TEXT, dtype), "resample", (-(-out.size // THREADS),), (THREADS,), *where, *kept, x, out)
    return out
