"""Reading, writing and choosing elements of NumPy arrays by a mask: of large arrays by kernels without jumps.

NumPy jumps at every change of a mask, twenty times as slow. Bits are moved as they are: the results are NumPy's to the last
one, for infinities and nan too. Functions whose names end in an underscore change their first argument; the others copy it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels.common import MOST_CHUNKS, SMALL, share_rows
from ferro.cpu.kernels.strided_copy import NUMBERS, contiguous
from ferro.native import readiness
from ferro.native.thresholds import CHUNK
from ferro.native.workers import run_rows

INT64 = np.dtype(np.int64)

__all__ = ["masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "masked_select", "masked_spread", "nonzero"]  # fmt: skip


def _masked(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 40 * CHUNK):
        yield make(n), make(n) > 0.3


@by_kernels("jit_masks.choose", lambda make: ((mask, x, -x) for x, mask in _masked(make)))
def select(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; both may be numbers."""
    like = x if isinstance(x, np.ndarray) and x.ndim else y
    dtype: Any = getattr(like, "dtype", None)
    if dtype is not None and condition.size >= SMALL:
        x, y = [np.asarray(v, dtype) if type(v) in (int, float) else v for v in (x, y)]
        out = np.empty(condition.shape, dtype)
        if _choose(condition, x, y, out):
            return out
    return np.where(condition, x, y)


@by_kernels("choose", lambda make: ((x, mask, 2.0) for x, mask in _masked(make)))
def masked_fill_(out: Any, mask: Any, value: Any) -> Any:
    """Writes one value where the mask, broadcast, is true."""
    if out.size < SMALL or not _choose(_shaped(mask, out), np.asarray(value).astype(out.dtype, copy=False), out, out):
        np.copyto(out, value, where=mask, casting="unsafe")
    return out


@by_kernels("choose", lambda make: ((x, mask, 2.0) for x, mask in _masked(make)))
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """x with one value where the mask is true."""
    value = np.asarray(value, x.dtype)
    return np.where(mask, value, x) if x.size < SMALL else select(_shaped(mask, x), value, x)


@by_kernels("jit_masks.pick", _masked)
def masked_select(x: Any, mask: Any) -> Any:
    """The elements of x where the mask (of the same shape) is true, in one dimension."""
    source = _flat(x, "pick") if mask.flags.c_contiguous else None
    if source is None:
        return x[mask]
    flags = mask.reshape(-1)
    parts, before = _counted(flags)
    out = np.empty(before[-1], x.dtype)
    run_rows("pick", parts, parts, (0, parts, parts, flags, before, source, out.view(source.dtype)), -1, 0)
    return out


@by_kernels("jit_masks.place", lambda make: ((make(int(mask.sum())), mask.shape, mask) for _, mask in _masked(make)))
def masked_spread(g: Any, shape: tuple, mask: Any) -> Any:
    """Zeros of `shape` with g where `masked_select` reads: its transpose."""
    out = np.empty(shape, g.dtype) if mask.size >= SMALL else None
    if out is not None and _place(out, mask, g, True):
        return out
    return masked_scatter_(np.zeros(shape, g.dtype), mask, g)


@by_kernels("place", lambda make: ((x, mask, make(x.size)) for x, mask in _masked(make)))
def masked_scatter_(out: Any, mask: Any, src: Any) -> Any:
    """Writes the first elements of src, in order, to where the mask (of the same shape) is true."""
    if not _place(out, mask, src, False):
        out[mask] = np.ascontiguousarray(src).reshape(-1)[: int(np.count_nonzero(mask))]
    return out


def masked_scatter(x: Any, mask: Any, src: Any) -> Any:
    """x with the first elements of src where the mask is true."""
    return masked_scatter_(contiguous(x), mask, src)


def _sparse(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 40 * CHUNK):
        yield (np.maximum(make(n), 0),)
        yield (np.maximum(make(2, n // 6, 3), 0),)


@by_kernels("jit_masks.places", _sparse)
def nonzero(x: Any) -> Any:
    """The indices of the elements that are not 0: one row for each."""
    if x.size >= SMALL and x.shape[-1] > 1 and x.dtype.kind in "fiub" and readiness.ready(("places",), INT64):
        mask = x if x.dtype.kind == "b" else x != 0
        parts, before = _counted(flags := contiguous(mask).reshape(-1))
        out = np.empty((x.ndim, before[-1]), np.int64)
        run_rows("places", parts, parts, (0, parts, parts, flags, before, np.array(x.shape), out), -1, 0)
        return out.T
    return np.array(x.nonzero(), np.int64).T if x.ndim else np.argwhere(x).astype(np.int64, copy=False)


# -- kernels -----------------------------------------------------------------------------------------------------------


def _flat(x: Any, name: str) -> np.ndarray | None:
    """The elements of a large array as a vector of the numbers that a kernel moves; None if it cannot."""
    number = NUMBERS.get(x.itemsize)
    if number is None or x.size < SMALL or not (x.flags.c_contiguous and x.flags.aligned) or x.dtype.hasobject:
        return None
    return x.reshape(-1).view(number) if readiness.ready((name,), number) else None


def _shaped(mask: Any, x: Any) -> Any:
    """The mask as one of the shape of x, if it can be broadcast to that."""
    if mask.shape == x.shape or np.broadcast_shapes(mask.shape, x.shape) != x.shape:
        return mask
    return contiguous(np.broadcast_to(mask, x.shape))


def _choose(mask: Any, x: Any, y: Any, out: Any) -> bool:
    """Writes to `out` x where the mask is true, else y: arrays of its shape and dtype or 0-d ones. Whether it could."""
    target = _flat(out, "choose")
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


def _place(out: Any, mask: Any, x: Any, clear: bool) -> bool:
    """Writes the first elements of x, in order, to where the mask is true, and 0 elsewhere if wanted. Whether it could."""
    target = _flat(out, "place") if mask.flags.c_contiguous else None
    if target is None or x.dtype is not out.dtype or not x.size:
        return False
    flags = mask.reshape(-1)
    parts, before = _counted(flags)
    x = x.copy() if np.may_share_memory(x, out) else np.ascontiguousarray(x)
    source = x.reshape(-1).view(target.dtype)
    run_rows("place", parts, parts, (0, parts, parts, flags, before, source, target, clear), -1, 0)
    return True


def _counted(mask: Any) -> tuple[int, Any]:
    """In how many parts a mask is read, and how many of its elements are true before each of them, and in all."""
    parts = max(1, min(mask.size // CHUNK, MOST_CHUNKS))
    before = np.zeros(parts + 1, np.int64)
    for part in range(parts):
        some = np.count_nonzero(mask[mask.size * part // parts : mask.size * (part + 1) // parts])
        before[part + 1] = before[part] + some
    return parts, before
