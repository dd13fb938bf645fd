"""Copies of large arrays by kernels: any view into any other, matrices transposed."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, SMALL
from ferro.cpu.thresholds import COPY_CHUNK, COPY_FEW, COPY_LEAST, COPY_PLANS
from ferro.native import readiness, workers

_COPY, _MOVE, _TRIANGLE = [kernels(f"jit_strided_copy.{name}") for name in ("transposed", "move", "triangle")]
NUMBERS = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}  # what elements of so many bytes are moved as


def _turned(make: Make) -> Iterator[tuple]:
    for n in (*sides(math.ceil(SMALL / 40)), 2 * GRAIN // 40):
        yield (make(n, 40).T,)
        yield (make(2, n, 40).swapaxes(1, 2),)
    for n in sides(COPY_LEAST // 96):  # windows of three rows
        yield (np.lib.stride_tricks.sliding_window_view(make(n + 2, 32), 3, 0),)


@by_kernels(_COPY, _turned)
def contiguous(x: np.ndarray) -> np.ndarray:
    """A C-ordered copy."""
    some = x.size >= SMALL and not x.flags.c_contiguous and x.itemsize in x.strides
    parts = _exchanged(x) if some else None
    if parts is not None and x.flags.aligned and not x.dtype.hasobject:
        number = NUMBERS.get(x.itemsize)
        if number is not None and readiness.ready(_COPY, number):
            return _transposed(x, number, *parts)
    if x.size < COPY_LEAST:
        return np.array(x, order="C")
    out = np.empty(x.shape, x.dtype)
    few = x.shape[-1]
    if (
        few <= COPY_FEW and x.strides[-1] != x.itemsize == x.strides[-2] and x.shape[-2] > few
    ):  # windows: as longer rows
        assign(*[(out[..., k], x[..., k]) for k in range(few)])
    else:
        assign((out, x))
    return out


def _transposed(x: np.ndarray, number: Any, stacked: int, axes: int) -> np.ndarray:
    """A C-ordered copy of what is C-contiguous once the dimensions from `stacked` to `axes` are moved to the end."""
    out = np.empty(x.shape, x.dtype)
    first = math.prod(x.shape[:stacked])
    columns = math.prod(x.shape[stacked:axes])
    rows = x.size // (first * columns)
    order = (*range(stacked), *range(axes, x.ndim), *range(stacked, axes))
    source = x.transpose(order).reshape(first, rows, columns).view(number)
    groups = first * -(-rows // 8)
    args = (0, groups, source, out.reshape(first, columns, rows).view(number))
    workers.run_rows("transposed", min(x.size // GRAIN, groups), groups, args, whole=-1, span=0)
    return out


def _exchanged(x: np.ndarray) -> tuple[int, int] | None:
    """(a, b) where moving the dimensions from a to b to the end makes x C-contiguous."""
    n = x.ndim
    for b in range(n - 1, 0, -1):
        for a in range(b - 1, -1, -1):
            if x.transpose(*range(a), *range(b, n), *range(a, b)).flags.c_contiguous:
                return a, b
    return None


# --- any view into any other -----------------------------------------------------------------------------------------


def _pairs(make: Make) -> Iterator[tuple]:
    for n in (*sides(COPY_LEAST // 64), 4 * COPY_LEAST // 64):
        x = make(n, 64)
        yield ((x, make(n, 128)[:, ::2]),)
        yield (x[::-1, :30], make(30)), (x[::-1, 30:], 2.0)


@by_kernels(_MOVE, _pairs)
def assign(*pairs: tuple[np.ndarray, Any]) -> None:
    """For each pair of a view and what it is to hold (an array or a number, broadcast): target[...] = source.

    No target may overlap with another one or with a source.
    """
    kind = pairs[0][0].dtype
    plain, layouts, arrays = True, [], []
    for target, source in pairs:
        if type(source) is not np.ndarray:
            source = np.asarray(source, kind)
        plain = plain and target.dtype is kind is source.dtype and target.flags.aligned and source.flags.aligned
        layouts.append((target.shape, target.strides, source.shape, source.strides))
        arrays += (source, target)  # (these live until they have been read)
    planned = (
        _plan if len(pairs) <= COPY_PLANS else _plan.__wrapped__
    )  # (plans of many copies are large, and would be kept)
    plan = planned(kind, tuple(layouts)) if plain else None
    parallel = None if plan is None else readiness.parallel(_MOVE)
    if plan is not None and parallel is not None:
        words, fill, parts = plan
        words = words.copy()
        fill(words, 0, *map(address, arrays))
        workers.share(parallel, workers.helpers(), parts, parts, (0, parts, parts, words), -1, 0)
    elif len(pairs) == 1:
        target[...] = source
    else:
        for pair in pairs:
            assign(pair)


def join(out: np.ndarray, xs: Sequence[np.ndarray], dim: int) -> bool:
    """Writes arrays of one shape one behind the other, along a dimension that is new or `dim` of their own; `out` is C-contiguous.

    False, and nothing is written, where they are not C-contiguous and of its dtype, or no kernel can do it. It is `assign`
    without views: for arrays that have gone through the caches, each of those takes a microsecond.
    """
    first = xs[0]
    for x in xs:
        flags = x.flags
        if not (flags.c_contiguous and flags.aligned and x.dtype is out.dtype and x.shape == first.shape):
            return False
    joints = _joints(out.dtype, first.shape, dim, len(xs)) if len(xs) <= COPY_PLANS else None
    parallel = None if joints is None else readiness.parallel(_MOVE)
    if joints is None or parallel is None:
        return False
    (words, fill, parts), step = joints
    words, start, places = words.copy(), address(out), []
    for k, x in enumerate(xs):
        places += (address(x), start + k * step)
    fill(words, 0, *places)
    workers.share(parallel, workers.helpers(), parts, parts, (0, parts, parts, words), -1, 0)
    return True


@lru_cache(maxsize=1024)
def _joints(kind: np.dtype, shape: tuple, dim: int, count: int) -> tuple[tuple, int] | None:
    """The plan of a `join`, and the bytes from one array's place to the next one's."""
    steps = [kind.itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape))]
    target = tuple([step * count if d < dim else step for d, step in enumerate(steps)])
    plan = _plan(kind, ((shape, target, shape, tuple(steps)),) * count)
    return None if plan is None else (plan, kind.itemsize * math.prod(shape[dim:]))


def copied(x: np.ndarray) -> np.ndarray:
    """A copy with the same order of dimensions in memory, which for an expanded array is the usual one."""
    order = "C" if 0 in x.strides else "K"
    if x.size < COPY_LEAST:
        return x.copy(order)
    out = np.empty_like(x, order=order)
    assign((out, x))
    return out


def zeros(shape: tuple, dtype: Any) -> np.ndarray:
    """Zeros, written by all threads where there are many."""
    if not workers.helpers() or math.prod(shape) < COPY_LEAST:
        return np.zeros(shape, dtype)
    out = np.empty(shape, dtype)
    assign((out, 0))
    return out


def triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray | None:
    """x with zeros above (lower) or below a diagonal of its last two dimensions; None if no kernel can do it."""
    number = NUMBERS.get(x.itemsize)
    if number is None or x.size < SMALL or x.dtype.hasobject or not readiness.ready(_TRIANGLE, number):
        return None
    x = x if x.flags.c_contiguous and x.flags.aligned else contiguous(x)
    m, n = x.shape[-2:]
    out = np.empty(x.shape, x.dtype)
    rows = x.size // n
    args = (0, rows, m, diagonal, lower, x.reshape(rows, n).view(number), out.reshape(rows, n).view(number))
    workers.run_rows("triangle", min(x.size // COPY_CHUNK, rows, MOST_CHUNKS), rows, args, whole=-1, span=0)
    return out


@lru_cache(maxsize=1024)
def _plan(kind: np.dtype, layouts: tuple) -> tuple[np.ndarray, Any, int] | None:
    """Copies between arrays of a dtype with these shapes and strides: what the kernel reads, what writes the addresses to
    its beginning, and the number of parts. None if the arrays are small, or the kernel cannot do it.
    """
    total = sum([math.prod(layout[0]) for layout in layouts])
    if total < COPY_LEAST or kind.hasobject:
        return None
    words = [0] * (2 * len(layouts))
    for layout in layouts:
        found = _words(kind.itemsize, *layout)
        if found is None:
            return None
        words += found
    return (
        np.array(words, np.int64),
        struct.Struct(f"{2 * len(layouts)}q").pack_into,
        min(total // COPY_CHUNK, MOST_CHUNKS),
    )


def _words(size: int, shape: tuple, target: tuple, given: tuple, source: tuple) -> list[int] | None:
    """A copy as the kernel reads it, from shapes and strides; None if it cannot make it."""
    lead = len(shape) - len(given)
    if lead < 0 or any(n not in (m, 1) for n, m in zip(given, shape[lead:], strict=True)):
        return None
    source = (0,) * lead + tuple([0 if n == 1 else step for n, step in zip(given, source, strict=True)])
    lengths: list[int] = []
    s: list[int] = []
    t: list[int] = []
    for b, a, n in sorted(zip(target, source, shape, strict=True), reverse=True):  # as the target lies
        if n == 1:
            continue
        if lengths and s[-1] == a * n and t[-1] == b * n:  # one dimension with the one before
            lengths[-1] *= n
            s[-1], t[-1] = a, b
        else:
            lengths.append(n)
            s.append(a)
            t.append(b)
    whole = size
    if not lengths or (s[-1] == t[-1] == size):
        if lengths:
            lengths[-1] *= size
            s[-1] = t[-1] = 1
        else:
            lengths, s, t = [size], [1], [1]
        size = 1
    elif size == 16:
        lengths.append(2)
        s.append(8)
        t.append(8)
        size = 8
    if len(lengths) > 4 or size not in (1, 4, 8) or (size == whole == 1 and (s[-1] != 1 or t[-1] != 1)):
        return None
    pad = [0] * (4 - len(lengths))
    ones = [1] * len(pad)
    return [size, *ones, *lengths, *pad, *s, *pad, *t]


def address(a: np.ndarray) -> int:
    """Where the elements of an array begin: the first field of its C struct (``a.ctypes.data`` takes a microsecond)."""
    return _pointer_at(id(a) + object.__basicsize__).value or 0


_pointer_at = ctypes.c_void_p.from_address
if address(_probe := np.zeros(1)) != _probe.ctypes.data:  # not the NumPy, or the Python, that we know

    def address(a: np.ndarray) -> int:
        return a.ctypes.data
