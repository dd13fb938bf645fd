"""Rows added at the places that an index names, in the order of the index and without atomics: the same bits on each run.

The index is sorted (stably, by CuPy). Of its sorted places, `chunk` at a time, a thread adds the rows of each run of equal ones, for one
column: a run that lies in the chunk goes to its place. What a run has in each further chunk is kept, and added by the thread of
the chunk in which the run begins, in a second launch. Bytes: the rows once, the index four times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cuda.by_hand.launching import THREADS, is_float, launch
from ferro.cuda.by_hand.texts import PARTIAL, text_of
from ferro.cuda.driver import cupy

__all__ = ["add_at"]

TEXT = """
KERNEL add_chunks(place threads, place n, place width, place chunk, const place* sorted, const place* order, const S* rows, S* out,
                  A* inside, A* behind) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= threads) return;
  const place column = id % width, begin = id / width * chunk, end = begin + chunk < n ? begin + chunk : n;
  place j = begin;
  while (j < end) {
    const place i = sorted[j];
    const bool left = j == begin && begin > 0 && sorted[begin - 1] == i;
    A sum = 0;
    for (; j < end && sorted[j] == i; ++j) sum += load(rows[order[j] * width + column]);
    if (left) {
      inside[id] = sum;
    } else if (j == end && end < n && sorted[end] == i) {
      behind[id] = sum;
    } else {
      const place at = i * width + column;
      store(out + at, T(load(out[at]) + sum));
    }
  }
}
KERNEL add_carried(place threads, place n, place width, place chunk, const place* sorted, const A* inside, const A* behind, S* out) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= threads) return;
  const place column = id % width, begin = id / width * chunk, end = begin + chunk;
  if (end >= n) return;
  const place i = sorted[end];
  if (sorted[end - 1] != i || (begin > 0 && sorted[begin - 1] == i)) return;
  A sum = behind[id];
  place next = id + width;
  for (place start = end; start < n && sorted[start] == i; start += chunk, next += width) sum += inside[next];
  const place at = i * width + column;
  store(out + at, T(load(out[at]) + sum));
}
"""
CHUNK = 32


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def add_at(out: Any, index: Any, rows: Any) -> bool:
    """out[index[j]] += rows[j] for one j after the other; whether kernels do that for arrays of these dtypes.

    out (n, ...), integers (m), rows of the dtype of out (m, ...). Numbers below 0 count from the end.
    """
    if not is_float(out, rows) or index.dtype.kind not in "iu":
        return False
    n, width = index.size, out.size // out.shape[0]
    if not n:
        return True
    if not out.flags.c_contiguous:
        whole = cupy().ascontiguousarray(out)
        add_at(whole, index, rows)
        out[...] = whole
        return True
    index = index.astype(np.int64) % out.shape[0]
    order = cupy().argsort(index, kind="stable")
    ordered, rows = index[order], cupy().ascontiguousarray(rows)
    threads = -(-n // CHUNK) * width
    inside, behind = (cupy().empty(threads, PARTIAL[out.dtype.name]) for _ in range(2))
    text, blocks, sizes = text_of(TEXT, out.dtype.name), (-(-threads // THREADS),), (threads, n, width, CHUNK)
    launch(text, "add_chunks", blocks, (THREADS,), *sizes, ordered, order, rows, out, inside, behind)
    if n > CHUNK:
        launch(text, "add_carried", blocks, (THREADS,), *sizes, ordered, inside, behind, out)
    return True
