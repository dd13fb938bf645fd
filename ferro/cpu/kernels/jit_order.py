"""Compiled kernel of the first few elements of rows in order."""

from __future__ import annotations

import math

import numpy as np

from ferro.native.jit import device, kernel

_CHECKED = 32  # elements that are first compared with the last one chosen


@device
def _before(a, b, largest):
    """Whether a comes before b: nan is larger than every number."""
    if largest:
        return (a > b) | (math.isnan(a) & (not math.isnan(b)))
    return (a < b) | (math.isnan(b) & (not math.isnan(a)))


@device
def _some_before(row, last, largest):
    hit = np.int32(0)
    for j in range(row.size):
        hit |= np.int32(1) if _before(row[j], last, largest) else np.int32(0)
    return hit != 0


@kernel
def first_of_rows(x, largest, values, index):
    """The largest or smallest elements of each row in order, as many as `values` has columns, and where they are.

    Of equal ones those come first that stand first.
    """
    k = values.shape[1]
    for i in range(x.shape[0]):
        row, chosen, places = x[i], values[i], index[i]
        count = 0
        for start in range(0, row.size, _CHECKED):
            stop = min(start + _CHECKED, row.size)
            if count == k and not _some_before(row[start:stop], chosen[k - 1], largest):
                continue
            for j in range(start, stop):
                v = row[j]
                if count == k and not _before(v, chosen[k - 1], largest):
                    continue
                count = min(count + 1, k)
                p = count - 1
                while p > 0 and _before(v, chosen[p - 1], largest):
                    chosen[p], places[p] = chosen[p - 1], places[p - 1]
                    p -= 1
                chosen[p], places[p] = v, j
