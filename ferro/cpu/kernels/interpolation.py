"""Large images resampled along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, share_rows

MATRIX = 0b01110  # the arguments that hold the matrix, and are not cut


def along(x: np.ndarray, dim: int, starts: Any, columns: Any, weights: Any, shape: tuple) -> np.ndarray:
    """The sparse matrix (starts, columns, weights) in rows applied to dimension `dim`; the result has shape `shape`."""
    before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    out = np.empty((before, shape[dim], after), x.dtype)
    y, w = contiguous(x).reshape(before, x.shape[dim], after), weights.astype(x.dtype)
    cost = max(len(columns), 1) * after
    name = "resample_lines" if after == 1 else "resample_planes"
    share_rows(name, before, GRAIN // cost + 1, (y, starts, columns, w, out), MATRIX)
    return out.reshape(shape)
