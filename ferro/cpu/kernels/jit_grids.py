"""Compiled kernels of sampling on a grid: weighted sums of taps, whose weights and places are (tap, sample)."""

from __future__ import annotations

import numpy as np

from ferro.native.jit import device, kernel

u64 = np.uint64  # an index that cannot be negative
i64 = np.int64


@device
def _first(x):
    """The first pixel of a place; of one that is no number, or far away, a pixel outside."""
    floor = np.floor(x)
    return i64(floor if abs(floor) < type(x)(2147483648.0) else type(x)(-100))


@kernel
def linear_places(at, height, width, out):
    """The four pixels around each place (x, y) of an image, those outside moved to its edge, as numbers of flat pixels."""
    for n in range(at.shape[0]):
        xs, ys = at[n, 0], at[n, 1]
        for s in range(xs.size):
            x, y = _first(xs[s]), _first(ys[s])
            left, right = min(max(x, i64(0)), width - 1), min(max(x + 1, i64(0)), width - 1)
            above, below = min(max(y, i64(0)), height - 1) * width, min(max(y + 1, i64(0)), height - 1) * width
            out[n, 0, s], out[n, 1, s] = above + left, above + right
            out[n, 2, s], out[n, 3, s] = below + left, below + right


@kernel
def linear_weights(at, sizes, zeros, out):
    """The weights 1 - t and t in each dimension of the pixels around each place; `zeros`: 0 of those outside."""
    T = at.dtype.type
    for n in range(at.shape[0]):
        for d in range(at.shape[1]):
            places, one, two, size = at[n, d], out[n, d, 0], out[n, d, 1], sizes[d]
            for s in range(places.size):
                x = _first(places[s])
                t = places[s] - np.floor(places[s])
                one[s] = T(0) if zeros & ((x < 0) | (x >= size)) else T(1) - t
                two[s] = T(0) if zeros & ((x < -1) | (x >= size - 1)) else t


@kernel
def sample_taps(x, w, index, begin, end, channels, out):
    """The planes begin to end of all images: sums of their pixels with the weights of their image."""
    for p in range(begin, end):
        n = p // channels
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
def spread_taps(g, w, index, begin, end, channels, out):
    """The adjoint of `sample_taps`, added to `out`."""
    for p in range(begin, end):
        n = p // channels
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
