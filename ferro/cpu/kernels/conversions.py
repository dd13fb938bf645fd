"""Floats of 16 bits as float32, float32 and float64 rounded to 16 bits, and sums, differences, products and quotients of 16 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.thresholds import GRAIN
from ferro.native import isa, readiness
from ferro.native.thresholds import MOST_CHUNKS, SMALL
from ferro.native.workers import run_rows

float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
HALF, BFLOAT = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_BITS = np.dtype(np.uint16)
_MIXED = kernels("jit_conversions.half_to_float float_to_half bfloat_to_float float_to_bfloat", here=isa.has_fma())
_FROM_DOUBLE = kernels("jit_conversions.double_to_half double_to_bfloat", here=isa.has_fma())
_ALIKE = kernels("jit_conversions.half_arithmetic bfloat_arithmetic", here=isa.has_fma())
_OPERATIONS: dict[Callable, int] = {operator.add: 0, operator.sub: 1, operator.mul: 2, operator.truediv: 3}


def _answer(x: np.ndarray, names: tuple[str, ...], number: np.dtype) -> bool:
    """Whether kernels convert the numbers of an array: instructions for half precision come with those of AVX2."""
    flags = x.flags
    return x.size >= SMALL and flags.c_contiguous and flags.aligned and isa.has_fma() and readiness.ready(names, number)


def _lengths() -> tuple[int, ...]:
    return (*sides(SMALL), 50_000)


def _to_convert(make: Make) -> Iterator[tuple]:
    for n in _lengths():
        for kind in (HALF, BFLOAT):
            yield 1e3 * make(n), kind
            yield (1e3 * make(n, 2)).astype(kind)[:, 0], np.dtype(np.float32)
            yield (6e4 * make(n)).astype(kind), np.dtype(np.float32)


@by_kernels(_MIXED + _FROM_DOUBLE, _to_convert)
def converted(x: Any, dtype: Any) -> Any:
    """An array as one of another dtype, every number rounded to the nearest."""
    if type(x) is not np.ndarray:
        return x.astype(dtype)
    if dtype is float32:
        if (x.dtype is HALF or x.dtype is BFLOAT) and _answer(x, _MIXED, float32):
            name = "half_to_float" if x.dtype is HALF else "bfloat_to_float"
            return _written(name, x.view(_BITS), np.empty(x.shape, dtype), dtype)
    elif dtype is HALF or dtype is BFLOAT:
        kind = "half" if dtype is HALF else "bfloat"
        if x.dtype is float32 and _answer(x, _MIXED, float32):
            return _written(f"float_to_{kind}", x, np.empty(x.shape, _BITS), dtype)
        if x.dtype is float64 and _answer(x, _FROM_DOUBLE, float64):
            return _written(f"double_to_{kind}", x, np.empty(x.shape, _BITS), dtype)
        if x.dtype is float64 and dtype is BFLOAT:
            return _cut(x).astype(dtype)
    return x.astype(dtype)


def _cut(x: np.ndarray) -> np.ndarray:
    """float64 as float32 that round to the same bfloat16: ml_dtypes rounds to float32 first, and so twice."""
    bits, rest = x.view(np.int64) if x.ndim else x.reshape(1).view(np.int64).reshape(()), (1 << 29) - 1
    odd = ((bits | ((bits & rest) + rest)) & ~rest).view(np.float64)  # as in jit_conversions.py
    whole = 1.5 * 2**52 * 2.0**-133
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.copysign((x + whole) - whole, x)
        return np.where(np.abs(x) < 2.0**-126, small, odd).astype(float32)


def _written(name: str, source: np.ndarray, target: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What a kernel writes into an array, read as one of a dtype."""
    _share(name, source.size, (source.reshape(-1), target.reshape(-1)))
    return target.view(dtype)


def _to_combine(make: Make) -> Iterator[tuple]:
    for n in _lengths():
        for kind in (HALF, BFLOAT):
            x, y = make(n).astype(kind), (make(n) + 2).astype(kind)
            for function in _OPERATIONS:
                yield function, x, y
                yield function, x, y[:1].reshape(())


@by_kernels(_ALIKE, _to_combine)
def arithmetic(function: Callable, x: Any, y: Any) -> Any:
    """An operator of two arrays of 16 bits, computed in float32 and rounded once; y may hold a single number."""
    if (
        type(x) is type(y) is np.ndarray
        and x.dtype is y.dtype
        and (y.shape == x.shape or y.ndim == 0)
        and y.flags.c_contiguous
        and y.flags.aligned
        and _answer(x, _ALIKE, _BITS)
    ):
        out = np.empty(x.shape, x.dtype)
        given = [a.reshape(-1).view(_BITS) for a in (x, y, out)]
        name = "half_arithmetic" if x.dtype is HALF else "bfloat_arithmetic"
        _share(name, x.size, (_OPERATIONS[function], *given), whole=4 * (y.size == 1))
        return out
    return function(x, y)


def _share(name: str, size: int, args: tuple, whole: int = 0) -> None:
    if 4 * size < GRAIN:
        readiness.get(name)(*args)
    else:
        run_rows(name, min(8 * size // GRAIN, size, MOST_CHUNKS), size, args, whole)


def sixteen(function: Callable) -> Callable:
    """An operator that computes large arrays of 16 bits by `arithmetic`."""

    def combine(x: Any, y: Any) -> Any:
        if (
            type(x) is np.ndarray
            and x.dtype.itemsize == 2
            and (x.dtype is HALF or x.dtype is BFLOAT)
            and x.size >= SMALL
        ):
            return arithmetic(function, x, y)
        return function(x, y)

    combine.__name__ = combine.__qualname__ = function.__name__
    combine.operator = function  # type: ignore[attr-defined]
    return combine
