"""Images of a GPU: resampled by the maps that the CPU computes, and added to where the maxima of windows were."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.interpolation import _map as map_of
from ferro.cuda import layouts
from ferro.cuda.by_hand.resampling import resampled
from ferro.cuda.driver import cupy
from ferro.cuda.numpy_by_cupy import numpy

__all__ = ["pool_scatter", "resample", "resample_spread"]


def pool_scatter(x: Any, index: Any, size: tuple) -> Any:
    """Images of shape `size` with the elements of x added at flat indices."""
    lead, area = x.shape[: x.ndim - len(size)], math.prod(size)
    n = math.prod(lead)
    out = cupy().zeros(n * area, x.dtype)
    if x.size:
        flat = index.reshape(n, -1) + cupy().arange(n)[:, None] * area
        numpy.add.at(out, flat.reshape(-1), x.reshape(-1))
    return out.reshape(*lead, *size)


def resample(x: Any, axes: tuple) -> Any:
    """`x` with its last dimensions resampled: see Note [Resampling] in ferro/cpu/interpolation.py."""
    return _resampled(x, axes, False)


def resample_spread(g: Any, axes: tuple) -> Any:
    """The adjoint of `resample`."""
    return _resampled(g, axes, True)


def _resampled(x: Any, axes: tuple, turned: bool) -> Any:
    dtype = x.dtype
    single = dtype != np.float64 or len(axes) == 2
    maps = [(x.ndim - len(axes) + i, (*axis, single, turned)) for i, axis in enumerate(axes)]
    copies = all(_is_choice(key) for _, key in maps)
    if dtype.kind == "u" and not copies:
        for dim, key in reversed(maps):  # rows first, each pass rounded to a byte, as image libraries do
            x = cupy().clip(cupy().rint(_along(x.astype(np.float32), dim, key)), 0, 255).astype(dtype)
        return x
    if layouts.is_half(x) and not copies:
        x = x.astype(np.float32)
    for dim, key in sorted(maps, key=lambda item: map_of(*item[1]).rows / map_of(*item[1]).size):
        x = _along(x, dim, key)
    return x.astype(dtype, copy=False)


def _is_choice(key: tuple) -> bool:
    """Whether a map takes one element for each place."""
    found = map_of(*key)
    return found.single and found.weights is None


def _along(x: Any, dim: int, key: tuple) -> Any:
    """A map applied to one dimension: elements taken, or sums of some by a kernel."""
    if _is_choice(key):
        return cupy().take(x, _columns(key), dim)
    return resampled(x, dim, map_of(*key))


@lru_cache(maxsize=256)
def _columns(key: tuple) -> Any:
    return cupy().asarray(map_of(*key).columns)
