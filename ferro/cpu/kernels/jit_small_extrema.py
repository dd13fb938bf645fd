"""Compiled kernels that only entries call (native/jit_entries.py): the largest and smallest numbers of small arrays."""

from __future__ import annotations

import math
from typing import Any

from ferro.cpu.kernels.jit_reduce import extreme_of, further
from ferro.cpu.kernels.jit_rows import copy
from ferro.native.jit import apart, device, kernel, whole_registers

_SHORT = 8  # numbers of a row that are soon done; longer ones are compared side by side


@device
def _best_of(row, sign):
    if row.size > _SHORT:
        return extreme_of(row, sign)
    best = row[0]
    for j in range(1, row.size):
        best = further(best, row[j], sign)
    return best


def _values(sign: int, name: str) -> Any:
    """The kernel of the largest (sign 1) or smallest (-1) numbers; nan counts as such."""

    def values(x, before, n, behind, out):
        whole_registers()
        apart()
        for r in range(before):
            if behind == 1:
                out[r] = _best_of(x[r * n : r * n + n], x.dtype.type(sign))
                continue
            best = out[r * behind : r * behind + behind]
            copy(x[r * n * behind : (r * n + 1) * behind], best)
            for j in range(r * n + 1, r * n + n):
                row = x[j * behind : (j + 1) * behind]
                for i in range(behind):
                    best[i] = further(best[i], row[i], x.dtype.type(sign))

    values.__name__ = name
    return kernel(values)


def _places(sign: int, name: str) -> Any:
    """The same with the first place of each."""

    def places(x, before, n, behind, out, index):
        whole_registers()
        apart()
        for r in range(before):
            if behind == 1:
                row, place = x[r * n : r * n + n], 0
                best = _best_of(row, x.dtype.type(sign))
                while row[place] != best and not math.isnan(row[place]):
                    place += 1
                out[r], index[r] = row[place], place
                continue
            best, where = out[r * behind : r * behind + behind], index[r * behind : r * behind + behind]
            copy(x[r * n * behind : (r * n + 1) * behind], best)
            where[:] = 0
            for j in range(1, n):
                row = x[(r * n + j) * behind : (r * n + j + 1) * behind]
                for i in range(behind):
                    v, b = row[i], best[i]
                    new = (v * sign > b * sign) | (math.isnan(v) & (not math.isnan(b)))
                    best[i] = v if new else b
                    where[i] = j if new else where[i]

    places.__name__ = name
    return kernel(places)


amax, max_dim = _values(1, "amax"), _places(1, "max_dim")
amin, min_dim = _values(-1, "amin"), _places(-1, "min_dim")
