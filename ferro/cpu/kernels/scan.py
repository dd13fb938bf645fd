"""Cumulative sums, products and extrema of large arrays along one dimension."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, share_rows


def accumulate(name: str, x: np.ndarray, dim: int) -> np.ndarray:
    """The scan "cumprod" or "logcumsumexp" along `dim`, carried in float64."""
    out = np.empty(x.shape, x.dtype)
    _along(name, (x,), dim, (), (out,))
    return out


def cumsum(x: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    """The sums up to each place along `dim`, or in reverse from each place on, carried in float64."""
    out = np.empty(x.shape, x.dtype)
    _along("cumsum", (x,), dim, (reverse,), (out,))
    return out


def affine_scan(a: np.ndarray, b: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    """The recurrence s_k = b_k + a_k s_(k-1) along `dim`, from zero, carried in float64; in reverse with s_(k+1)."""
    out = np.empty(b.shape, b.dtype)
    _along("affine_scan", (np.broadcast_to(a, b.shape), b), dim, (reverse,), (out,))
    return out


def picked_sum(g: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Zeros like g, to which g is added at `index` along `dim`, in float64."""
    out = np.empty(g.shape, g.dtype)
    _along("picked_sum", (g, index), dim, (), (out,))
    return out


def running_extremum(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest element up to each place along `dim`, and the index of its last appearance."""
    out, index = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    if x.size == x.shape[dim] * math.prod(x.shape[:dim]):
        shape = (-1, x.shape[dim])
        args = contiguous(x).reshape(shape), largest, out.reshape(shape), index.reshape(shape)
        share_rows("running_extremum_rows", len(args[0]), GRAIN // x.shape[dim] + 1, args)
    else:
        _along("running_extremum", (x,), dim, (largest,), (out, index))
    return out, index


def _along(name: str, xs: tuple, dim: int, parameters: tuple, outs: tuple) -> None:
    """Runs a kernel along `dim` of arrays of one shape into C-contiguous ones."""
    x = xs[0]
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    ys, targets = [contiguous(a).reshape(shape) for a in xs], [out.reshape(shape) for out in outs]
    share_rows(name, shape[0], GRAIN * shape[0] // x.size, (*ys, *parameters, *targets))
