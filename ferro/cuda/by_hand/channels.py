"""Sums over all elements of each channel, for the weights, biases and statistics of normalisation: in parts, added in their order.

A team goes through the elements of its channel: along x where they lie together, along y where channels lie beside each other.
"""

from __future__ import annotations

import math
from typing import Any

from ferro.cuda.by_hand.launching import block_of, launch, parts_of
from ferro.cuda.by_hand.reductions import added_up
from ferro.cuda.by_hand.texts import COMPUTED_NAME, PARTIAL, both_ways, text_of
from ferro.cuda.driver import cupy

__all__ = ["by_channel", "channel_sums", "computed", "either", "given_needs", "in_order", "places_of", "start"]

# Arrays (images, channels, places). The statistics of an element are number image * outer + channel / each.
CHANNELS = """
template <bool columns, int what>
__device__ inline void over_channels(place channels, place places, place n, place part, place outer, place each, double eps, const S* g,
                                     const S* x, const T* means, const T* scales, A* out, A* shared) {
  const Team<columns> team;
  const bool live = team.row < channels;
  A first = 0, second = 0;
  if (live) {
    const place begin = blockIdx.y * part + team.first, end = begin - team.first + part < n ? begin - team.first + part : n;
    const int over = team.count / places, on = team.count % places;
    place a = begin / places, b = begin % places;
    const place group = team.row / each;
    T mean = 0, scale = 0;
    A start = 0;
    if (what == 2) start = load(x[team.row * places]);
    if (what != 2 && outer == 0) {
      mean = means[group];
      scale = what == 1 ? T(1 / sqrt(A(scales[group]) + A(eps))) : scales[group];
    }
    place at = (a * channels + team.row) * places + b;
    const place step = over * channels * places + on, wrap = (channels - 1) * places;
#pragma unroll 2
    for (place i = begin; i < end; i += team.count) {
      if (what == 2) {
        const A d = load(x[at]) - start;
        first += d;
        second += d * d;
      } else {
        if (outer != 0) {
          if (what == 0) mean = means[a * outer + group];
          scale = scales[a * outer + group];
        }
        const T v = load(g[at]);
        first += v * ((load(x[at]) - mean) * scale);
        second += v;
      }
      a += over;
      b += on;
      at += step;
      if (b >= places) {
        b -= places;
        at += wrap;
        ++a;
      }
    }
  }
  first = team.all(first, Sum(), shared);
  second = team.all(second, Sum(), shared);
  if (!live || team.first != 0) return;
  out[blockIdx.y * channels + team.row] = first;
  out[(gridDim.y + blockIdx.y) * channels + team.row] = second;
}
"""
_SUMS = """
KERNEL channel_NAME_KIND(place channels, place places, place n, place part, place outer, place each, double eps, const S* g, const S* x,
                         const T* means, const T* scales, A* out) {
  __shared__ A shared[256];
  over_channels<COLUMNS, WHAT>(channels, places, n, part, outer, each, eps, g, x, means, scales, out, shared);
}
"""
_MOMENTS = """
KERNEL channel_moments_KIND(place channels, place places, place n, place part, const S* x, A* out) {
  __shared__ A shared[256];
  over_channels<COLUMNS, 2>(channels, places, n, part, 0, 1, 0.0, x, x, nullptr, nullptr, out, shared);
}
"""
TEXT = (
    CHANNELS
    + both_ways(_SUMS, NAME="sums", WHAT="0")
    + both_ways(_SUMS, NAME="scaled_sums", WHAT="1")
    + both_ways(_MOMENTS)
)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def channel_sums(name: str, x: Any, channels: int, places: int, *args: Any) -> Any:
    """The parts (2, parts, channels) of sums over all elements of each channel."""
    n, columns = x.size // channels, places < 32 and channels > 1
    block, each = block_of(columns, channels, n)
    blocks = -(-channels // each)
    parts = parts_of(blocks, n)
    some = cupy().empty((2, parts, channels), PARTIAL[x.dtype.name])
    kernel = f"{name}_{'columns' if columns else 'rows'}"
    launch(
        text_of(TEXT, x.dtype.name), kernel, (blocks, parts), block, channels, places, n, -(-n // parts), *args, some
    )
    return some


def by_channel(
    name: str, g: Any, x: Any, channels: int, places: int, outer: int, each: int, eps: float, *given: Any
) -> Any:
    """The sums (2, channels) of g z and of g, in the dtype in which is computed."""
    some = channel_sums(name, x, channels, places, outer, each, float(eps), g, x, *given)
    return added_up(some, x.dtype.name, COMPUTED_NAME[x.dtype.name])


def given_needs(sums: Any, like: Any, shape: tuple, needs: tuple) -> tuple:
    """The gradients of weight and bias, those that are needed, as arrays of their own."""
    return tuple([sums[k].reshape(shape).astype(like.dtype) if need else None for k, need in enumerate(needs)])


def start(text: str, x: Any, name: str, columns: bool, rows: int, n: int, *args: Any) -> None:
    """Starts a kernel for the dtype of x whose teams have rows or columns of n elements."""
    block, each = block_of(columns, rows, n)
    launch(text_of(text, x.dtype.name), name, (-(-rows // each),), block, *args)


def in_order(*arrays: Any) -> list:
    """Arrays in C order; None stays."""
    return [a if a is None else cupy().ascontiguousarray(a) for a in arrays]


def computed(x: Any, n: int) -> Any:
    """A vector of the dtype in which is computed."""
    return cupy().empty(n, COMPUTED_NAME[x.dtype.name])


def either(array: Any, instead: Any) -> Any:
    """The array; another, which the kernel does not read, where there is none."""
    return instead if array is None else array


def places_of(x: Any) -> int:
    """How many places a channel of an image has."""
    return math.prod(x.shape[2:])
