"""Normalisation of layers (with and without a mean) and of groups of channels, forward and backward.

Rows (of a layer, of a group of channels) are one launch each way: sums, squares of what is left, result; sums over rows, for
weights and biases, are those of channels.py. Statistics are what is added in: double for float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cuda.by_hand.channels import by_channel, computed, either, given_needs, in_order, places_of, start
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import is_float
from ferro.cuda.by_hand.texts import COMPUTED_NAME, text_of
from ferro.cuda.driver import cupy

__all__ = ["group_norm", "group_norm_vjp", "layer_norm", "layer_norm_vjp", "rms_norm", "rms_norm_vjp"]

# Rows of n elements; element i of a row belongs to channel row % groups * each + i / places, which has a weight and a bias.
TEXT = """
template <bool centred>
__device__ inline void forward(place rows, place n, place groups, place each, place places, place weighted, place shifted, double eps,
                               const S* x, const S* weight, const S* bias, S* out, T* means, T* scales, A* shared) {
  const Team<false> team;
  const bool live = team.row < rows;
  x += live ? team.row * n : 0;
  A sum = 0, squares = 0;
  if (live && centred)
    for (place i = team.first; i < n; i += team.count) sum += load(x[i]);
  const A mean = centred ? team.all(sum, Sum(), shared) / n : A(0);
  if (live) {
    for (place i = team.first; i < n; i += team.count) {
      const A d = load(x[i]) - mean;
      squares += d * d;
    }
  }
  const A scale = 1 / sqrt(team.all(squares, Sum(), shared) / n + A(eps));
  if (!live) return;
  if (team.first == 0) {
    if (centred) means[team.row] = T(mean);
    scales[team.row] = T(scale);
  }
  out += team.row * n;
  const place from = team.row % groups * each;
  for (place i = team.first; i < n; i += team.count) {
    const place channel = from + (places == 1 ? i : i / places);
    T v = T(load(x[i]) - mean) * T(scale);
    if (weighted) v *= load(weight[channel]);
    if (shifted) v += load(bias[channel]);
    store(out + i, v);
  }
}
template <bool centred>
__device__ inline void backward(place rows, place n, place groups, place each, place places, place weighted, const S* g, const S* x,
                                const S* weight, const T* means, const T* scales, S* dx, A* shared) {
  const Team<false> team;
  const bool live = team.row < rows;
  const place from = live ? team.row % groups * each : 0;
  const T mean = live && centred ? means[team.row] : T(0), scale = live ? scales[team.row] : T(0);
  g += live ? team.row * n : 0;
  x += live ? team.row * n : 0;
  A sum = 0, along = 0;
  if (live) {
    for (place i = team.first; i < n; i += team.count) {
      T h = load(g[i]);
      if (weighted) h *= load(weight[from + (places == 1 ? i : i / places)]);
      sum += h;
      along += h * ((load(x[i]) - mean) * scale);
    }
  }
  const T a = centred ? T(team.all(sum, Sum(), shared) / n) : T(0), b = T(team.all(along, Sum(), shared) / n);
  if (!live) return;
  dx += team.row * n;
  for (place i = team.first; i < n; i += team.count) {
    T h = load(g[i]);
    if (weighted) h *= load(weight[from + (places == 1 ? i : i / places)]);
    store(dx + i, (h - (load(x[i]) - mean) * scale * b - a) * scale);
  }
}
KERNEL norm_rows(place rows, place n, place groups, place each, place places, place weighted, place shifted, double eps, const S* x,
                 const S* weight, const S* bias, S* out, T* means, T* scales) {
  __shared__ A shared[256];
  forward<true>(rows, n, groups, each, places, weighted, shifted, eps, x, weight, bias, out, means, scales, shared);
}
KERNEL rms_rows(place rows, place n, place weighted, double eps, const S* x, const S* weight, S* out, T* scales) {
  __shared__ A shared[256];
  forward<false>(rows, n, 1, n, 1, weighted, 0, eps, x, weight, weight, out, scales, scales, shared);
}
KERNEL norm_vjp_rows(place rows, place n, place groups, place each, place places, place weighted, const S* g, const S* x,
                     const S* weight, const T* means, const T* scales, S* dx) {
  __shared__ A shared[256];
  backward<true>(rows, n, groups, each, places, weighted, g, x, weight, means, scales, dx, shared);
}
KERNEL rms_vjp_rows(place rows, place n, place weighted, const S* g, const S* x, const S* weight, const T* scales, S* dx) {
  __shared__ A shared[256];
  backward<false>(rows, n, 1, n, 1, weighted, g, x, weight, scales, scales, dx, shared);
}
"""


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def _rows_norm(x: Any, weight: Any, bias: Any, n: int, groups: int, each: int, places: int, eps: float) -> tuple:
    x, weight, bias = in_order(x, weight, bias)
    rows, out = x.size // n, cupy().empty(x.shape, x.dtype)
    means, scales = computed(x, rows), computed(x, rows)
    flags = int(weight is not None), int(bias is not None)
    arrays = x, either(weight, x), either(bias, x), out, means, scales
    start(TEXT, x, "norm_rows", False, rows, n, rows, n, groups, each, places, *flags, float(eps), *arrays)
    return out, means, scales


def _rows_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, groups: int, each: int, places: int) -> Any:
    rows, dx = x.size // n, cupy().empty(x.shape, x.dtype)
    sizes = rows, n, groups, each, places, int(weight is not None)
    start(TEXT, x, "norm_vjp_rows", False, rows, n, *sizes, g, x, either(weight, x), mean, rstd, dx)
    return dx


def _are_statistics(x: Any, *arrays: Any) -> bool:
    wide = np.dtype(COMPUTED_NAME[x.dtype.name])
    return all(a.dtype == wide and a.flags.c_contiguous for a in arrays)


@or_twin(cpu.layer_norm)
def layer_norm(x: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple:
    """(x - mean) / sqrt(var + eps) over the last n dimensions, scaled and shifted; and the mean and 1 / sqrt(var + eps)."""
    if not is_float(x, weight, bias):
        return NotImplemented
    size = math.prod(x.shape[x.ndim - n :])
    return _rows_norm(x, weight, bias, size, 1, size, 1, eps)


@or_twin(cpu.layer_norm_vjp)
def layer_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of layer_norm by x, weight and bias (None where `needs` says so)."""
    if not is_float(x, g, weight) or g.shape != x.shape or not _are_statistics(x, mean, rstd):
        return NotImplemented
    g, x, weight = in_order(g, x, weight)
    shape = x.shape[x.ndim - n :]
    size = math.prod(shape)
    dx = _rows_vjp(g, x, weight, mean, rstd, size, 1, size, 1) if needs[0] else None
    if not any(needs[1:]):
        return dx, None, None
    sums = by_channel("channel_sums", g, x, size, 1, 1, size, 0.0, mean, rstd)
    return dx, *given_needs(sums, x, shape, needs[1:])


