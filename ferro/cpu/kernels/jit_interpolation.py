"""Compiled kernels of resampling: a sparse matrix in rows, applied to the middle dimension of (before, place, after)."""

from __future__ import annotations

import numpy as np

from ferro.native.jit import kernel

u64 = np.uint64  # an index that cannot be negative


@kernel
def resample_lines(x, starts, columns, weights, out):
    """With one element after each place."""
    for p in range(x.shape[0]):
        line = x[p, :, 0]
        for r in range(out.shape[1]):
            total = x.dtype.type(0)
            for k in range(starts[r], starts[r + 1]):
                total += weights[k] * line[u64(columns[k])]
            out[p, r, 0] = total


@kernel
def resample_planes(x, starts, columns, weights, out):
    """With a row of elements after each place."""
    for p in range(x.shape[0]):
        for r in range(out.shape[1]):
            target = out[p, r]
            target[:] = 0
            for k in range(starts[r], starts[r + 1]):
                w = weights[k]
                source = x[p, u64(columns[k])]
                for q in range(target.size):
                    target[q] += w * source[q]
