"""Compiled kernels of recurrent networks: the gates of one step of an LSTM and of a GRU, and their derivatives.

Each loop writes one part of a row, and reads none but the same of the array that it writes: only such loops does LLVM
vectorise.
The argument h or c is the state before the step.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit import device, kernel, whole_registers
from ferro.cpu.kernels.jit_math import sigmoid_ as sigmoid
from ferro.cpu.kernels.jit_math import tanh

u64 = np.uint64  # see jit_conv.py


@device
def lstm_row(a, before, after, new):
    """`lstm_gates` for one sequence."""
    whole_registers()
    n = u64(before.size)
    for j in range(n):
        new[j] = tanh(a[j + n + n])
    for j in range(n + n):
        a[j] = sigmoid(a[j])
    for j in range(n + n + n, u64(4) * n):
        a[j] = sigmoid(a[j])
    for j in range(n):
        after[j] = a[j + n] * before[j] + a[j] * new[j]
    for j in range(n):
        a[j + n + n] = new[j]
    for j in range(n):
        new[j] = a[j + u64(3) * n] * tanh(after[j])


@kernel
def lstm_gates(gates, c, cell, h):
    """i, f, g, o in place of the sums in them; the new cell and state."""
    for row in range(len(c)):
        lstm_row(gates[row], c[row], cell[row], h[row])


@kernel
def lstm_gates_vjp(dh, dc, gates, c, cell, d):
    """d, the gradient by the sums in the gates, and in place of dc, by the new cell, that by the old one."""
    whole_registers()
    T = gates.dtype.type
    n = u64(c.shape[1])
    for row in range(len(c)):
        gh, gc, a, before, after, to = dh[row], dc[row], gates[row], c[row], cell[row], d[row]
        o = u64(3) * n
        for j in range(n):
            to[j + o] = tanh(after[j])
        for j in range(n):
            gc[j] += gh[j] * a[j + o] * (T(1) - to[j + o] * to[j + o])
        for j in range(n):
            to[j + o] = gh[j] * to[j + o] * a[j + o] * (T(1) - a[j + o])
        for j in range(n):
            to[j] = gc[j] * a[j + n + n] * a[j] * (T(1) - a[j])
        for j in range(n):
            to[j + n] = gc[j] * before[j] * a[j + n] * (T(1) - a[j + n])
        for j in range(n):
            k = j + n + n
            to[k] = gc[j] * a[j] * (T(1) - a[k] * a[k])
        for j in range(n):
            gc[j] *= a[j + n]


@kernel
def gru_gates(z, gates, h, inner, new):
    """r, z, n in place of the input's part of the sums in them; `inner`, the state's part of that in n; the new state."""
    whole_registers()
    n = u64(h.shape[1])
    for row in range(len(h)):
        s, a, before, own, after = z[row], gates[row], h[row], inner[row], new[row]
        for j in range(n + n):
            a[j] = sigmoid(a[j] + s[j])
        for j in range(n):
            own[j] = s[j + n + n]
        for j in range(n):
            after[j] = a[j] * own[j]
        for j in range(n):
            k = j + n + n
            a[k] = tanh(a[k] + after[j])
        for j in range(n):
            k = j + n + n
            after[j] = a[k] + a[j + n] * (before[j] - a[k])


@kernel
def gru_gates_vjp(dh, gates, h, inner, d, e):
    """d and e, the gradients by the input's and the state's part of the sums; dh becomes what goes past the gates."""
    T = gates.dtype.type
    n = u64(h.shape[1])
    for row in range(len(h)):
        gh, a, before, own, to, also = dh[row], gates[row], h[row], inner[row], d[row], e[row]
        for j in range(n):
            k = j + n + n
            also[k] = gh[j] * (T(1) - a[j + n]) * (T(1) - a[k] * a[k])
        for j in range(n):
            to[j] = also[j + n + n] * own[j] * a[j] * (T(1) - a[j])
        for j in range(n):
            k = j + n
            to[k] = gh[j] * (before[j] - a[k + n]) * a[k] * (T(1) - a[k])
        for j in range(n):
            to[j + n + n] = also[j + n + n]
        for j in range(n + n):
            also[j] = to[j]
        for j in range(n):
            k = j + n + n
            also[k] = to[k] * a[j]
        for j in range(n):
            gh[j] *= a[j + n]
