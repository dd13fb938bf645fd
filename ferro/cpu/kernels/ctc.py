"""The recursions of CTC for long sequences and large batches."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, split


def alpha(y: np.ndarray, labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The logarithms of alpha, (N, T, states)."""
    y = contiguous(y)
    out = np.empty((len(labels), len(y), labels.shape[1]))
    run = get("ctc_alpha")
    _by_sample(out, lambda i, j: run(y, labels, steps, lengths, i, j, out))
    return out


def occupancy(y: np.ndarray, labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray, alpha: np.ndarray,
              total: np.ndarray) -> np.ndarray:  # fmt: skip
    """The occupancy of each class at each step, (T, N, C)."""
    dtype = y.dtype
    y = contiguous(y)
    out = np.zeros(y.shape)
    run = get("ctc_occupancy")
    _by_sample(alpha, lambda i, j: run(y, labels, steps, lengths, alpha, total, i, j, out))
    return out.astype(dtype, copy=False)


def _by_sample(alpha: np.ndarray, work) -> None:
    cost = 20 * max(alpha[0].size, 1) if len(alpha) else 1  # an element takes some exponentials
    split(len(alpha), GRAIN // cost + 1, work)
