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
    """A function that gives the sums of all parts, by kernels of rows and of columns: a row for each part."""

    def parts_of(x, before, n, behind, queue, count):
        parts, tiles, chunks = _cut(before, n, behind)
        found = np.empty((before * parts, behind))
        if behind == 1:
            zero = np.zeros(before, x.dtype)
            values = (x.reshape(before, n), zero, found.reshape(-1), _FIRST, tiles)
            over_rows(rows, queue, count, chunks, tiles, -1, 3, values)
        else:
            none = np.empty((0, 0), x.dtype)
            over_rows(
                columns, queue, count, chunks, tiles, -1, 3, (x.reshape(before, n, behind), none, found, _FIRST, tiles)
            )
        return found

    return device(parts_of)


def _extremes_by(rows: Any, columns: Any) -> Any:
    """The same for extreme elements."""

    def parts_of(x, before, n, behind, queue, count):
        parts, tiles, chunks = _cut(before, n, behind)
        found = np.empty((before * parts, behind), x.dtype)
        if behind == 1:
            over_rows(
                rows, queue, count, chunks, tiles, -1, 2, (x.reshape(before, n), found.reshape(-1), _FIRST, tiles)
            )
        else:
            over_rows(columns, queue, count, chunks, tiles, -1, 2, (x.reshape(before, n, behind), found, _FIRST, tiles))
        return found

    return device(parts_of)


def _together(combine: Any, finish: Any) -> Any:
    """A function that combines the results of the parts, and finishes what that gives, knowing the number of elements."""
    both, last = device(combine), device(finish)

    def together(found, before, n, out):
        parts, behind = found.shape[0] // before, found.shape[1]
        if parts == 1:
            results = found.reshape(-1)
            for i in range(results.size):
                out[i] = last(results[i], n)
            return
        for i in range(before):
            result = found[i * parts]
            for k in range(i * parts + 1, (i + 1) * parts):
                for j in range(behind):
                    result[j] = both(result[j], found[k, j])
            for j in range(behind):
                out[i * behind + j] = last(result[j], n)

    return device(together)


def _reduction(parts_of: Any, together: Any) -> Any:
    def run(x, before, n, behind, out, queue, count):
        together(parts_of(x, before, n, behind, queue, count), before, n, out)
        return True

    return kernel(run)


_sums = _sums_by(sum_rows, sum_columns)
sum = _reduction(_sums, _together(lambda a, b: a + b, lambda total, n: total))
mean = _reduction(_sums, _together(lambda a, b: a + b, lambda total, n: total / n))
amax = _reduction(
    _extremes_by(max_rows, max_columns),
    _together(lambda a, b: a if (a >= b) | (a != a) else b, lambda best, n: best),  # noqa: PLR0124 (nan)
)
amin = _reduction(
    _extremes_by(min_rows, min_columns),
    _together(lambda a, b: a if (a <= b) | (a != a) else b, lambda best, n: best),  # noqa: PLR0124
)
_squares = _sums_by(square_rows, square_columns)
_norm_of = _together(lambda a, b: a + b, lambda total, n: math.sqrt(total))
_SMALL_NORM = math.sqrt(SMALL_SQUARES)


@kernel
def vector_norm(x, order, before, n, behind, out, queue, count):
    if order != 2:
        return False
    found = _squares(x, before, n, behind, queue, count)
    _norm_of(found, before, n, out)
    fine = True
    for i in range(out.size):
        fine &= (out[i] > _SMALL_NORM) & (out[i] < np.inf) | (x.itemsize == 4)
    return fine  # else Python scales the numbers
