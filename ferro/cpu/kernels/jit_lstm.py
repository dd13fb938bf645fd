"""Compiled LSTM: all steps in one call, by the tile of jit_tile.py."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_gemm import panels_room, tiles, turn_rows
from ferro.cpu.kernels.jit_recurrent import lstm_rows, u64
from ferro.cpu.kernels.jit_vectors import address, aligned, size_of
from ferro.native.jit import kernel


@kernel
def lstm(first, last, starts, counts, gates, w, h, c, cells, out):
    """Step after step, on so many rows from each start: the gates from the input's part of them, the cells and outputs.

    h and c are the states before the steps, and in the end those after them. Sequences know nothing of each other: only
    those from `first` to before `last` are computed.
    """
    number = gates.dtype.type(0)
    size, rows, columns = size_of(number), w.shape[0], w.shape[1]
    room = np.empty(panels_room(size, rows, columns), np.uint8)
    turn_rows(number, address(w), columns * size, rows, columns, aligned(room))
    for s in range(len(starts)):
        start, count = starts[s] + first, min(last, counts[s]) - first
        if count <= 0:
            continue
        # (Addresses are taken here since Numba frees an array once nobody mentions it any more.)
        own_h, own_c = h[first:last], c[first:last]
        sums = (address(gates[start:]), rows * size)
        tiles(number, (address(own_h), columns * size), count, columns, aligned(room), rows, sums, sums)
        lstm_rows(start, count, gates, own_c, cells, out)
        for row in range(u64(count)):
            for j in range(u64(c.shape[1])):
                own_c[row, j] = cells[row + u64(start), j]
            for j in range(u64(h.shape[1])):
                own_h[row, j] = out[row + u64(start), j]
