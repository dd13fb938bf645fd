"""Powers of NumPy arrays: x^y, by products where the exponent is one of a few numbers, by kernels where NumPy calls C's pow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.cpu.blocks import fused
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.elementwise import function_of
from ferro.cpu.kernels.common import SMALL, has_kernel, pointwise
from ferro.cpu.pointwise import NEED_WIDENING, rsqrt
from ferro.elementwise import elementwise as declare
from ferro.native import isa

__all__ = ["power"]

# What one or two products do better than a power.
POWERS: dict[float, Callable] = {
    3: function_of(declare(lambda xp, x: x * x * x, name="cube", entry="x")),
    -2: fused(lambda x: np.reciprocal(x * x)),
    -0.5: rsqrt,
}
# Of these dtypes powers are those of jit_powers.py: NumPy has a loop over whole registers with AVX-512 alone.
OWN_POWERS = {np.dtype(np.float32), np.dtype(np.float64)} if isa.LEVEL == "avx2" else set()


def has_own_power(y: Any) -> bool:
    """Whether an exponent is a number for which NumPy has nothing better than a power."""
    return type(y) in (int, float) and y not in POWERS and y not in (-1, 0, 0.5, 1, 2)


def _own_power(x: np.ndarray, y: Any) -> np.ndarray | None:
    """x^y by a kernel; None if there is none."""
    if type(y) is np.ndarray and y.shape == x.shape and y.dtype is x.dtype and has_kernel(x, "power"):
        return pointwise("power", x, y)
    if has_own_power(y) and has_kernel(x, "power_number"):
        return pointwise("power_number", x, parameters=(float(y),))
    return None


def _powers(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 50_000):
        yield np.abs(make(n)), make(n) + 2
        yield np.abs(make(n)), 2.25


def power(x: Any, y: Any) -> Any:
    """x^y for an array or a number y; integers to negative powers are rounded towards zero."""
    if x.dtype.kind in "iu":
        if isinstance(y, int):
            return np.power(x, np.int64(y).astype(x.dtype))
        if (y < 0).any():
            return np.where(
                y >= 0, np.power(x, np.maximum(y, 0)), np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
            ).astype(x.dtype)
        return np.power(x, y)
    if isinstance(y, (int, float)) and y in POWERS:
        return POWERS[y](x)
    out = _own_power(x, y) if x.dtype in OWN_POWERS and x.size >= SMALL else None
    out = x**y if out is None else out
    return out if out.dtype is x.dtype or x.dtype.kind != NEED_WIDENING else out.astype(x.dtype)


if OWN_POWERS:
    by_kernels("jit_powers.power power_number", _powers)(power)
