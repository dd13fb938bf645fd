"""Compiled kernels that move numbers: matrices transposed, rows reversed."""

from __future__ import annotations

from ferro.cpu.kernels.jit import kernel

_ROWS = 8  # that are read side by side, so that what is written at a place fills a vector


@kernel
def transposed(start, stop, x, out):
    """out[b, j, i] = x[b, i, j], for the groups of eight rows from `start` to `stop`, counted through the matrices."""
    rows, columns = x.shape[1], x.shape[2]
    groups = (rows + _ROWS - 1) // _ROWS
    for group in range(start, stop):
        b, first = group // groups, group % groups * _ROWS
        if first + _ROWS <= rows:
            for j in range(columns):
                for i in range(_ROWS):
                    out[b, j, first + i] = x[b, first + i, j]
        else:
            for j in range(columns):
                for i in range(first, rows):
                    out[b, j, i] = x[b, i, j]


@kernel
def reversed_rows(start, stop, x, out):
    """out[i, j] = x[i, n - 1 - j] for the rows from `start` to `stop` of n columns."""
    n = x.shape[1]
    for i in range(start, stop):
        source, target = x[i], out[i]
        for j in range(n - 1, -1, -1):  # (so LLVM finds vectors; with j going up it does not)
            target[n - 1 - j] = source[j]
