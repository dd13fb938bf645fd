"""Functions of two numbers that choose between kernels and NumPy's: quotients and their remainders, hypotenuses, neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.cpu.blocks import by_blocks, float32, fused
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.elementwise import function_of
from ferro.cpu.kernels.common import SMALL, has_kernel, pointwise
from ferro.elementwise import elementwise as declare
from ferro.native import isa
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
    """A ufunc of quotients; of large arrays by a kernel, which needs a fused multiplication for float64."""

    def block(x: Any, y: Any) -> Any:
        if not (x.flags.c_contiguous and y.flags.c_contiguous and y.shape in (x.shape, ())):
            return ufunc(x, y)
        out = np.empty(x.size, x.dtype)
        get(name)(x.reshape(-1), y.reshape(-1) if y.ndim else np.full(x.size, y), out)
        return out.reshape(x.shape)

    def function(x: Any, y: Any) -> Any:
        if x.dtype is y.dtype and (x.dtype is float32 or isa.has_fma()) and has_kernel(x, name):
            return pointwise(name, x, y) if x.shape == y.shape else by_blocks(block, x, y)
        return ufunc(x, y)

    function.__name__ = function.__qualname__ = name
    return by_kernels(f"jit_quotients.{name}", _pairs)(function)


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


# √(x² + y²) without overflow
hypot = function_of(declare(lambda xp, x, y: xp.hypot(x, y), name="hypot", entry="x"), np.hypot)


@by_kernels("jit_special.nextafter", _pairs)
def nextafter(x: Any, y: Any) -> Any:
    """The number beside x on the way to y."""
    if x.size >= SMALL and x.shape == y.shape and x.dtype is y.dtype and has_kernel(x, "nextafter"):
        return pointwise("nextafter", x, y)
    return np.nextafter(x, y)
