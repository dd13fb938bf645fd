"""Resampling of images along their dimensions: every mode is a sparse matrix of taps, applied to one dimension at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.common import SMALL, contiguous, share_rows
from ferro.cpu.layouts import CHANNELS, laid
from ferro.cpu.thresholds import GRAIN
from ferro.native.readiness import ready

_KERNELS = kernels("jit_interpolation.resample_lines resample_planes")

__all__ = ["resample", "resample_spread"]

# Note [Resampling]
#     Interpolation is linear in the image and separable: along each dimension the new places are sums of a few old ones
#     ("taps"). A Map says which, as a sparse matrix in rows; the transposed matrix serves backward, so that both
#     directions are the same gather and nothing is added from two threads. One dimension is described by the tuple
#     (mode, old size, new size, scale, align_corners), which is what operations keep as their parameter.
#
# Note [The places of nearest]
#     Near a boundary between two pixels rounding decides, and PyTorch rounds in the precision of the dtype: so here.
#     For images it computes in float32 always and takes an unchanged or doubled size as such, whatever the scale; for
#     signals and volumes it does neither. (It has several kernels for images; these are the rules of the one for small
#     images and for all backward passes.)


class Map:
    """A sparse matrix (rows, columns) in rows: row r has the entries number starts[r] to starts[r + 1]."""

    __slots__ = ("columns", "known", "rows", "single", "size", "starts", "weights")

    def __init__(self, starts: Any, columns: Any, weights: Any, size: int) -> None:
        self.starts, self.columns, self.weights, self.size = starts, columns, weights, size
        self.rows = len(starts) - 1
        self.known: dict = {}
        self.single = len(columns) == self.rows and bool((np.diff(starts) == 1).all())

    def weights_in(self, dtype: Any) -> Any:
        """The weights as numbers of a dtype, 1 where there are none."""
        found = self.known.get(dtype)
        if found is None:
            found = np.ones(len(self.columns), dtype) if self.weights is None else self.weights.astype(dtype)
            self.known[dtype] = found
        return found

    def transposed(self) -> Map:
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(self.rows), np.diff(self.starts))[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.columns, minlength=self.size))])
        return Map(starts, rows, None if self.weights is None else self.weights[order], self.rows)


# -- the taps of each mode ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _map(mode: str, old: int, new: int, scale: float | None, align: bool, single: bool, turned: bool) -> Map:
    """The map of one dimension, transposed where `turned`; `single`: the places of nearest in float32."""
    if turned:
        return _map(mode, old, new, scale, align, single, False).transposed()
    if mode.startswith("nearest"):
        return Map(np.arange(new + 1), _nearest(mode, old, new, scale, single), None, old)
    if mode.endswith("antialias"):
        if old == new:  # whatever the scale
            return Map(np.arange(new + 1), np.arange(new), None, old)
        return _antialiased(mode, old, new, _step(old, new, scale, align))
    at = _places(mode, old, new, scale, align)
    first = np.minimum(np.floor(at), old - 1)
    t = np.clip(at - first, 0.0, 1.0)
    if mode == "linear":
        columns = np.stack([first, np.minimum(first + 1, old - 1)], 1)
        weights = np.stack([1 - t, t], 1)
    else:
        columns = np.clip(first[:, None] + np.arange(-1, 3), 0, old - 1)
        weights = np.stack([cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)], 1)
    width = columns.shape[1]
    return Map(np.arange(new + 1) * width, columns.astype(np.int64).ravel(), weights.ravel(), old)


def _step(old: int, new: int, scale: float | None, align: bool) -> float:
    """The distance of two new places in old ones."""
    if align:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / scale if scale else old / new


def _places(mode: str, old: int, new: int, scale: float | None, align: bool) -> Any:
    """Where the new places are among the old ones."""
    o = np.arange(new, dtype=np.float64)
    if mode == "linear" and old == new:
        return o
    step = _step(old, new, scale, align)
    if align:
        return o * step
    at = (o + 0.5) * step - 0.5
    return np.maximum(at, 0.0) if mode == "linear" else at


def _nearest(mode: str, old: int, new: int, scale: float | None, single: bool) -> Any:
    """The old place nearest to each new one: see Note [The places of nearest]."""
    o = np.arange(new)
    exact = mode == "nearest-exact"
    if mode == "nearest_image" and new in (old, 2 * old):
        return o if new == old else o >> 1
    real = np.float32 if single else np.float64
    step = real(1.0 / scale) if scale else real(old) / real(new)
    at = (o.astype(real) + real(0.5)) * step if exact else o.astype(real) * step
    return np.minimum(np.floor(at.astype(np.float32)).astype(np.int64), old - 1)


def cubic_near(t: Any, a: float = -0.75) -> Any:
    """The cubic convolution kernel on [0, 1] (Keys 1981, Cubic Convolution Interpolation, eq. 15, with parameter a)."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def cubic_far(t: Any, a: float = -0.75) -> Any:
    """The cubic convolution kernel on [1, 2]."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def _antialiased(mode: str, old: int, new: int, step: float) -> Map:
    """Filters stretched to the step where images shrink, each normalised to the sum one (as in Pillow)."""
    reach, window = _FILTERS[mode]
    stretch = max(step, 1.0)
    centre = step * (np.arange(new) + 0.5)
    begin = np.maximum((centre - reach * stretch + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + reach * stretch + 0.5).astype(np.int64), old)
    lengths = np.maximum(end - begin, 0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(new), lengths)
    columns = np.arange(starts[-1]) - starts[rows] + begin[rows]
    weights = window(np.abs((columns - centre[rows] + 0.5) / stretch))
    total = np.bincount(rows, weights, new)
    total[total == 0] = 1
    return Map(starts, columns, weights / total[rows], old)


def _triangle(x: Any) -> Any:
    return np.maximum(1 - x, 0)


def _cubic(x: Any) -> Any:
    return np.where(x < 1, cubic_near(x, -0.5), np.where(x < 2, cubic_far(x, -0.5), 0))


def _lanczos(x: Any) -> Any:
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)


_FILTERS: dict[str, tuple[float, Callable]] = {
    "linear_antialias": (1.0, _triangle),
    "cubic_antialias": (2.0, _cubic),
    "lanczos_antialias": (3.0, _lanczos),
}


# -- applying them -----------------------------------------------------------------------------------------------------


def _resampled(make: Make, *shape: int) -> Iterator[tuple]:
    for images in (*sides(math.ceil(SMALL / 180)), GRAIN // 120):
        yield make(images, *shape), (("linear", 10, 15, None, False), ("linear", 12, 7, None, True))


@by_kernels(_KERNELS, lambda make: _resampled(make, 10, 12))
def resample(x: Any, axes: tuple) -> Any:
    """`x` with its last dimensions resampled as the tuples in `axes` say: see Note [Resampling]."""
    return _resample(x, axes, False)


@partial(laid, rule=CHANNELS)  # here, not in the declaration: backward calls it without
@by_kernels(_KERNELS, lambda make: _resampled(make, 15, 7))
def resample_spread(g: Any, axes: tuple) -> Any:
    """The adjoint of `resample`."""
    return _resample(g, axes, True)


@lru_cache(maxsize=256)
def _maps(axes: tuple, single: bool, turned: bool) -> tuple[bool, tuple, tuple]:
    """Whether nothing but copies is asked for, and pairs (dimension from the end, map), also in the order in which they go."""
    maps = tuple([(i - len(axes), _map(*axis, single, turned)) for i, axis in enumerate(axes)])
    copied = all(m.weights is None and m.single for _, m in maps)
    # first what makes the image smaller
    return copied, maps, tuple(sorted(maps, key=lambda item: item[1].rows / item[1].size))


def _resample(x: Any, axes: tuple, turned: bool) -> Any:
    dtype, n = x.dtype, x.ndim
    copied, maps, ordered = _maps(axes, dtype != np.float64 or len(axes) == 2, turned)
    if dtype.kind == "u" and not copied:
        for dim, m in reversed(maps):  # rows first, each pass rounded to a byte, as image libraries do
            x = np.clip(np.rint(_along(x.astype(np.float32), n + dim, m)), 0, 255).astype(dtype)
        return x
    if dtype in HALF and not copied:
        x = x.astype(np.float32)
    for dim, m in ordered:
        x = _along(x, n + dim, m)
    return x.astype(dtype, copy=False)


def _along(x: Any, dim: int, m: Map) -> Any:
    """The map applied to one dimension."""
    if m.single and m.weights is None:
        return x.take(m.columns, dim)
    shape = (*x.shape[:dim], m.rows, *x.shape[dim + 1 :])
    size = math.prod(shape)
    if size and x.dtype.kind == "f" and ready(_KERNELS, x.dtype, max(size, x.size) >= SMALL):
        before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
        y, out = contiguous(x).reshape(before, x.shape[dim], after), np.empty((before, m.rows, after), x.dtype)
        weights = m.weights_in(x.dtype)
        cost = max(len(m.columns), 1) * after
        name = "resample_lines" if after == 1 else "resample_planes"
        share_rows(name, before, GRAIN // cost + 1, (y, m.starts, m.columns, weights, out), 0b01110)
        return out.reshape(shape)
    picked = np.take(x, m.columns, dim)
    if m.weights is not None:
        picked *= m.weights_in(x.dtype).reshape(-1, *[1] * (x.ndim - dim - 1))
    filled = np.flatnonzero(np.diff(m.starts))
    if len(filled) == m.rows and size:
        return np.add.reduceat(picked, m.starts[:-1], dim)
    out = np.zeros(shape, x.dtype)
    if len(filled) and size:
        out[(slice(None),) * dim + (filled,)] = np.add.reduceat(picked, m.starts[filled], dim)
    return out
