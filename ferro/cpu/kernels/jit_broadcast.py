"""Compiled kernels of arithmetic between a matrix and one of its rows or columns."""

from __future__ import annotations

from ferro.native.jit import device, kernel


@kernel
def combine(start, stop, operation, by_columns, x, y, out):
    """out[i, j] = x[i, j] o y[j], or y[i] where y is a column, for the rows from `start` to `stop`.

    The operations: 0 +, 1 -, 2 *, 3 /; 4 and 5 are - and / with the operands exchanged.
    """
    for i in range(start, stop):
        if by_columns:
            _with_number(operation, x[i], y[i], out[i])
        else:
            _with_row(operation, x[i], y, out[i])


@device
def _with_row(operation, x, y, out):
    if operation == 0:
        for j in range(x.size):
            out[j] = x[j] + y[j]
    elif operation == 1:
        for j in range(x.size):
            out[j] = x[j] - y[j]
    elif operation == 2:
        for j in range(x.size):
            out[j] = x[j] * y[j]
    elif operation == 3:
        for j in range(x.size):
            out[j] = x[j] / y[j]
    elif operation == 4:
        for j in range(x.size):
            out[j] = y[j] - x[j]
    else:
        for j in range(x.size):
            out[j] = y[j] / x[j]


@device
def _with_number(operation, x, y, out):
    if operation == 0:
        for j in range(x.size):
            out[j] = x[j] + y
    elif operation == 1:
        for j in range(x.size):
            out[j] = x[j] - y
    elif operation == 2:
        for j in range(x.size):
            out[j] = x[j] * y
    elif operation == 3:
        for j in range(x.size):
            out[j] = x[j] / y
    elif operation == 4:
        for j in range(x.size):
            out[j] = y - x[j]
    else:
        for j in range(x.size):
            out[j] = y / x[j]
