"""Pooling over windows of one to three dimensions: maxima with their places, means, and the backward of both, one thread a result.

Backward of means gathers: each element adds the windows that reach it, in their order. That of maxima adds by index (scatter.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu import mean_pooling, pooling
from ferro.cpu.pooling import three
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import THREADS, is_float, launch
from ferro.cuda.by_hand.scatter import add_at
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.driver import cupy
from ferro.cuda.twins import twin

__all__ = ["avg_pool", "avg_spread", "max_pool", "pool_scatter"]

_IMAGE = "int depth, int height, int width"
_WINDOWS = "int deep, int high, int wide, int kd, int kh, int kw, int sd, int sh, int sw, int pd, int ph, int pw"
TEXT = """
KERNEL pool_max(place total, IMAGE, WINDOWS, int dd, int dh, int dw, const S* x, S* out, place* index) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= total) return;
  const place row = id / wide, plane = row / high / deep;
  const int c = id % wide, b = row % high, a = row / high % deep;
  const S* image = x + plane * (depth * height * width);
  T best = -INFINITY;
  int at = -1;
  for (int i = 0, z = a * sd - pd; i < kd; ++i, z += dd) {
    if (z < 0 || z >= depth) continue;
    for (int j = 0, y = b * sh - ph; j < kh; ++j, y += dh) {
      if (y < 0 || y >= height) continue;
      for (int k = 0, w = c * sw - pw; k < kw; ++k, w += dw) {
        if (w < 0 || w >= width) continue;
        const int here = (z * height + y) * width + w;
        const T v = load(image[here]);
        if (at < 0 || v > best || v != v) {
          best = v;
          at = here;
        }
      }
    }
  }
  store(out + id, best);
  index[id] = at;
}
// divisors: of each window, or one of all where `each` is 0.
KERNEL pool_mean(place total, IMAGE, WINDOWS, int each, const T* divisors, const S* x, S* out) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= total) return;
  const place row = id / wide, plane = row / high / deep;
  const int c = id % wide, b = row % high, a = row / high % deep;
  const S* image = x + plane * (depth * height * width);
  A sum = 0;
  for (int z = a * sd - pd, i = 0; i < kd; ++i, ++z) {
    if (z < 0 || z >= depth) continue;
    for (int y = b * sh - ph, j = 0; j < kh; ++j, ++y) {
      if (y < 0 || y >= height) continue;
      for (int w = c * sw - pw, k = 0; k < kw; ++k, ++w)
        if (w >= 0 && w < width) sum += load(image[(z * height + y) * width + w]);
    }
  }
  store(out + id, T(sum / divisors[each ? (a * high + b) * wide + c : 0]));
}
__device__ inline int first_window(int i, int kernel, int step) { return i < kernel ? 0 : (i - kernel) / step + 1; }
KERNEL pool_mean_vjp(place total, IMAGE, WINDOWS, int each, const T* divisors, const S* g, S* dx) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= total) return;
  const place row = id / width, plane = row / height / depth;
  const int w = id % width + pw, y = row % height + ph, z = row / height % depth + pd;
  const S* slopes = g + plane * (wide * high * deep);
  A sum = 0;
  for (int a = first_window(z, kd, sd); a < deep && a * sd <= z; ++a)
    for (int b = first_window(y, kh, sh); b < high && b * sh <= y; ++b)
      for (int c = first_window(w, kw, sw); c < wide && c * sw <= w; ++c) {
        const int at = (a * high + b) * wide + c;
        sum += A(load(slopes[at])) / divisors[each ? at : 0];
      }
  store(dx + id, T(sum));
}
""".replace("IMAGE", _IMAGE).replace("WINDOWS", _WINDOWS)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [text_of(TEXT, dtype)]


def _start(name: str, x: Any, total: int, image: tuple, windows: list[tuple], *args: Any) -> None:
    sizes = [
        *three(image, 1),
        *three(windows[0], 1),
        *three(windows[1], 1),
        *three(windows[2], 1),
        *three(windows[3], 0),
    ]
    given = [np.int32(a) if type(a) is int else a for a in (*sizes, *args)]
    launch(text_of(TEXT, x.dtype.name), name, (-(-total // THREADS),), (THREADS,), total, *given)


def _takes(x: Any, image: tuple, size: tuple) -> bool:
    """Whether kernels count the elements of images and the windows, of which there are some."""
    return is_float(x) and 0 < math.prod(size) < 1 << 31 and 0 < math.prod(image) < 1 << 31


@or_twin(pooling.max_pool)
def max_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple[Any, Any]:
    """The maximum of every window, and where it is in the flattened image: the first one, or the last nan."""
    if not _takes(x, x.shape[x.ndim - len(kernel) :], size):
        return NotImplemented
    lead, image = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
    best, index = cupy().empty((*lead, *size), x.dtype), cupy().empty((*lead, *size), np.int64)
    windows = [size, kernel, stride, pad]
    given = *three(dilation, 1), cupy().ascontiguousarray(x), best, index
    _start("pool_max", x, best.size, image, windows, *given)
    return best, index


def _divisors(divisors: Any, x: Any) -> tuple[int, Any]:
    """Whether each window has a divisor of its own, and an array of them in the dtype in which is computed."""
    wide = np.dtype(np.float64 if x.dtype.itemsize == 8 else np.float32)
    if not isinstance(divisors, tuple):
        return 0, cupy().full((1,), float(divisors), wide)
    return 1, cupy().ascontiguousarray(twin(mean_pooling._divisor)(divisors, wide))


@or_twin(mean_pooling.avg_pool)
def avg_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The sum of every window over its divisor."""
    if not _takes(x, x.shape[x.ndim - len(kernel) :], size):
        return NotImplemented
    lead, image = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
    out = cupy().empty((*lead, *size), x.dtype)
    windows = [size, kernel, stride, pad]
    _start("pool_mean", x, out.size, image, windows, *_divisors(divisors, x), cupy().ascontiguousarray(x), out)
    return out


@or_twin(mean_pooling.avg_spread)
def avg_spread(g: Any, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, divisors: Any) -> Any:
    """The adjoint of `avg_pool` on images of `shape`: every element, divided, added to the whole of its window."""
    n = len(kernel)
    if not _takes(g, shape, g.shape[g.ndim - n :]):
        return NotImplemented
    dx = cupy().empty((*g.shape[: g.ndim - n], *shape), g.dtype)
    windows = [g.shape[g.ndim - n :], kernel, stride, pad]
    _start("pool_mean_vjp", g, dx.size, shape, windows, *_divisors(divisors, g), cupy().ascontiguousarray(g), dx)
    return dx


@or_twin(pooling.pool_scatter)
def pool_scatter(x: Any, index: Any, size: tuple) -> Any:
    """Images of shape `size` with the elements of x added at flat indices."""
    lead, area = x.shape[: x.ndim - len(size)], math.prod(size)
    if not is_float(x) or not area:
        return NotImplemented
    count = math.prod(lead)
    out = cupy().zeros(count * area, x.dtype)
    places = index.reshape(count, -1) + (cupy().arange(count) * area)[:, None]
    add_at(out, places.reshape(-1), cupy().ascontiguousarray(x).reshape(-1))
    return out.reshape(*lead, *size)
