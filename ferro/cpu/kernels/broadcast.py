"""Arithmetic between a large array and one of its rows or columns, by a kernel.

NumPy's inner loops are called once for each row, which takes a quarter of the time that the row takes.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.common import MOST_CHUNKS
from ferro.cpu.thresholds import COPY_CHUNK
from ferro.native import readiness, workers

_KERNELS = kernels("jit_broadcast.combine")
# The kernel's number of a ufunc, and of the same with its operands exchanged.
OPERATIONS = {np.add: (0, 0), np.subtract: (1, 4), np.multiply: (2, 2), np.divide: (3, 5)}


def combine(operation: int, x: np.ndarray, y: np.ndarray, columns: int, out: np.ndarray) -> bool:
    """Writes to `out` x, taken as rows of so many columns, combined with y: such a row, or (if columns < 0) one number for each.

    Whether there was machine code for it.
    """
    if not readiness.ready(_KERNELS, x.dtype):
        return False
    by_columns = columns < 0
    rows = x.size // abs(columns)
    args = (0, rows, operation, by_columns, x.reshape(rows, -1), y.reshape(-1), out.reshape(rows, -1))
    workers.run_rows("combine", min(x.size // COPY_CHUNK, rows, MOST_CHUNKS), rows, args, -1, 0)
    return True
