"""Softmax and log-softmax along any dimension, and their backward: one launch each.

A thread goes once over its elements with the largest so far and the sum of exp(x - largest), which it scales when a larger one
comes; the team combines these pairs, and the second pass writes. Bytes: two reads and a write of x, of backward two reads of both and a write.
"""

from __future__ import annotations

from typing import Any

from ferro import cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import block_of, is_float, launch
from ferro.cuda.by_hand.texts import both_ways, text_of
from ferro.cuda.driver import cupy

__all__ = ["log_softmax", "log_softmax_vjp", "softmax", "softmax_vjp"]

BODY = """
// Rows of n elements that lie `inner` apart; `rows` of them in all.
template <bool columns, bool logarithm>
__device__ inline void forward(place rows, place n, place inner, const S* x, S* out, T* shared, A* added) {
  const Team<columns> team;
  const bool live = team.row < rows;
  const place start = live ? team.row / inner * n * inner + team.row % inner : 0;
  T top = -INFINITY;
  A total = 0;
  if (live) {
    for (place i = team.first; i < n; i += team.count) {
      const T v = load(x[start + i * inner]);
      if (v > top) {
        total = total * exp(top - v) + exp(v - v);  // (nan for infinity, as of the formula)
        top = v;
      } else if (v != -INFINITY) {
        total += exp(v - top);
      }
    }
  }
  const T best = team.all(top, Largest(), shared);
  total = team.all(top == best ? total : total * exp(top - best), Sum(), added);
  if (!live) return;
  const T part = logarithm ? T(log(total)) : T(1 / total);
  for (place i = team.first; i < n; i += team.count) {
    const place at = start + i * inner;
    const T v = load(x[at]) - best;
    store(out + at, logarithm ? v - part : exp(v) * part);
  }
}
template <bool columns, bool logarithm>
__device__ inline void backward(place rows, place n, place inner, const S* g, const S* out, S* dx, A* added) {
  const Team<columns> team;
  const bool live = team.row < rows;
  const place start = live ? team.row / inner * n * inner + team.row % inner : 0;
  A total = 0;
  if (live) {
    for (place i = team.first; i < n; i += team.count) {
      const place at = start + i * inner;
      total += logarithm ? load(g[at]) : load(g[at]) * load(out[at]);
    }
  }
  const T sum = T(team.all(total, Sum(), added));
  if (!live) return;
  for (place i = team.first; i < n; i += team.count) {
    const place at = start + i * inner;
    const T v = load(g[at]), y = load(out[at]);
    store(dx + at, logarithm ? v - exp(y) * sum : v * y - y * sum);
  }
}
"""
_FORWARD = """KERNEL NAME_KIND(place rows, place n, place inner, const S* x, S* out) {
  __shared__ T shared[256];
  __shared__ A added[256];
  forward<COLUMNS, LOGARITHM>(rows, n, inner, x, out, shared, added);
}
"""
_BACKWARD = """KERNEL NAME_vjp_KIND(place rows, place n, place inner, const S* g, const S* out, S* dx) {
  __shared__ A added[256];
  backward<COLUMNS, LOGARITHM>(rows, n, inner, g, out, dx, added);
}
"""


TEXT = BODY + "".join(
    [
        both_ways(_FORWARD + _BACKWARD, NAME=name, LOGARITHM=logarithm)
        for name, logarithm in (("softmax", "false"), ("log_softmax", "true"))
    ]
)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def _run(name: str, dim: int, *arrays: Any) -> Any:
    x = arrays[0]
    n, inner = x.shape[dim], 1
    for size in x.shape[dim + 1 :]:
        inner *= size
    rows = x.size // n
    out = cupy().empty(x.shape, x.dtype)
    kind = "rows" if inner == 1 else "columns"
    block, each = block_of(inner > 1, rows, n)
    given = [cupy().ascontiguousarray(a) for a in arrays]
    launch(text_of(TEXT, x.dtype.name), f"{name}_{kind}", (-(-rows // each),), block, rows, n, inner, *given, out)
    return out


@or_twin(cpu.softmax)
def softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along `dim`."""
    return _run("softmax", dim, x) if is_float(x) else NotImplemented


@or_twin(cpu.softmax_vjp)
def softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of softmax, from its result."""
    return _run("softmax_vjp", dim, g, out) if is_float(g, out) and g.shape == out.shape else NotImplemented


@or_twin(cpu.log_softmax)
def log_softmax(x: Any, dim: int) -> Any:
    """x minus its logsumexp along `dim`."""
    return _run("log_softmax", dim, x) if is_float(x) else NotImplemented


@or_twin(cpu.log_softmax_vjp)
def log_softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of log_softmax, from its result."""
    return _run("log_softmax_vjp", dim, g, out) if is_float(g, out) and g.shape == out.shape else NotImplemented
