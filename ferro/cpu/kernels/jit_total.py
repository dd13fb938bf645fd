"""Compiled reductions of large arrays, as entries call them: cut for the kernels of jit_reduce.py, shared by the workers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_reduce import (
    max_columns,
    max_rows,
    min_columns,
    min_rows,
    square_columns,
    square_rows,
    sum_columns,
    sum_rows,
)
from ferro.cpu.kernels.limits import SMALL_SQUARES
from ferro.cpu.thresholds import SUM_FEW_TILES, SUM_GRAIN, SUM_PIECE, SUM_ROWS, SUM_TILE
from ferro.native.jit import device, kernel
from ferro.native.jit_work_queue import over_rows

_FIRST = np.int64(0)


@device
def _cut(before, n, behind):
    """As `_cut` in reduce.py: into how many parts to cut n, how many tiles there are then, and how many chunks of them."""
    tiles = before * -(-behind // SUM_TILE)
    parts = max(1, min(-(-n * behind // SUM_PIECE), n // SUM_ROWS)) if tiles <= SUM_FEW_TILES else 1
    tiles *= parts
    return parts, tiles, max(1, min(-(-8 * before * n * behind // SUM_GRAIN), tiles, 32))


def _sums_by(rows: Any, columns: Any) -> Any:
    """A function that writes the sums of all parts, a row for each, by kernels of rows and of columns."""

    def parts_of(x, before, n, behind, found, cut, queue, count):
        _, tiles, chunks = cut
        if behind == 1:
            none = np.empty(0, x.dtype)
            values = (x.reshape(before, n), none, found.reshape(-1), _FIRST, tiles)
            over_rows(rows, queue, count, chunks, tiles, -1, 3, values)
        else:
            none = np.empty((0, 0), x.dtype)
            over_rows(
                columns, queue, count, chunks, tiles, -1, 3, (x.reshape(before, n, behind), none, found, _FIRST, tiles)
            )

    return device(parts_of)


def _extremes_by(rows: Any, columns: Any) -> Any:
    """The same for extreme elements."""

    def parts_of(x, before, n, behind, found, cut, queue, count):
        _, tiles, chunks = cut
        if behind == 1:
            over_rows(
                rows, queue, count, chunks, tiles, -1, 2, (x.reshape(before, n), found.reshape(-1), _FIRST, tiles)
            )
        else:
            over_rows(columns, queue, count, chunks, tiles, -1, 2, (x.reshape(before, n, behind), found, _FIRST, tiles))

    return device(parts_of)


def _total(parts_of: Any, wide: bool, combine: Any, finish: Any = None) -> Any:
    """What reduces by parts, combines their results, and finishes what that gives, knowing the number of elements.

    wide: results of parts are float64. Where there is one part, and nothing to finish, its results are those of the whole.
    """
    both, last, finished = device(combine), device(finish or (lambda result, n: result)), finish is None

    def total(x, before, n, behind, out, queue, count):
        cut = _cut(before, n, behind)
        parts = cut[0]
        if finished and parts == 1:
            parts_of(x, before, n, behind, out.reshape(before, behind), cut, queue, count)
            return
        found = np.empty((before * parts, behind), np.float64 if wide else x.dtype)
        parts_of(x, before, n, behind, found, cut, queue, count)
        for i in range(before):
            result = found[i * parts]
            for k in range(i * parts + 1, (i + 1) * parts):
                for j in range(behind):
                    result[j] = both(result[j], found[k, j])
            for j in range(behind):
                out[i * behind + j] = last(result[j], n)

    return device(total)


def _reduction(*given: Any) -> Any:
    total = _total(*given)

    def run(x, before, n, behind, out, queue, count):
        total(x, before, n, behind, out, queue, count)
        return True

    return kernel(run)


_sums = _sums_by(sum_rows, sum_columns)
sum = _reduction(_sums, True, lambda a, b: a + b)
mean = _reduction(_sums, True, lambda a, b: a + b, lambda total, n: total / n)
amax = _reduction(
    _extremes_by(max_rows, max_columns),
    False,
    lambda a, b: a if (a >= b) | (a != a) else b,  # noqa: PLR0124 (nan)
)
amin = _reduction(
    _extremes_by(min_rows, min_columns),
    False,
    lambda a, b: a if (a <= b) | (a != a) else b,  # noqa: PLR0124
)
_norm = _total(_sums_by(square_rows, square_columns), True, lambda a, b: a + b, lambda total, n: math.sqrt(total))
_SMALL_NORM = math.sqrt(SMALL_SQUARES)


@kernel
def vector_norm(x, order, before, n, behind, out, queue, count):
    if order != 2:
        return False
    _norm(x, before, n, behind, out, queue, count)
    fine = True
    for i in range(out.size):
        fine &= (out[i] > _SMALL_NORM) & (out[i] < np.inf) | (x.itemsize == 4)
    return fine  # else Python scales the numbers
