"""Compiled kernels of sampling on a grid: weighted sums of taps, whose weights and places are (tap, sample)."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import kernel

u64 = np.uint64  # an index that cannot be negative


@kernel
def sample_taps(x, w, index, begin, channels, out):
    """The planes begin, begin + 1, ... of all images: sums of their pixels with the weights of their image."""
    for p in range(x.shape[0]):
        n = (begin + p) // channels
        plane, target = x[p], out[p]
        if w.shape[1] == 4:  # bilinear: all taps at once
            w0, w1, w2, w3 = w[n, 0], w[n, 1], w[n, 2], w[n, 3]
            i0, i1, i2, i3 = index[n, 0], index[n, 1], index[n, 2], index[n, 3]
            for s in range(target.size):
                above = w0[s] * plane[u64(i0[s])] + w1[s] * plane[u64(i1[s])]
                target[s] = above + (w2[s] * plane[u64(i2[s])] + w3[s] * plane[u64(i3[s])])
            continue
        target[:] = 0
        for t in range(w.shape[1]):
            weights, places = w[n, t], index[n, t]
            for s in range(target.size):
                target[s] += weights[s] * plane[u64(places[s])]


@kernel
def spread_taps(g, w, index, begin, channels, out):
    """The adjoint of `sample_taps`, added to `out`."""
    for p in range(g.shape[0]):
        n = (begin + p) // channels
        plane, source = out[p], g[p]
        for t in range(w.shape[1]):
            weights, places = w[n, t], index[n, t]
            for s in range(source.size):
                plane[u64(places[s])] += weights[s] * source[s]


@kernel
def weigh_taps(g, x, index, begin, end, out):
    """For one image and the samples begin to end: sums over channels of cotangents times pixels, added to `out`."""
    for t in range(index.shape[0]):
        places, target = index[t], out[t]
        for c in range(x.shape[0]):
            plane, source = x[c], g[c]
            for s in range(begin, end):
                target[s] += source[s] * plane[u64(places[s])]
