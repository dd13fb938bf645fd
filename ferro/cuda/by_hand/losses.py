"""Cross-entropy of logits and class indices: the loss of each row with what its backward keeps, and the gradient, one launch each.

The sum of the rows is one or two launches more. Kept are, as float64, the largest logit of each row, the logarithm of the sum of
exp(x - largest), and behind them the sum of weights that the mean divides by: the backward reads nothing back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cpu import losses as _cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import block_of, is_float, launch
from ferro.cuda.by_hand.reductions import reduced
from ferro.cuda.by_hand.texts import COMPUTED_NAME, both_ways, text_of
from ferro.cuda.driver import cupy

__all__ = ["cross_entropy", "cross_entropy_vjp"]

TEXT = """
// Rows of n classes that lie `inner` apart. values: the loss of each row, then its weight (0 where its target is ignored).
template <bool columns>
__device__ inline void losses(place rows, place n, place inner, place ignored, place weighted, double smoothing, const S* x,
                              const place* target, const S* weight, T* values, double* kept, int* wrong, T* shared, A* added) {
  const Team<columns> team;
  const bool live = team.row < rows;
  const S* from = x + (live ? team.row / inner * n * inner + team.row % inner : 0);
  T top = -INFINITY;
  A total = 0;
  if (live) {
    for (place i = team.first; i < n; i += team.count) {
      const T v = load(from[i * inner]);
      if (v > top) {
        total = total * exp(top - v) + exp(v - v);
        top = v;
      } else if (v != -INFINITY) {
        total += exp(v - top);
      }
    }
  }
  const T best = team.all(top, Largest(), shared);
  total = team.all(top == best ? total : total * exp(top - best), Sum(), added);
  const A log_total = log(total);
  A others = 0;
  if (live && smoothing != 0) {
    for (place i = team.first; i < n; i += team.count)
      others += (log_total - (load(from[i * inner]) - best)) * (weighted ? load(weight[i]) : T(1));
  }
  if (smoothing != 0) others = team.all(others, Sum(), added);
  if (!live || team.first != 0) return;
  place t = target[team.row];
  const bool valid = t != ignored;
  if (valid && (t < 0 || t >= n)) {
    *wrong = 1;
    t = 0;
  }
  const T w = !valid ? T(0) : weighted ? load(weight[t]) : T(1);
  A v = 0;
  if (valid) {
    v = (log_total - (load(from[t * inner]) - best)) * w;
    if (smoothing != 0) v = v * A(1 - smoothing) + others * A(smoothing / n);
  }
  values[team.row] = T(v);
  values[rows + team.row] = w;
  kept[team.row] = best;
  kept[rows + team.row] = log_total;
  if (team.row == 0) kept[2 * rows] = 1;
}
template <bool columns>
__device__ inline void slopes(place rows, place n, place inner, place ignored, place weighted, place each, place mean, double smoothing,
                              const S* g, const S* x, const place* target, const S* weight, const S* weights, const double* kept, S* dx) {
  const Team<columns> team;
  if (team.row >= rows) return;
  const place start = team.row / inner * n * inner + team.row % inner, t = target[team.row];
  const bool valid = t != ignored;
  const T best = T(kept[team.row]), log_total = T(kept[rows + team.row]);
  T slope = load(g[each ? team.row : 0]);
  if (mean) slope = T(slope / kept[2 * rows]);
  const T hit = T(1 - smoothing) * (weighted && valid ? load(weight[t]) : T(1)), share = T(smoothing / n);
  const T whole = smoothing == 0 ? hit : hit + (weighted ? share * load(*weights) : T(smoothing));
  for (place i = team.first; i < n; i += team.count) {
    const place at = start + i * inner;
    T v = exp((load(x[at]) - best) - log_total) * whole;
    if (smoothing != 0) v -= weighted ? share * load(weight[i]) : share;
    if (i == t) v -= hit;
    store(dx + at, valid ? v * slope : T(0));
  }
}
"""
TEXT += both_ways("""
KERNEL cross_entropy_KIND(place rows, place n, place inner, place ignored, place weighted, double smoothing, const S* x,
                          const place* target, const S* weight, T* values, double* kept, int* wrong) {
  __shared__ T shared[256];
  __shared__ A added[256];
  losses<COLUMNS>(rows, n, inner, ignored, weighted, smoothing, x, target, weight, values, kept, wrong, shared, added);
}
KERNEL cross_entropy_vjp_KIND(place rows, place n, place inner, place ignored, place weighted, place each, place mean,
                              double smoothing, const S* g, const S* x, const place* target, const S* weight, const S* weights,
                              const double* kept, S* dx) {
  slopes<COLUMNS>(rows, n, inner, ignored, weighted, each, mean, smoothing, g, x, target, weight, weights, kept, dx);
}
""")


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def _takes(x: Any, target: Any, weight: Any) -> bool:
    return is_float(x, weight) and x.ndim > 1 and target.dtype.kind in "iu"


def _sizes(x: Any) -> tuple[int, int, int]:
    """Rows, classes, and how far apart these lie."""
    inner = math.prod(x.shape[2:])
    return x.shape[0] * inner, x.shape[1], inner


def _start(name: str, x: Any, *args: Any) -> None:
    rows, n, inner = _sizes(x)
    block, each = block_of(inner > 1, rows, n)
    kind = "columns" if inner > 1 else "rows"
    launch(text_of(TEXT, x.dtype.name), f"{name}_{kind}", (-(-rows // each),), block, rows, n, inner, *args)


@or_twin(cpu.cross_entropy)
def cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> tuple:
    """The cross-entropy of logits x (N, C, ...) and class indices (N, ...), reduced; and what its backward wants kept."""
    if not _takes(x, target, weight):
        return NotImplemented
    rows, wide = _sizes(x)[0], COMPUTED_NAME[x.dtype.name]
    values, kept = cupy().empty((2, rows), wide), cupy().empty(2 * rows + 1, np.float64)
    wrong = cupy().zeros(1, np.int32)
    x, classes = cupy().ascontiguousarray(x), cupy().ascontiguousarray(target, np.int64)
    given = x if weight is None else cupy().ascontiguousarray(weight)
    flags = int(ignore_index), int(weight is not None), float(smoothing)
    _start("cross_entropy", x, *flags, x, classes, given, values, kept, wrong)
    if reduction == "none":
        loss = values[0].reshape(target.shape)
    else:
        sums = reduced("sum", values, (1,), False)
        loss = sums[0]
        if reduction == "mean":
            kept[2 * rows :] = sums[1:]
            loss = loss / sums[1]
    if not cupy().cuda.get_current_stream().is_capturing() and int(wrong[0]):  # (of what is recorded nobody asks)
        _cpu._classes(target.get(), x.shape[1], ignore_index)  # raises the IndexError
    return loss.astype(x.dtype), kept


@or_twin(cpu.cross_entropy_vjp)
def cross_entropy_vjp(
    g: Any, x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float, kept: Any
) -> Any:
    """The backward of cross_entropy by the logits."""
    if not _takes(x, target, weight):
        return NotImplemented
    dx, each = cupy().empty(x.shape, x.dtype), int(g.ndim > 0)
    g, x = cupy().ascontiguousarray(g, x.dtype), cupy().ascontiguousarray(x)
    given, total = x, x
    if weight is not None:
        given = cupy().ascontiguousarray(weight)
        total = reduced("sum", given, (0,), False) if smoothing else given
    flags = int(ignore_index), int(weight is not None), each, int(reduction == "mean"), float(smoothing)
    _start("cross_entropy_vjp", x, *flags, g, x, cupy().ascontiguousarray(target, np.int64), given, total, kept, dx)
    return dx
