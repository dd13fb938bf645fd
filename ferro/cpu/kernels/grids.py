"""Weighted sums of taps of large images: sampling, its adjoint, and the gradient by the weights."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, contiguous, split


def linear_places(at: np.ndarray, height: int, width: int) -> np.ndarray:
    """The flat numbers (image, 4, sample) of the pixels around the places (image, 2, sample)."""
    at, run = contiguous(at), get("linear_places")
    out = np.empty((len(at), 4, at.shape[2]), np.int64)
    split(len(at), GRAIN // (2 * at.shape[2]) + 1, lambda i, j: run(at[i:j], height, width, out[i:j]))
    return out


def linear_weights(at: np.ndarray, sizes: tuple, zeros: bool) -> np.ndarray:
    """The weights (image, dimension, 2, sample) of the pixels around the places; sizes in the order of the grid."""
    at, run, lengths = contiguous(at), get("linear_weights"), np.array(sizes, np.int64)
    out = np.empty((*at.shape[:2], 2, at.shape[2]), at.dtype)
    split(len(at), GRAIN // (2 * at.shape[2]) + 1, lambda i, j: run(at[i:j], lengths, zeros, out[i:j]))
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
    run = get("weigh_taps")
    cost = max(x.shape[1] * taps, 1)
    for n in range(images):  # each sample belongs to one thread
        split(samples, GRAIN // cost + 1, lambda i, j, n=n: run(g[n], x[n], index[n], i, j, out[n]))
    return out


def _by_plane(name: str, x: np.ndarray, w: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    """Runs a kernel on the planes (image, channel), each of which belongs to one thread."""
    channels = x.shape[1]
    planes, outs = [a.reshape(math.prod(a.shape[:2]), a.shape[2]) for a in (x, out)]
    run = get(name)
    cost = max(math.prod(w.shape[1:]), 1)
    split(len(planes), GRAIN // cost + 1, lambda i, j: run(planes[i:j], w, index, i, channels, outs[i:j]))
