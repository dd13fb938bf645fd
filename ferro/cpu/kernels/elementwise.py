"""Elementwise kernels of whole arrays: those of some thousand numbers, for which every step around the kernel counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.common import pointwise
from ferro.cpu.thresholds import GRAIN
from ferro.native.readiness import get

ALONE = GRAIN // 4  # elements up to which a kernel takes a few microseconds, and nobody helps with it

_empty = np.empty


def over(name: str, *arrays: Any, parameters: tuple = ()) -> Any:
    """The kernel of that name over arrays of one shape; the result has the dtype and memory layout of the last one."""
    x = arrays[-1]
    if x.size >= ALONE:
        return pointwise(name, *arrays, parameters=parameters)
    dtype = x.dtype
    for a in arrays:
        flags = a.flags
        if not (flags.c_contiguous and flags.aligned and a.dtype is dtype):
            return pointwise(name, *arrays, parameters=parameters)
    out = _empty(x.shape, dtype)
    if x.ndim == 1:
        get(name)(*arrays, *parameters, out)
    else:
        get(name)(*[a.reshape(-1) for a in arrays], *parameters, out.reshape(-1))
    return out
