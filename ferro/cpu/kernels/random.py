"""Machine code that draws from the memory of NumPy's Mersenne twister; without it the caller draws by NumPy, the same bits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import SMALL
from ferro.native.readiness import get, ready

_WORDS = 625  # 624 of the state, and the place of the next one


def memory_of(bits: np.random.MT19937) -> Any:
    """The state of a bit generator as an array that shares its memory."""
    place: Any = bits.ctypes.state_address
    return np.ctypeslib.as_array((ctypes.c_uint32 * _WORDS).from_address(place))


def fill(name: str, state: Any, *args: Any) -> bool:
    """Has a kernel of jit_random.py fill its last argument, a row of float32 or float64. Whether there is machine code."""
    if not ready((name,), args[-1].dtype, args[-1].size >= SMALL):
        return False
    get(name)(state, *args)
    return True


def fill_whole(name: str, state: Any, *args: Any) -> bool:
    """The same for a row of int64."""
    if not ready((name,), args[-1].dtype, args[-1].size >= SMALL):
        return False
    get(name)(state, *args)
    return True
