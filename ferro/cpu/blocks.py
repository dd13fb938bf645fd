"""Elementwise formulas of several steps over large arrays, block by block: what a step leaves stays in the cache.

A formula in NumPy makes an array in memory for each of its steps, and on large arrays spends its time there.  Cut into
blocks, it runs at the speed of arithmetic; blocks are spread over the threads.  Every element is computed as before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import ml_dtypes
import numpy as np

from ferro.cpu.half import rounded_once
from ferro.cpu.kernels.common import split
from ferro.cpu.thresholds import BLOCK, BLOCK_LEAST, GRAIN

HALF = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))
float32 = np.dtype(np.float32)


def by_blocks(function: Callable, *args: Any) -> Any:
    """The elementwise function of arrays and other values, one block after the other where arrays are large.

    Arrays of another shape than the largest must be 0-d to be cut with it; else the function is called as it is.
    """
    cut = _cut(args)
    if cut is None:
        return function(*args)
    like, parts, length, step = cut

    def block(i: int, j: int) -> Any:
        return function(*[a if p is None else p[i:j] for a, p in zip(args, parts, strict=True)])

    begin = min(step, length)
    first = np.asarray(block(0, begin))
    out = np.empty_like(like, first.dtype)
    target: Any = _line(out) if next(p for p in parts if p is not None).ndim == 1 else out
    target[:begin] = first

    def run(start: int, stop: int) -> None:
        for i in range(begin + start, begin + stop, step):
            j = min(i + step, begin + stop)
            target[i:j] = block(i, j)

    split(length - begin, -(-GRAIN * length // like.size), run)
    return out


def _cut(args: tuple) -> tuple | None:
    """The largest array, the arguments as they are to be cut (None: not at all), the length, and that of a block."""
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.ndim]
    like = max(arrays, key=_size, default=None)
    if like is None or like.size < BLOCK_LEAST or any(a.shape != like.shape for a in arrays):
        return None
    if any(isinstance(a, tuple) for a in args):  # sizes: the function knows of dimensions
        return None
    if all(a.flags.c_contiguous for a in arrays) or all(a.flags.f_contiguous for a in arrays):
        arrays = [_line(a) for a in arrays]
    elif like.shape[0] * BLOCK < like.size or like.flags.f_contiguous:
        return None
    rest = iter(arrays)
    parts = [next(rest) if isinstance(a, np.ndarray) and a.ndim else None for a in args]
    length = len(arrays[0])
    return like, parts, length, max(1, BLOCK * length // like.size)


def _size(a: Any) -> int:
    return a.size


def _line(a: Any) -> Any:
    """The elements of an array without gaps as they lie in memory."""
    return a.reshape(-1) if a.flags.c_contiguous else a.T.reshape(-1)


def fused(function: Callable) -> Callable:
    """A decorator: the elementwise function, block by block for large arrays, and `rounded_once`."""
    rounded = rounded_once(function)

    @wraps(function)
    def whole(x: Any, *rest: Any) -> Any:
        if x.size >= BLOCK_LEAST:
            return by_blocks(rounded, x, *rest)
        return rounded(x, *rest) if x.dtype in HALF else function(x, *rest)

    return whole
