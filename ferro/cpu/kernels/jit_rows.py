"""What kernels of rows share: sums and maxima of a row, the beginnings of the next row, notes about neighbouring rows.

Note [Rows side by side]
    What a row's numbers wait for (their maximum, then the sum of their exponentials) costs more than the arithmetic. So
    each step is done for some short rows before the next step is, with a note for each of them in the frame of the kernel.

Note [The next row]
    A kernel that goes through a row several times leaves the memory idle meanwhile, unless it asks for the next row.
    Shorter rows the processor fetches by itself; longer ones do not stay in the first cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from ferro.cpu.kernels.jit_bits import rank, unrank
from ferro.cpu.kernels.jit_vectors import prefetch
from ferro.native.jit import device, reduction

PIECE = 2048  # numbers of a row that are added in the precision of the data, and stay in the cache between two readings
SIDE = 4  # rows side by side
SHORT = 512  # numbers in each of them, at most
_SMALL_SQUARES = np.float64(1e-30)  # a sum of float32 squares above has lost nothing to their range
_LINE, _AHEAD = 64, (2048, 8192)  # bytes of a cache line, and of a row that is worth asking for


@device
def copy(source, target):
    """What `target[:] = source` does, without an error of Numba's for other lengths, whose text took longer to compile than many a kernel."""
    for j in range(target.size):
        target[j] = source[j]


@device
def multiples(step, count):
    """0, step, 2 step and so on; what `np.arange(count) * step` is, without Numba's compiling two functions more."""
    found = np.empty(count, np.int64)
    for k in range(count):
        found[k] = k * step
    return found


@reduction
def total_of(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@reduction
def dot(x, y):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@reduction
def wide_total_of(x):
    """The sum in float64: of as many equal float32 numbers as there may be it is exact."""
    total = np.float64(0)
    for j in range(x.size):
        total += np.float64(x[j])
    return total


@reduction
def _plain_total_from(x, center):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] if center is None else x[j] - center
    return total


@reduction
def _wide_total_from(x, center):
    total = np.float64(0)
    for j in range(x.size):
        total += np.float64(x[j]) - (np.float64(0) if center is None else np.float64(center))
    return total


@device
def total_from(x, center):
    """The sum of x - center, or of x without a center (None), as float64, added in the precision of the data where its range
    is wide enough. (To take 0 away would make a loop for AVX2 wait for arithmetic, not for memory.)
    """
    total = np.float64(_plain_total_from(x, center))
    return total if (abs(total) < np.inf) | (x.itemsize == 8) else _wide_total_from(x, center)


@device
def mean_of(x):
    """The mean of a row as float64, from distances to its first number: of equal numbers it is exact."""
    distance = total_from(x, x[0])
    near = np.float64(x[0]) + distance / x.size
    return near if abs(distance) < np.inf else wide_total_of(x) / x.size


@reduction
def _plain_squares(x, mean):
    total = x.dtype.type(0)
    for j in range(x.size):
        d = x[j] if mean is None else x[j] - mean
        total += d * d
    return total


@reduction
def wide_squares_from(x, mean):
    """The sum of (x - mean)², or of x² without a mean, in float64."""
    total = np.float64(0)
    for j in range(x.size):
        d = np.float64(x[j]) - (np.float64(0) if mean is None else np.float64(mean))
        total += d * d
    return total


@device
def squares_from(x, mean):
    """The sum of (x - mean)² as float64, added in the precision of the data where its range is wide enough."""
    total = np.float64(_plain_squares(x, mean))
    fine = (total > _SMALL_SQUARES) & (total < np.inf)
    return total if fine | (x.itemsize == 8) else wide_squares_from(x, mean)


def in_pieces(function):
    """The sum of function(numbers, value) over the pieces of a row, in float64. (float64 too loses less in pieces.)"""

    def add(row, value):
        total = np.float64(function(row[:PIECE], value))
        for at in range(PIECE, row.size, PIECE):
            total += np.float64(function(row[at : min(at + PIECE, row.size)], value))
        return total

    return device(add)


@device
def largest(x):
    """The maximum of a row. LLVM vectorises the maximum of integers, but not of floats."""
    best = rank(x.dtype.type(-np.inf))
    for j in range(x.size):
        best = max(best, rank(x[j]))
    return unrank(best)


@device
def read_ahead(x, i):
    """Ask for row i of a matrix: see Note [The next row]."""
    n = x.shape[1]
    if _AHEAD[0] <= n * x.itemsize <= _AHEAD[1]:
        numbers = x.reshape(-1)
        for at in range(i * n, (i + 1) * n, _LINE // x.itemsize):
            prefetch(numbers, at)  # memory that is not there is not asked for


@device
def side_by_side(x):
    """How many rows of a matrix go side by side: see Note [Rows side by side]."""
    return SIDE if x.shape[1] <= SHORT else 1


@intrinsic
def _notes(_typing, x):
    kind = types.Array(x.dtype, 1, "C")

    def generate(context, builder, _signature, _args):
        number = context.get_data_type(x.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(number))
        place = cgutils.alloca_once(builder, ir.ArrayType(number, SIDE))
        made = make_array(kind)(context, builder)
        data = builder.bitcast(place, made.data.type)
        populate_array(made, data, [context.get_constant(types.intp, SIDE)], [size], size, None)
        return made._getvalue()

    return kind(x), generate


notes: Any = _notes  # an array of SIDE numbers like those of x, in the frame of the kernel
