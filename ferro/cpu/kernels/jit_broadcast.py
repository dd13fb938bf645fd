"""Compiled kernels of arithmetic between a matrix and one of its rows or columns."""

from __future__ import annotations

from ferro.cpu.kernels.jit_small import add, mul, of_two, sub, truediv
from ferro.native.jit import kernel

_from, _under = of_two(lambda a, b: b - a), of_two(lambda a, b: b / a)


@kernel
def combine(start, stop, operation, by_columns, x, y, out):
    """out[i, j] = x[i, j] o y[j], or y[i] where y is a column, for the rows from `start` to `stop`.

    The operations: 0 +, 1 -, 2 *, 3 /; 4 and 5 are - and / with the operands exchanged.
    """
    for i in range(start, stop):
        other = y[i : i + 1] if by_columns else y
        if operation == 0:
            add(x[i], other, out[i])
        elif operation == 1:
            sub(x[i], other, out[i])
        elif operation == 2:
            mul(x[i], other, out[i])
        elif operation == 3:
            truediv(x[i], other, out[i])
        elif operation == 4:
            _from(x[i], other, out[i])
        else:
            _under(x[i], other, out[i])
