"""Weighted sums of taps of large images: sampling, its adjoint, and the gradient by the weights."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, share_rows


def linear_places(at: np.ndarray, height: int, width: int) -> np.ndarray:
    """The flat numbers (image, 4, sample) of the pixels around the places (image, 2, sample)."""
    at = contiguous(at)
    out = np.empty((len(at), 4, at.shape[2]), np.int64)
    share_rows("linear_places", len(at), GRAIN // (2 * at.shape[2]) + 1, (at, height, width, out))
    return out


def linear_weights(at: np.ndarray, sizes: tuple, zeros: bool) -> np.ndarray:
    """The weights (image, dimension, 2, sample) of the pixels around the places; sizes in the order of the grid."""
    at, lengths = contiguous(at), np.array(sizes, np.int64)
    out = np.empty((*at.shape[:2], 2, at.shape[2]), at.dtype)
    share_rows("linear_weights", len(at), GRAIN // (2 * at.shape[2]) + 1, (at, lengths, zeros, out), 1 << 1)
    return out


def sample(x: np.ndarray, w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """y[n, c, s] = sum_t w[n, t, s] x[n, c, index[n, t, s]]."""
    x, w, index = contiguous(x), contiguous(w, x.dtype), contiguous(index)
    out = np.empty((*x.shape[:2], w.shape[2]), x.dtype)
    _by_plane("sample_taps", x, w, index, out)
    return out


def spread(g: np.ndarray, w: np.ndarray, index: np.ndarray, length: int) -> np.ndarray:
    """dx[n, c, index[n, t, s]] += w[n, t, s] g[n, c, s]."""
    g, w, index = contiguous(g), contiguous(w, g.dtype), contiguous(index)
    out = np.zeros((*g.shape[:2], length), g.dtype)
    _by_plane("spread_taps", g, w, index, out)
    return out


def weigh(g: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """dw[n, t, s] = sum_c g[n, c, s] x[n, c, index[n, t, s]]."""
    g, x, index = contiguous(g), contiguous(x, g.dtype), contiguous(index)
    images, taps, samples = index.shape
    out = np.zeros(index.shape, g.dtype)
    cost = max(x.shape[1] * taps, 1)
    for n in range(images):  # each sample belongs to one thread
        args = (g[n], x[n], index[n], 0, samples, out[n])
        share_rows("weigh_taps", samples, GRAIN // cost + 1, args, whole=-1, span=3)
    return out


def _by_plane(name: str, x: np.ndarray, w: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    """Runs a kernel on the planes (image, channel), each of which belongs to one thread."""
    channels = x.shape[1]
    planes, outs = [a.reshape(math.prod(a.shape[:2]), a.shape[2]) for a in (x, out)]
    cost = max(math.prod(w.shape[1:]), 1)
    args = (planes, w, index, 0, len(planes), channels, outs)
    share_rows(name, len(planes), GRAIN // cost + 1, args, whole=-1, span=3)
