"""Compiled kernels of arithmetic between a matrix and one of its rows or columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.cpu.kernels.jit_widths import half_registers
from ferro.native.jit import apart, device, kernel


def _rows_of(function: Callable[[Any, Any], Any]) -> Any:
    """A function that does so with each row of x and all of y, or its number of y: in one loop, as a row is soon done."""
    f = device(function)

    def run(start, stop, by_columns, x, y, out):
        for i in range(start, stop):
            row, to = x[i], out[i]
            if by_columns:
                number = y[i]
                for j in range(row.size):
                    to[j] = f(row[j], number)
            else:
                for j in range(row.size):
                    to[j] = f(row[j], y[j])

    return device(run)


_add, _mul = _rows_of(lambda a, b: a + b), _rows_of(lambda a, b: a * b)
_sub, _from = _rows_of(lambda a, b: a - b), _rows_of(lambda a, b: b - a)
_over, _under = _rows_of(lambda a, b: a / b), _rows_of(lambda a, b: b / a)


def _by_entries(rows: Any) -> Any:
    """What an entry calls for a large array and what is repeated along it; see `repeats` in native/jit_arrays.py."""

    def run(start, stop, by_columns, x, y, out):
        apart()
        half_registers()
        rows(start, stop, by_columns, x, y, out)

    return kernel(run)


# With the matrix as first operand, and swapped; each is a kernel of its own, since entries differ by their kernels alone.
add, add_swapped = _by_entries(_add), _by_entries(_add)
sub, sub_swapped = _by_entries(_sub), _by_entries(_from)
mul, mul_swapped = _by_entries(_mul), _by_entries(_mul)
truediv, truediv_swapped = _by_entries(_over), _by_entries(_under)


@kernel
def combine(start, stop, operation, by_columns, x, y, out):
    """out[i, j] = x[i, j] o y[j], or y[i] where y is a column, for the rows from `start` to `stop`.

    The operations: 0 +, 1 -, 2 *, 3 /; 4 and 5 are - and / with the operands exchanged. `out` may be x.
    """
    apart()
    half_registers()
    if operation == 0:
        _add(start, stop, by_columns, x, y, out)
    elif operation == 1:
        _sub(start, stop, by_columns, x, y, out)
    elif operation == 2:
        _mul(start, stop, by_columns, x, y, out)
    elif operation == 3:
        _over(start, stop, by_columns, x, y, out)
    elif operation == 4:
        _from(start, stop, by_columns, x, y, out)
    else:
        _under(start, stop, by_columns, x, y, out)
