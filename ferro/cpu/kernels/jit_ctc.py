"""Compiled kernels of CTC: see Note [CTC] in cpu/ctc.py. Samples begin to end are computed."""

from __future__ import annotations

import math

import numpy as np

from ferro.native.jit import device, kernel

LOWEST = -np.inf


@device
def _add(a, b, c):
    """log(exp(a) + exp(b) + exp(c))."""
    if a < b:
        a, b = b, a
    if a < c:
        a, c = c, a
    if a == LOWEST:
        return a
    return a + math.log(1.0 + math.exp(b - a) + math.exp(c - a))


@kernel
def ctc_alpha(y, labels, steps, lengths, begin, end, out):
    for n in range(begin, end):
        states = 2 * lengths[n] + 1
        out[n] = LOWEST
        for t in range(steps[n]):
            for s in range(states):
                if t == 0:
                    total = 0.0 if s < 2 else LOWEST
                else:
                    before = out[n, t - 1]
                    one = before[s - 1] if s > 0 else LOWEST
                    two = before[s - 2] if s > 1 and labels[n, s] != labels[n, s - 2] else LOWEST
                    total = _add(before[s], one, two)
                out[n, t, s] = total + y[t, n, labels[n, s]]


@kernel
def ctc_occupancy(y, labels, steps, lengths, alpha, total, begin, end, out):
    """Beta is kept for one step only."""
    beta = np.empty(labels.shape[1])
    step = np.empty(labels.shape[1])
    for n in range(begin, end):
        states = 2 * lengths[n] + 1
        for t in range(steps[n] - 1, -1, -1):
            if t == steps[n] - 1:
                for s in range(states):
                    beta[s] = 0.0 if s >= states - 2 else LOWEST
            else:
                for s in range(states):
                    step[s] = beta[s] + y[t + 1, n, labels[n, s]]
                for s in range(states):
                    one = step[s + 1] if s + 1 < states else LOWEST
                    two = step[s + 2] if s + 2 < states and labels[n, s] != labels[n, s + 2] else LOWEST
                    beta[s] = _add(step[s], one, two)
            for s in range(states):
                path = alpha[n, t, s] + beta[s]
                if path != LOWEST:  # nan counts
                    out[t, n, labels[n, s]] += math.exp(path - total[n])
