"""Cumulative sums, products and extrema of large arrays along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, split_rows


def accumulate(name: str, x: np.ndarray, dim: int) -> np.ndarray:
    """The scan "cumsum" or "cumprod" along `dim`, carried in float64."""
    out = np.empty(x.shape, x.dtype)
    _along(name, x, dim, (), (out,))
    return out


def running_extremum(x: np.ndarray, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest element up to each place along `dim`, and the index of its last appearance."""
    out, index = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    _along("running_extremum", x, dim, (largest,), (out, index))
    return out, index


def _along(name: str, x: np.ndarray, dim: int, parameters: tuple, outs: tuple) -> None:
    """Runs a kernel along `dim` into C-contiguous arrays of the shape of x."""
    run: Any = get(name)
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    y, targets = contiguous(x).reshape(shape), [out.reshape(shape) for out in outs]
    split_rows(shape[0], x.size // shape[0], GRAIN, lambda i, j: run(y[i:j], *parameters, *[t[i:j] for t in targets]))
