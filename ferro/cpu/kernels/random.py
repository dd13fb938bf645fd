"""Machine code that draws from the memory of NumPy's Mersenne twister; without it the caller draws by NumPy, the same bits."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import SMALL, has_kernel
from ferro.native import readiness
from ferro.native.kernel import tag_of
from ferro.native.loader import SUPPORTED
from ferro.native.readiness import get, ready_for

_WORDS = 625  # 624 of the state, and the place of the next one


def memory_of(bits: np.random.MT19937) -> Any:
    """The state of a bit generator as an array that shares its memory."""
    place: Any = bits.ctypes.state_address
    return np.ctypeslib.as_array((ctypes.c_uint32 * _WORDS).from_address(place))


def fill(name: str, state: Any, *args: Any) -> bool:
    """Has a kernel of jit_random.py fill its last argument, a row of float32 or float64. Whether there is machine code."""
    if not has_kernel(args[-1], name, small=True):
        return False
    get(name)(state, *args)
    return True


def fill_whole(name: str, state: Any, *args: Any) -> bool:
    """The same for a row of int64."""
    kernel = get(name)
    if not (ready_for(kernel, (state, *args)) if args[-1].size >= SMALL else _at_hand(name)):
        return False
    kernel(state, *args)
    return True


_SIGNATURES = {"shuffle": "u4[1] i8[1]", "whole_numbers": "u4[1] i8 i8 b1 i8[1]"}


@cache
def _at_hand(name: str) -> bool:
    """Whether there is machine code of one of these, without compiling any."""
    if not SUPPORTED or readiness.MODE == "off":
        return False
    return readiness.MODE == "wait" or get(name).load(tag_of(_SIGNATURES[name]))
