"""Functions of two numbers that choose between kernels and NumPy's: quotients and their remainders, hypotenuses, neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.cpu.blocks import by_blocks, float32, fused
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels.common import SMALL, has_kernel, pointwise
from ferro.native.readiness import get

__all__ = ["div_floor", "div_trunc", "floor_divide", "fmod", "hypot", "nextafter", "remainder"]


@fused
def div_trunc(x: Any, y: Any) -> Any:
    """x / y rounded towards zero."""
    if x.dtype.kind not in "iu":
        return np.trunc(x / y)
    down = np.floor_divide(x, y)
    return down + ((down * y != x) & ((x < 0) != (y < 0)))


def _pairs(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 50_000):
        yield make(n), make(n) + 2


def _quotient(name: str, ufunc: Any) -> Callable:
    """A ufunc of quotients; of large float32 arrays by a kernel, where quotients are below 2²⁴."""

    def block(x: Any, y: Any) -> Any:
        if not (x.flags.c_contiguous and y.flags.c_contiguous and y.shape in (x.shape, ())):
            return ufunc(x, y)
        out = np.empty(x.size, x.dtype)
        fine = get(name)(x.reshape(-1), y.reshape(-1) if y.ndim else np.full(x.size, y), out)
        return out.reshape(x.shape) if fine else ufunc(x, y)

    def function(x: Any, y: Any) -> Any:
        if x.dtype is float32 and y.dtype is float32 and has_kernel(x, name):
            return by_blocks(block, x, y)
        return ufunc(x, y)

    function.__name__ = function.__qualname__ = name
    return by_kernels(f"jit_pointwise.{name}", _pairs)(function)


fmod, _remainder = _quotient("fmod", np.fmod), _quotient("remainder", np.remainder)


def remainder(x: Any, y: Any) -> Any:
    """x - y ⌊x / y⌋."""
    if x.dtype.kind in "iu" and x.size >= SMALL and y.ndim == 0 and x.ndim:
        # NumPy divides by one integer many times faster than it takes remainders of it
        found = np.floor_divide(x, y)
        np.multiply(found, y, out=found)
        return np.subtract(x, found, out=found)
    return _remainder(x, y)


div_floor = floor_divide = _quotient("floor_divide", np.floor_divide)


@by_kernels("jit_pointwise.hypot", _pairs)
def hypot(x: Any, y: Any) -> Any:
    """√(x² + y²) without overflow."""
    if x.size >= SMALL and x.dtype is float32 and y.dtype is float32 and x.shape == y.shape and has_kernel(x, "hypot"):
        return pointwise("hypot", x, y)
    return by_blocks(np.hypot, x, y)


@by_kernels("jit_special.nextafter", _pairs)
def nextafter(x: Any, y: Any) -> Any:
    """The number beside x on the way to y."""
    if x.size >= SMALL and x.shape == y.shape and x.dtype is y.dtype and has_kernel(x, "nextafter"):
        return pointwise("nextafter", x, y)
    return np.nextafter(x, y)
