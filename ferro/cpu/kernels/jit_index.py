"""Compiled kernels of additions at given places, made one after the other in the order of the places."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import kernel

u64 = np.uint64  # an index that cannot be negative: Numba wraps others, which costs time


@kernel
def add_at(places, values, out):
    """out[places[k]] += values[k], all of one dimension."""
    for k in range(places.size):
        out[u64(places[k])] += values[k]


@kernel
def index_add(index, source, alpha, first, last, out):
    """out[:, index[j], k] += alpha source[:, j, k] for the columns k from `first` to before `last`."""
    a = out.dtype.type(alpha)
    for i in range(source.shape[0]):
        for j in range(index.size):
            target, row = out[i, index[j], first:last], source[i, j, first:last]
            for k in range(row.size):
                target[k] += a * row[k]
