"""Kernels printed from the formulas of elementwise functions; see loops.py. What their text names stands here."""

from __future__ import annotations

import hashlib
import math
from functools import cache
from math import inf, nan  # noqa: F401 (a text may name them)
from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_bits import bits32, bits64
from ferro.cpu.kernels.jit_circles import CIRCLES, acos, asin, atan, cosine, sine  # noqa: F401 (a text may name them)
from ferro.cpu.kernels.jit_hyperbolic import cosh, sinh  # noqa: F401 (likewise)
from ferro.cpu.kernels.jit_logarithms import acosh, asinh, atanh, log10  # noqa: F401 (likewise)
from ferro.cpu.kernels.jit_math import (  # noqa: F401 (likewise)
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log1p_unit,
    log2,
    sigmoid_,
    tanh,
)
from ferro.cpu.kernels.jit_normal import erf_, gelu_, gelu_slope  # noqa: F401 (likewise)
from ferro.cpu.kernels.jit_polar import angle_of, length_of  # noqa: F401 (likewise)
from ferro.cpu.kernels.jit_tangent import tangent  # noqa: F401 (likewise)
from ferro.cpu.kernels.loops import text_of
from ferro.elementwise import DECLARED
from ferro.native.jit import apart, by_precision, device, kernel, whole_registers  # noqa: F401 (likewise)

i32, i64 = np.int32, np.int64
BLOCK = 4096  # numbers after which angles are looked at again, while they are in the cache
_FAR32, _FAR64 = (int(CIRCLES[t].view(n)) for t, n in ((np.float32, i32), (np.float64, i64)))


@device
def _size32(x):
    return i32(bits32(x) & i32(0x7FFFFFFF))


@device
def _size64(x):
    return bits64(x) & i64(0x7FFFFFFFFFFFFFFF)


@device
def _far32(x):
    return i32(_FAR32)


@device
def _far64(x):
    return i64(_FAR64)


@device
def exact_sine(x):
    return type(x)(math.sin(np.float64(x)))


@device
def exact_cosine(x):
    return type(x)(math.cos(np.float64(x)))


@device
def exact_tangent(x):
    return type(x)(math.tan(np.float64(x)))


size_of = by_precision(
    _size32, _size64
)  # bits without the sign: integers in the order of the absolute values, nan at the end
far = by_precision(_far32, _far64)  # that of the largest angle for numbers like x


@cache
def printed(name: str) -> Any:
    """The kernel of an elementwise function."""
    scope = dict(globals())
    text = text_of(DECLARED[name])
    # Where ferro keeps nothing itself, Numba does, under the names of this file and of the function: they tell texts apart.
    function = f"{name}_loop_{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
    exec(compile(text.replace("def loop(", f"def {function}(", 1), __file__, "exec"), scope)
    return kernel(scope[function])
