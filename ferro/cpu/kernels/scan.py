"""Cumulative sums, products and extrema of large arrays along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, split_rows


def accumulate(name: str, x: np.ndarray, dim: int) -> np.ndarray:
    """The scan "cumsum", "cumprod" or "logcumsumexp" along `dim`, carried in float64."""
    out = np.empty(x.shape, x.dtype)
    _along(name, (x,), dim, (), (out,))
    return out


def affine_scan(a: np.ndarray, b: np.ndarray, dim: int) -> np.ndarray:
    """The recurrence s_k = b_k + a_k s_(k-1) along `dim`, from zero, carried in float64."""
    out = np.empty(b.shape, b.dtype)
    _along("affine_scan", (np.broadcast_to(a, b.shape), b), dim, (), (out,))
    return out


def picked_sum(g: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Zeros like g, to which g is added at `index` along `dim`, in float64."""
    out = np.empty(g.shape, g.dtype)
    _along("picked_sum", (g, index), dim, (), (out,))
    return out


def running_extremum(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest element up to each place along `dim`, and the index of its last appearance."""
    out, index = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    _along("running_extremum", (x,), dim, (largest,), (out, index))
    return out, index


def _along(name: str, xs: tuple, dim: int, parameters: tuple, outs: tuple) -> None:
    """Runs a kernel along `dim` of arrays of one shape into C-contiguous ones."""
    run: Any = get(name)
    x = xs[0]
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    ys, targets = [contiguous(a).reshape(shape) for a in xs], [out.reshape(shape) for out in outs]

    def part(i: int, j: int) -> None:
        run(*[y[i:j] for y in ys], *parameters, *[t[i:j] for t in targets])

    split_rows(shape[0], x.size // shape[0], GRAIN, part)