@or_twin(cpu.rms_norm)
def rms_norm(x: Any, weight: Any, n: int, eps: float) -> tuple:
    """x / sqrt(mean(x^2) + eps) over the last n dimensions, scaled; and 1 / sqrt(mean(x^2) + eps) of each row."""
    if not is_float(x, weight):
        return NotImplemented
    x, weight = in_order(x, weight)
    size = math.prod(x.shape[x.ndim - n :])
    rows, out = x.size // size, cupy().empty(x.shape, x.dtype)
    scales = computed(x, rows)
    weighted = int(weight is not None)
    start(TEXT, x, "rms_rows", False, rows, size, rows, size, weighted, float(eps), x, either(weight, x), out, scales)
    return out, scales


@or_twin(cpu.rms_norm_vjp)
def rms_norm_vjp(g: Any, x: Any, weight: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of rms_norm by x and weight (None where `needs` says so)."""
    if not is_float(x, g, weight) or g.shape != x.shape or not _are_statistics(x, rstd):
        return NotImplemented
    g, x, weight = in_order(g, x, weight)
    shape = x.shape[x.ndim - n :]
    size = math.prod(shape)
    rows, dx = x.size // size, None
    if needs[0]:
        dx = cupy().empty(x.shape, x.dtype)
        weighted = int(weight is not None)
        start(TEXT, x, "rms_vjp_rows", False, rows, size, rows, size, weighted, g, x, either(weight, x), rstd, dx)
    if not needs[1]:
        return dx, None
    zeros = cupy().zeros(rows, rstd.dtype)  # (the mean of nothing)
    sums = by_channel("channel_sums", g, x, size, 1, 1, size, 0.0, zeros, rstd)
    return dx, *given_needs(sums, x, shape, needs[1:])


@or_twin(cpu.group_norm)
def group_norm(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple:
    """layer_norm of each group of channels (dimension 1), then scaled and shifted per channel; and its mean and rstd."""
    if not is_float(x, weight, bias):
        return NotImplemented
    each, places = x.shape[1] // groups, places_of(x)
    return _rows_norm(x, weight, bias, each * places, groups, each, places, eps)


@or_twin(cpu.group_norm_vjp)
def group_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple) -> tuple:
    """The backward of group_norm by x, weight and bias (None where `needs` says so)."""
    if not is_float(x, g, weight) or g.shape != x.shape or not _are_statistics(x, mean, rstd):
        return NotImplemented
    g, x, weight = in_order(g, x, weight)
    channels, places = x.shape[1], places_of(x)
    each = channels // groups
    dx = _rows_vjp(g, x, weight, mean, rstd, each * places, groups, each, places) if needs[0] else None
    if not any(needs[1:]):
        return dx, None, None
    sums = by_channel("channel_sums", g, x, channels, places, groups, each, 0.0, mean, rstd)
    return dx, *given_needs(sums, x, (channels,), needs[1:])
