"""Compiled kernels of recurrent networks: the gates of one step of an LSTM and of a GRU, and their derivatives.

Each loop writes one part of a row, and reads none but the same of the array that it writes: only such loops does LLVM
vectorise. They go by row and column, since a view of each row would take longer than the row.
The argument h or c is the state before the step.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_math import sigmoid_ as sigmoid
from ferro.cpu.kernels.jit_math import tanh
from ferro.native.jit import device, kernel, whole_registers

u64 = np.uint64  # see jit_conv.py


@device
def lstm_rows(start, count, gates, c, cell, h):
    """`lstm_gates` for so many rows from `start`, which is the first row of all but c."""
    whole_registers()
    n = u64(c.shape[1])
    for row in range(u64(count)):
        r = row + u64(start)
        for j in range(n):
            h[r, j] = tanh(gates[r, j + n + n])
        for j in range(n + n):
            gates[r, j] = sigmoid(gates[r, j])
        for j in range(n + n + n, u64(4) * n):
            gates[r, j] = sigmoid(gates[r, j])
        for j in range(n):
            cell[r, j] = gates[r, j + n] * c[row, j] + gates[r, j] * h[r, j]
        for j in range(n):
            gates[r, j + n + n] = h[r, j]
        for j in range(n):
            h[r, j] = gates[r, j + u64(3) * n] * tanh(cell[r, j])


@kernel
def lstm_gates(gates, c, cell, h):
    """i, f, g, o in place of the sums in them; the new cell and state."""
    lstm_rows(0, len(c), gates, c, cell, h)


@kernel
def lstm_gates_vjp(dh, dc, gates, c, cell, d):
    """d, the gradient by the sums in the gates, and in place of dc, by the new cell, that by the old one."""
    whole_registers()
    T = gates.dtype.type
    n = u64(c.shape[1])
    o = u64(3) * n
    for r in range(u64(len(c))):
        for j in range(n):
            d[r, j + o] = tanh(cell[r, j])
        for j in range(n):
            dc[r, j] += dh[r, j] * gates[r, j + o] * (T(1) - d[r, j + o] * d[r, j + o])
        for j in range(n):
            k = j + o
            d[r, k] = dh[r, j] * d[r, k] * gates[r, k] * (T(1) - gates[r, k])
        for j in range(n):
            d[r, j] = dc[r, j] * gates[r, j + n + n] * gates[r, j] * (T(1) - gates[r, j])
        for j in range(n):
            k = j + n
            d[r, k] = dc[r, j] * c[r, j] * gates[r, k] * (T(1) - gates[r, k])
        for j in range(n):
            k = j + n + n
            d[r, k] = dc[r, j] * gates[r, j] * (T(1) - gates[r, k] * gates[r, k])
        for j in range(n):
            dc[r, j] *= gates[r, j + n]


@kernel
def gru_gates(z, gates, h, inner, new):
    """r, z, n in place of the input's part of the sums in them; `inner`, the state's part of that in n; the new state."""
    whole_registers()
    n = u64(h.shape[1])
    for r in range(u64(len(h))):
        for j in range(n + n):
            gates[r, j] = sigmoid(gates[r, j] + z[r, j])
        for j in range(n):
            inner[r, j] = z[r, j + n + n]
        for j in range(n):
            new[r, j] = gates[r, j] * inner[r, j]
        for j in range(n):
            k = j + n + n
            gates[r, k] = tanh(gates[r, k] + new[r, j])
        for j in range(n):
            k = j + n + n
            new[r, j] = gates[r, k] + gates[r, j + n] * (h[r, j] - gates[r, k])


@kernel
def gru_gates_vjp(dh, gates, h, inner, d, e):
    """d and e, the gradients by the input's and the state's part of the sums; dh becomes what goes past the gates."""
    T = gates.dtype.type
    n = u64(h.shape[1])
    for r in range(u64(len(h))):
        for j in range(n):
            k = j + n + n
            e[r, k] = dh[r, j] * (T(1) - gates[r, j + n]) * (T(1) - gates[r, k] * gates[r, k])
        for j in range(n):
            d[r, j] = e[r, j + n + n] * inner[r, j] * gates[r, j] * (T(1) - gates[r, j])
        for j in range(n):
            k = j + n
            d[r, k] = dh[r, j] * (h[r, j] - gates[r, k + n]) * gates[r, k] * (T(1) - gates[r, k])
        for j in range(n):
            k = j + n + n
            d[r, k] = e[r, k]
        for j in range(n + n):
            e[r, j] = d[r, j]
        for j in range(n):
            k = j + n + n
            e[r, k] = d[r, k] * gates[r, j]
        for j in range(n):
            dh[r, j] *= gates[r, j + n]
