"""The recursions of CTC for long sequences and large batches."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, share_rows


def alpha(y: np.ndarray, labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The logarithms of alpha, (N, T, states)."""
    y = contiguous(y)
    out = np.empty((len(labels), len(y), labels.shape[1]))
    _by_sample("ctc_alpha", out, (y, labels, steps, lengths, 0, len(out), out))
    return out


def occupancy(
    y: np.ndarray, labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray, alpha: np.ndarray, total: np.ndarray
) -> np.ndarray:
    """The occupancy of each class at each step, (T, N, C)."""
    dtype = y.dtype
    y = contiguous(y)
    out = np.zeros(y.shape)
    _by_sample("ctc_occupancy", alpha, (y, labels, steps, lengths, alpha, total, 0, len(alpha), out))
    return out.astype(dtype, copy=False)


def _by_sample(name: str, alpha: np.ndarray, args: tuple) -> None:
    cost = 20 * max(alpha[0].size, 1) if len(alpha) else 1  # an element takes some exponentials
    share_rows(name, len(alpha), GRAIN // cost + 1, args, whole=-1, span=len(args) - 3)
