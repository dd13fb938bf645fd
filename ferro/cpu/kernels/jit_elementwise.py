"""Kernels printed from the formulas of elementwise functions; see loops.py. What their text names stands here."""

from __future__ import annotations

import math
from functools import cache
from math import inf, nan  # noqa: F401 (a text may name them)
from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32
from ferro.cpu.kernels.jit_math import (  # noqa: F401 (a text may name them)
    CIRCLES,
    cosine,
    erf_,
    exp,
    expm1,
    gelu_,
    gelu_slope,
    log1p,
    log1p_unit,
    sigmoid_,
    sine,
    tanh,
)
from ferro.cpu.kernels.loops import text_of
from ferro.elementwise import DECLARED
from ferro.native.jit import device, kernel, whole_registers  # noqa: F401 (likewise)

i32 = np.int32
BLOCK = 4096  # numbers after which angles are looked at again, while they are in the cache
FAR = i32(CIRCLES.view(i32))


@device
def size_of(x):
    """The bits without the sign: integers in the order of the absolute values, nan at the end."""
    return i32(bits32(x) & i32(0x7FFFFFFF))


@device
def exact_sine(x):
    return np.float32(math.sin(np.float64(x)))


@device
def exact_cosine(x):
    return np.float32(math.cos(np.float64(x)))


@cache
def printed(name: str) -> Any:
    """The kernel of an elementwise function."""
    scope = dict(globals())
    # (Under the name of this file Numba finds a folder for it where ferro keeps nothing itself.)
    exec(compile(text_of(DECLARED[name]).replace("def loop(", f"def {name}_loop(", 1), __file__, "exec"), scope)
    return kernel(scope[f"{name}_loop"])
