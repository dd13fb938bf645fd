"""Copies of large arrays in another order: transposed, or with rows reversed."""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels import background
from ferro.cpu.kernels.common import GRAIN, SMALL
from ferro.cpu.team import run_rows

_TRANSPOSED, _REVERSED = ("transposed",), ("reversed_rows",)
_NUMBERS = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}  # what elements of so many bytes are moved as


def _moved_as(x: np.ndarray, names: tuple[str, ...]) -> np.dtype | None:
    """The dtype whose kernels move the elements of x; None if NumPy should do it."""
    if x.size < SMALL or x.dtype.hasobject or not x.flags.aligned:
        return None
    number = _NUMBERS.get(x.itemsize)
    return number if number is not None and background.ready(names, number) else None


def contiguous(x: np.ndarray) -> np.ndarray:
    """A C-ordered copy; by the kernel if the last dimensions of x are those of stacked matrices exchanged."""
    number = _moved_as(x, _TRANSPOSED)
    parts = None if number is None else _exchanged(x)
    if number is None or parts is None:
        return np.array(x, order="C")
    stacked, axes = parts
    out = np.empty(x.shape, x.dtype)
    first = math.prod(x.shape[:stacked])
    columns = math.prod(x.shape[stacked:axes])
    rows = x.size // (first * columns)
    order = (*range(stacked), *range(axes, x.ndim), *range(stacked, axes))
    source = x.transpose(order).reshape(first, rows, columns).view(number)
    groups = first * -(-rows // 8)
    args = (0, groups, source, out.reshape(first, columns, rows).view(number))
    run_rows("transposed", min(x.size // GRAIN, groups), groups, args, whole=-1, span=0)
    return out


def _exchanged(x: np.ndarray) -> tuple[int, int] | None:
    """(a, b) where moving the dimensions from a to b to the end makes x C-contiguous."""
    n = x.ndim
    for b in range(n - 1, 0, -1):
        for a in range(b - 1, -1, -1):
            if x.transpose(*range(a), *range(b, n), *range(a, b)).flags.c_contiguous:
                return a, b
    return None


def reversed_rows(x: np.ndarray) -> np.ndarray:
    """A copy with the elements of the last dimension in reverse order."""
    number = _moved_as(x, _REVERSED) if x.ndim and x.flags.c_contiguous and x.shape[-1] > 1 else None
    if number is None:
        return x[..., ::-1].copy()
    out = np.empty(x.shape, x.dtype)
    source, target = [a.reshape(-1, x.shape[-1]).view(number) for a in (x, out)]
    rows = len(target)
    run_rows("reversed_rows", min(x.size // GRAIN, rows), rows, (0, rows, source, target), whole=-1, span=0)
    return out
