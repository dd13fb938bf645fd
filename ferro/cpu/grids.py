"""Sampling images at the places of a grid: places, the taps around them and their weights, and weighted sums of taps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, places, sides
from ferro.cpu.interpolation import cubic_far, cubic_near
from ferro.cpu.kernels.common import SMALL, contiguous, has_kernel, share_rows
from ferro.cpu.thresholds import GRAIN

__all__ = ["grid_places", "grid_slopes", "sample_taps", "spread_taps", "tap_places", "tap_weights", "weigh_taps"]

# Note [Sampling on a grid]
#     A sample is a sum of a few pixels ("taps") around its place: y[n, c, s] = sum_t w[n, t, s] x[n, c, index[n, t, s]].
#     The form F(g, w, x) = sum g[n, c, s] w[n, t, s] x[n, c, index[n, t, s]] is linear in all three, and its gradients
#     are sample_taps (by g), weigh_taps (by w) and spread_taps (by x): the family is closed under differentiation. The
#     weights are products over the dimensions of piecewise polynomials of the place, whose derivative of any order is
#     the same function with another `order`. Places are (image, dimension, sample); the grid names the last dimension
#     of the image first.


def grid_places(grid: Any, sizes: tuple, padding: str, align: bool) -> Any:
    """Grid values, from -1 to 1, as places among the pixels; "border" and "reflection" bring them inside."""
    at, last = _pixels(grid, sizes, align)
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflected(at, last, align)[0]
    return np.minimum(np.fmax(at, 0), last)  # (of nan and 0 fmax is 0)


def grid_slopes(grid: Any, sizes: tuple, padding: str, align: bool) -> Any:
    """The derivative of `grid_places`; zero on the border and beyond where places are clamped."""
    at, last = _pixels(grid, sizes, align)
    slope = np.broadcast_to((last if align else last + 1) / 2, at.shape)
    if padding == "zeros":
        return slope
    if padding == "reflection":
        at, sign = _reflected(at, last, align)
        slope = slope * sign
    return np.where((at > 0) & (at < last), slope, 0)


def _pixels(grid: Any, sizes: tuple, align: bool) -> tuple[Any, Any]:
    """The places, and the last pixel of each dimension."""
    size = _column(sizes).astype(grid.dtype)
    at = grid + 1
    if align:
        at *= (size - 1) / 2
    else:
        at *= size
        at -= 1
        at /= 2
    return at, size - 1


def _column(sizes: tuple) -> Any:
    """The sizes in the order of the grid, to be broadcast with (image, dimension, sample)."""
    return np.array(sizes[::-1])[:, None]


def _reflected(at: Any, last: Any, align: bool) -> tuple[Any, Any]:
    """Places reflected at the first and last pixel (align) or at the outer edges of these; and the slope, 1, -1 or 0."""
    low = 0 if align else -0.5
    span = last if align else last + 1
    safe = np.where(span > 0, span, 1)
    moved = at - low
    away = np.abs(moved)
    rest = np.fmod(away, safe)
    odd = np.fmod(np.floor(away / safe), 2) != 0
    found = np.where(odd, span - rest, rest) + low
    sign = np.where(odd == (moved < 0), 1, -1)
    return np.where(span > 0, found, 0), np.where(span > 0, sign, 0)


_WIDTH = {"nearest": 1, "bilinear": 2, "bicubic": 4}


def _first(at: Any, mode: str) -> tuple[Any, Any]:
    """The first tap of each place in each dimension (of places that are no numbers: one far outside); and the floor."""
    floor = np.rint(at) if mode == "nearest" else np.floor(at)
    known = np.where(np.abs(floor) < 2**31, floor, -100).astype(np.int64)
    return known - 1 if mode == "bicubic" else known, floor


def _points(make: Make) -> Iterator[Any]:
    """Places among 10 × 12 pixels and beyond: (image, dimension, sample)."""
    for n in (*sides(SMALL // 4), GRAIN // 2):
        yield 6 + 8 * make(2, 2, n)


@by_kernels("jit_grids.linear_weights", lambda make: ((at, (10, 12), "bilinear", "zeros", 0) for at in _points(make)))
def tap_weights(at: Any, sizes: tuple, mode: str, padding: str, order: int) -> Any:
    """The weights (image, dimension, tap, sample) of the taps in each dimension, or their derivative of some order by
    the place.

    With padding "zeros" taps outside the image weigh nothing.
    """
    if mode == "bilinear" and order == 0 and has_kernel(at, "linear_weights"):
        out = np.empty((*at.shape[:2], 2, at.shape[2]), at.dtype)
        args = contiguous(at), np.array(sizes[::-1], np.int64), padding == "zeros", out
        share_rows("linear_weights", len(at), GRAIN // (2 * at.shape[2]) + 1, args, 1 << 1)
        return out
    first, floor = _first(at, mode)
    t = at - floor
    if mode == "nearest":
        parts = [0.0 if order else 1.0]
    elif mode == "bilinear":
        parts = [1 - t, t] if order == 0 else [-1.0, 1.0] if order == 1 else [0.0, 0.0]
    else:
        parts = _cubic_weights(t, order)
    out = np.empty((*at.shape[:2], len(parts), at.shape[2]), at.dtype)
    size = _column(sizes)
    for k, part in enumerate(parts):
        out[:, :, k] = part
        if padding == "zeros":
            out[:, :, k][(first < -k) | (first >= size - k)] = 0
    return out


def _cubic_weights(t: Any, order: int, a: float = -0.75) -> list:
    """The four weights of cubic convolution (Keys 1981, eq. 15, with parameter a), or their derivatives by t."""
    s = 1 - t
    sign = 1 - 2 * (order % 2)  # of the inner derivative of what runs backwards
    if order == 0:
        return [cubic_far(t + 1), cubic_near(t), cubic_near(s), cubic_far(s + 1)]
    if order == 1:
        far, near = (lambda u: (3 * a * u - 10 * a) * u + 8 * a), (lambda u: (3 * (a + 2) * u - 2 * (a + 3)) * u)
    elif order == 2:
        far, near = (lambda u: 6 * a * u - 10 * a), (lambda u: 6 * (a + 2) * u - 2 * (a + 3))
    else:
        third = 6.0 if order == 3 else 0.0
        return [a * third, (a + 2) * third, sign * (a + 2) * third, sign * a * third]
    return [far(t + 1), near(t), sign * near(s), sign * far(s + 1)]


@by_kernels(
    "jit_grids.linear_places", lambda make: ((at, (10, 12), "bilinear", "zeros", False) for at in _points(make))
)
def tap_places(at: Any, sizes: tuple, mode: str, padding: str, align: bool) -> Any:
    """The places in the flattened image of the taps (image, tap, sample), those of the last dimension fastest."""
    if mode == "bilinear" and len(sizes) == 2 and has_kernel(at, "linear_places"):
        out = np.empty((len(at), 4, at.shape[2]), np.int64)
        share_rows("linear_places", len(at), GRAIN // (2 * at.shape[2]) + 1, (contiguous(at), *sizes, out))
        return out
    first, _ = _first(at, mode)
    width, n = _WIDTH[mode], len(sizes)
    flat = np.zeros((len(at), 1, at.shape[2]), np.int64)
    for d, size in enumerate(sizes):
        taps = first[:, n - 1 - d, None] + np.arange(width)[:, None]
        if mode == "bicubic" and padding == "reflection":  # here the taps are brought inside, not the place
            taps = _reflected_taps(taps, size, align)
        else:
            np.clip(taps, 0, size - 1, out=taps)
        flat = ((flat * size)[:, :, None] + taps[:, None]).reshape(len(at), width ** (d + 1), at.shape[2])
    return flat


def _reflected_taps(taps: Any, size: int, align: bool) -> Any:
    """Pixels reflected at the first and last one (align) or at the edges of the image."""
    if align and size == 1:
        return np.zeros_like(taps)
    span = size - 1 if align else size
    flips, rest = np.divmod(np.where(taps < 0, -taps if align else -1 - taps, taps), span)
    return np.where(flips % 2 == 1, (span if align else span - 1) - rest, rest)


# -- weighted sums of taps: see Note [Sampling on a grid] --------------------------------------------------------------


def _sampled(make: Make) -> Iterator[tuple]:
    """Pixels, weights of four taps, and which pixels these are."""
    for n in (*sides(SMALL // 8), GRAIN // 8):
        yield make(2, 3, 120), make(2, 4, n), places(make, 120, 2, 4, n)


@by_kernels("jit_grids.sample_taps", _sampled)
def sample_taps(x: Any, w: Any, index: Any) -> Any:
    """y[n, c, s] = sum_t w[n, t, s] x[n, c, index[n, t, s]]."""
    out = np.zeros((*x.shape[:2], w.shape[2]), x.dtype)
    if has_kernel(x, "sample_taps") or has_kernel(w, "sample_taps"):
        return _by_plane("sample_taps", x, w, index, out)
    for n in range(len(x)):
        out[n] = np.einsum("cts,ts->cs", x[n][:, index[n]], w[n])
    return out


@by_kernels(
    "jit_grids.spread_taps", lambda make: ((make(2, 3, w.shape[2]), w, index, 120) for _, w, index in _sampled(make))
)
def spread_taps(g: Any, w: Any, index: Any, length: int) -> Any:
    """dx[n, c, i] = the sum of w[n, t, s] g[n, c, s] over the taps with index[n, t, s] = i < length."""
    out = np.zeros((*g.shape[:2], length), g.dtype)
    if has_kernel(g, "spread_taps") or has_kernel(w, "spread_taps"):
        return _by_plane("spread_taps", g, w, index, out)
    for n in range(len(g)):
        np.add.at(out[n].T, index[n], w[n][..., None] * g[n].T)
    return out


@by_kernels("jit_grids.weigh_taps", lambda make: ((make(2, 3, w.shape[2]), x, index) for x, w, index in _sampled(make)))
def weigh_taps(g: Any, x: Any, index: Any) -> Any:
    """dw[n, t, s] = sum_c g[n, c, s] x[n, c, index[n, t, s]]."""
    out = np.zeros(index.shape, g.dtype)
    if has_kernel(x, "weigh_taps") or has_kernel(g, "weigh_taps"):
        g, x, index = contiguous(g), contiguous(x, g.dtype), contiguous(index)
        grain = GRAIN // max(x.shape[1] * index.shape[1], 1) + 1
        for n in range(len(x)):  # each sample belongs to one thread
            args = (g[n], x[n], index[n], 0, index.shape[2], out[n])
            share_rows("weigh_taps", index.shape[2], grain, args, whole=-1, span=3)
        return out
    for n in range(len(x)):
        out[n] = np.einsum("cts,cs->ts", x[n][:, index[n]], g[n])
    return out


def _by_plane(name: str, x: Any, w: Any, index: Any, out: Any) -> Any:
    """A kernel from the planes (image, channel) of x to those of `out`, each of which belongs to one thread."""
    x, w, index = contiguous(x), contiguous(w, x.dtype), contiguous(index)
    channels = x.shape[1]
    planes, outs = [a.reshape(math.prod(a.shape[:2]), a.shape[2]) for a in (x, out)]
    args = (planes, w, index, 0, len(planes), channels, outs)
    share_rows(name, len(planes), GRAIN // max(math.prod(w.shape[1:]), 1) + 1, args, whole=-1, span=3)
    return out
