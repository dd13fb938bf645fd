"""Cumulative sums, products and extrema of large arrays along one dimension."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, share_rows


def scan(name: str, dim: int, xs: tuple, *parameters: bool) -> np.ndarray:
    """The kernel of that name along `dim` of arrays of one shape; the result has the dtype of the first, carried in float64."""
    out = np.empty(xs[0].shape, xs[0].dtype)
    _along(name, xs, dim, parameters, (out,))
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
