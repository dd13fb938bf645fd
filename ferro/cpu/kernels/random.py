"""Machine code that draws from the memory of NumPy's Mersenne twister; without it the caller draws by NumPy, the same bits."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ferro.cpu.kernels import background, get
from ferro.cpu.kernels.background import ready, ready_for
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.kernel import tag_of
from ferro.cpu.kernels.machine import SUPPORTED
from ferro.cpu.kernels.small import at_hand

_WORDS = 625  # 624 of the state, and the place of the next one


def memory_of(bits: np.random.MT19937) -> Any:
    """The state of a bit generator as an array that shares its memory."""
    place: Any = bits.ctypes.state_address
    return np.ctypeslib.as_array((ctypes.c_uint32 * _WORDS).from_address(place))


def fill_uniform(state: Any, out: Any) -> bool:
    """Fills a row of float32 or float64 with uniform numbers of [0, 1). Whether there is machine code."""
    if not _answers("uniform_numbers", out):
        return False
    get("uniform_numbers")(state, out)
    return True


def fill_normal(state: Any, out: Any, mean: float, std: float) -> bool:
    """Fills a row of 16 or more in float32 with normal numbers. Whether there is machine code."""
    if out.dtype != np.float32 or not _answers("normal_numbers", out):
        return False
    get("normal_numbers")(state, out, float(mean), float(std))
    return True


def shuffle(state: Any, order: Any) -> bool:
    """Shuffles a row of int64. Whether there is machine code."""
    kernel = get("shuffle")
    if not (ready_for(kernel, (state, order)) if order.size >= SMALL else _shuffles()):
        return False
    kernel(state, order)
    return True


@cache
def _shuffles() -> bool:
    """Whether there is machine code that shuffles, without compiling any."""
    if not SUPPORTED or background.MODE == "off":
        return False
    return background.MODE == "wait" or get("shuffle").load(tag_of("u4[1] i8[1]"))


def _answers(name: str, out: Any) -> bool:
    return ready((name,), out.dtype) if out.size >= SMALL else at_hand(name, out.dtype) is not None
