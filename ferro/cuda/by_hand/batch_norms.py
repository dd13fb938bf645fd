"""Normalisation of batches: sums of each channel (channels.py), statistics from them, and one pass that writes; and its backward."""

from __future__ import annotations

from typing import Any

from ferro import cpu
from ferro.cuda.by_hand.channels import (
    by_channel,
    channel_sums,
    computed,
    either,
    given_needs,
    in_order,
    places_of,
    start,
)
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import is_float
from ferro.cuda.by_hand.texts import COMPUTED_NAME, PARTIAL, text_of
from ferro.cuda.driver import cupy

__all__ = ["batch_norm", "batch_norm_vjp"]

TEXT = """
// Mean and variance from the sums (2, parts, channels) of x - its first element, and of the squares of that.
KERNEL batch_statistics(place channels, place places, place n, place parts, const S* x, const A* sums, A* kept, T* means, T* squares) {
  const place c = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (c >= channels) return;
  A first = 0, second = 0;
  for (place p = 0; p < parts; ++p) {
    first += sums[p * channels + c];
    second += sums[(parts + p) * channels + c];
  }
  first /= n;
  const A variance = larger(second / n - first * first, A(0)), mean = load(x[c * places]) + first;
  kept[c] = mean;
  kept[channels + c] = variance;
  means[c] = T(mean);
  squares[c] = T(variance);
}
// `rows` planes of `places`, of which each belongs to a channel.
KERNEL batch_rows(place rows, place places, place channels, place weighted, place shifted, double eps, const S* x, const A* kept,
                  const S* weight, const S* bias, S* out) {
  const Team<false> team;
  if (team.row >= rows) return;
  const place c = team.row % channels;
  const A mean = kept[c];
  const T scale = T(1 / sqrt(kept[channels + c] + A(eps))), w = weighted ? load(weight[c]) : T(1), b = shifted ? load(bias[c]) : T(0);
  for (place i = team.row * places + team.first; i < (team.row + 1) * places; i += team.count) {
    T v = T(load(x[i]) - mean) * scale;
    if (weighted) v *= w;
    store(out + i, shifted ? v + b : v);
  }
}
KERNEL batch_vjp_rows(place rows, place places, place channels, place weighted, place training, place n, double eps, const S* g,
                      const S* x, const S* weight, const T* means, const T* squares, const T* sums, S* dx) {
  const Team<false> team;
  if (team.row >= rows) return;
  const place c = team.row % channels;
  const T mean = means[c], scale = T(1 / sqrt(A(squares[c]) + A(eps))), w = weighted ? load(weight[c]) : T(1);
  const T along = training ? T(w * sums[c] / n) : T(0), level = training ? T(w * sums[channels + c] / n) : T(0);
  for (place i = team.row * places + team.first; i < (team.row + 1) * places; i += team.count) {
    const T h = load(g[i]) * w;
    store(dx + i, training ? (h - (load(x[i]) - mean) * scale * along - level) * scale : h * scale);
  }
}
"""


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


@or_twin(cpu.batch_norm)
def batch_norm(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> tuple:
    """(x - mean) / sqrt(var + eps) for each channel (dimension 1), scaled and shifted; and the mean and biased variance."""
    if not is_float(x, weight, bias) or x.ndim < 2:
        return NotImplemented
    x, weight, bias = in_order(x, weight, bias)
    channels, places = x.shape[1], places_of(x)
    rows, out = x.size // places, cupy().empty(x.shape, x.dtype)
    mean, var = computed(x, channels), computed(x, channels)
    kept = cupy().empty((2, channels), PARTIAL[x.dtype.name])
    if training:
        some = channel_sums("channel_moments", x, channels, places, x)
        sizes = channels, places, x.size // channels, some.shape[1]
        start(TEXT, x, "batch_statistics", True, channels, 1, *sizes, x, some, kept, mean, var)
    else:
        for k, (given, into) in enumerate(((running_mean, mean), (running_var, var))):
            kept[k] = given
            into[...] = given
    flags = int(weight is not None), int(bias is not None)
    arrays = x, kept, either(weight, x), either(bias, x), out
    start(TEXT, x, "batch_rows", False, rows, places, rows, places, channels, *flags, float(eps), *arrays)
    return out, mean, var


@or_twin(cpu.batch_norm_vjp)
def batch_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple) -> tuple:
    """The backward of batch_norm by x, weight and bias (None where `needs` says so)."""
    if not is_float(x, g, weight) or g.shape != x.shape or x.ndim < 2:
        return NotImplemented
    g, x, weight = in_order(g, x, weight)
    wide = COMPUTED_NAME[x.dtype.name]
    mean, var = [cupy().ascontiguousarray(a, wide) for a in (mean, var)]
    channels, places = x.shape[1], places_of(x)
    rows, sums, dx = x.size // places, mean, None
    if training or any(needs[1:]):
        sums = by_channel("channel_scaled_sums", g, x, channels, places, 0, 1, eps, mean, var)
    if needs[0]:
        dx = cupy().empty(x.shape, x.dtype)
        sizes = rows, places, channels, int(weight is not None), int(training), x.size // channels
        start(
            TEXT,
            x,
            "batch_vjp_rows",
            False,
            rows,
            places,
            *sizes,
            float(eps),
            g,
            x,
            either(weight, x),
            mean,
            var,
            sums,
            dx,
        )
    return dx, *given_needs(sums, x, (channels,), needs[1:])
