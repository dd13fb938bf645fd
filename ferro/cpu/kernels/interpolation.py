"""Large images resampled along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, split


def along(x: np.ndarray, dim: int, starts: Any, columns: Any, weights: Any, shape: tuple) -> np.ndarray:
    """The sparse matrix (starts, columns, weights) in rows applied to dimension `dim`; the result has shape `shape`."""
    before, after = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    out = np.empty((before, shape[dim], after), x.dtype)
    y, w = contiguous(x).reshape(before, x.shape[dim], after), weights.astype(x.dtype)
    run = get("resample_lines" if after == 1 else "resample_planes")
    cost = max(len(columns), 1) * after
    split(before, GRAIN // cost + 1, lambda i, j: run(y[i:j], starts, columns, w, out[i:j]))
    return out.reshape(shape)
