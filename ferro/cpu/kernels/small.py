"""Kernels for small arrays: where its machine code is on disk, a kernel costs no more than one call of NumPy.

Nothing is compiled for small arrays, and what the first call finds holds for as long as the process lives: NumPy and
kernels round differently. (With FERRO_KERNELS=wait kernels compute arrays of any size.)
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ferro.native import readiness
from ferro.native.kernel import Kernel
from ferro.native.loader import SUPPORTED
from ferro.native.readiness import get

_REAL = (np.dtype(np.float32), np.dtype(np.float64))


@cache
def at_hand(name: str, dtype: np.dtype) -> Kernel | None:
    """The kernel of that name, if it can be called for arrays of a dtype without more ado."""
    if dtype not in _REAL or not SUPPORTED or readiness.MODE == "off":
        return None
    return get(name) if readiness.MODE == "wait" or readiness.at_start(name, dtype) else None


@cache
def nothing(dtype: np.dtype) -> np.ndarray:
    """The array without elements that stands for an absent parameter."""
    return np.empty(0, dtype)


def suited(name: str, x: np.ndarray, *others: np.ndarray | None) -> Kernel | None:
    """The kernel of that name, if it is at hand and reads these arrays (others: of the same dtype, or None) as they are."""
    dtype = x.dtype
    if not x.size or not x.flags.carray:
        return None
    for a in others:
        if a is not None and not (a.dtype is dtype and a.flags.carray):
            return None
    return at_hand(name, dtype)
