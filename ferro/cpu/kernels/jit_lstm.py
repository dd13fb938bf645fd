"""Compiled LSTM: all steps in one call, for x86 processors with AVX-512, see jit_gemm.py."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_gemm import REGISTER, ROWS, VECTORS, address, aligned, size_of, tile, turn_rows
from ferro.cpu.kernels.jit_recurrent import lstm_rows, u64
from ferro.native.jit import device, kernel


@device
def _add_product(number, a, rows, steps, panels, columns, c):
    """c += a b for rows that lie side by side, b being in panels."""
    size = size_of(number)
    wide = VECTORS * (REGISTER // size)
    tiles = -(-rows // ROWS)
    for i in range(tiles):
        row = i * rows // tiles
        for j in range(0, columns, wide):
            place = c + (row * columns + j) * size
            tile(
                number,
                (i + 1) * rows // tiles - row,
                min(wide, columns - j),
                steps,
                a + row * steps * size,
                steps * size,
                size,
                panels + j * steps * size,
                VECTORS * REGISTER,
                place,
                columns * size,
                place,
                columns * size,
            )


@kernel
def lstm(first, last, starts, counts, gates, w, h, c, cells, out):
    """Step after step, on so many rows from each start: the gates from the input's part of them, the cells and outputs.

    h and c are the states before the steps, and in the end those after them. Sequences know nothing of each other: only
    those from `first` to before `last` are computed.
    """
    number = gates.dtype.type(0)
    wide = VECTORS * (REGISTER // size_of(number))
    room = np.empty(-(-w.shape[0] // wide) * wide * w.shape[1] * size_of(number) + REGISTER, np.uint8)
    turn_rows(number, address(w), w.shape[1] * size_of(number), w.shape[0], w.shape[1], aligned(room))
    for s in range(len(starts)):
        start, count = starts[s] + first, min(last, counts[s]) - first
        if count <= 0:
            continue
        # (The address is taken here since Numba frees an array once nobody mentions it any more.)
        own_h, own_c = h[first:last], c[first:last]
        _add_product(number, address(own_h), count, h.shape[1], aligned(room), w.shape[0], address(gates[start:]))
        lstm_rows(start, count, gates, own_c, cells, out)
        for row in range(u64(count)):
            for j in range(u64(c.shape[1])):
                own_c[row, j] = cells[row + u64(start), j]
            for j in range(u64(h.shape[1])):
                own_h[row, j] = out[row + u64(start), j]
