"""Choosing elements of large arrays by a mask, by kernels: bits are moved as they are, for infinities and nan too."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.common import MOST_CHUNKS, SMALL, share_rows
from ferro.cpu.kernels.strided_copy import NUMBERS
from ferro.native import readiness, workers
from ferro.native.thresholds import CHUNK


def flat(x: Any, *names: str) -> np.ndarray | None:
    """The elements of a large array as a vector of the numbers that these kernels move; None if they cannot."""
    number = NUMBERS.get(x.itemsize)
    if number is None or x.size < SMALL or not (x.flags.c_contiguous and x.flags.aligned) or x.dtype.hasobject:
        return None
    return x.reshape(-1).view(number) if readiness.ready(names, number) else None


def choose(mask: np.ndarray, x: Any, y: Any, out: np.ndarray) -> bool:
    """Writes to `out` x where the mask is true, else y: arrays of its shape and dtype or 0-d ones. Whether it could."""
    target = flat(out, "choose")
    if target is None or mask.dtype.kind != "b" or mask.shape != out.shape or not mask.flags.c_contiguous:
        return False
    given = []
    for a in (x, y):
        if a.dtype is not out.dtype or (a.ndim and (a.shape != out.shape or not a.flags.c_contiguous)):
            return False
        given.append(a.reshape(-1).view(target.dtype))
    whole = 2 * (not x.ndim) + 4 * (not y.ndim)
    share_rows("choose", target.size, 8 * CHUNK, (mask.reshape(-1), *given, target), whole)
    return True


def picked(x: np.ndarray, mask: np.ndarray) -> np.ndarray | None:
    """The elements of x where the mask (of the same shape) is true; None if no kernel can do it."""
    source = flat(x, "pick") if mask.flags.c_contiguous else None
    if source is None:
        return None
    flags = mask.reshape(-1)
    parts, before = _counted(flags)
    out = np.empty(before[-1], x.dtype)
    workers.run_rows("pick", parts, parts, (0, parts, parts, flags, before, source, out.view(source.dtype)), -1, 0)
    return out


def place(out: np.ndarray, mask: np.ndarray, x: np.ndarray, clear: bool) -> bool:
    """Writes the first elements of x, in order, to where the mask is true, and 0 elsewhere if wanted. Whether it could."""
    target = flat(out, "place") if mask.flags.c_contiguous else None
    if target is None or x.dtype is not out.dtype or not x.size:
        return False
    flags = mask.reshape(-1)
    parts, before = _counted(flags)
    x = x.copy() if np.may_share_memory(x, out) else np.ascontiguousarray(x)
    source = x.reshape(-1).view(target.dtype)
    workers.run_rows("place", parts, parts, (0, parts, parts, flags, before, source, target, clear), -1, 0)
    return True


def _counted(mask: np.ndarray) -> tuple[int, np.ndarray]:
    """In how many parts a mask is read, and how many of its elements are true before each of them, and in all."""
    parts = max(1, min(mask.size // CHUNK, MOST_CHUNKS))
    before = np.zeros(parts + 1, np.int64)
    for part in range(parts):
        some = np.count_nonzero(mask[mask.size * part // parts : mask.size * (part + 1) // parts])
        before[part + 1] = before[part] + some
    return parts, before
