"""NumPy by its names for arrays of any backend: each function is that of the library where its arrays lie.

What makes an array from nothing (zeros, arange) makes NumPy's: `zeros_near` and `numbers` (array.py) make it where another array lies.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ferro.batched.array import SERVING, by, plain

__all__ = ["host", "near", "zeros_near"]


def zeros_near(shape: tuple, beside: Any, dtype: Any) -> Any:
    """Zeros where an array lies."""
    found, kind = np.zeros(shape, dtype), type(plain(beside))
    return SERVING[kind].from_host(found) if kind in SERVING else found


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """numpy.repeat of one-dimensional arrays or rows; CuPy's takes no array of counts."""
    if type(repeats) not in SERVING:
        return by(np.repeat, a, repeats, axis=axis)
    ends = by(np.cumsum, repeats)
    places = SERVING[type(repeats)].from_host(np.arange(int(ends[-1]) if len(ends) else 0))
    return a[by(np.searchsorted, ends, places, "right")]


class _Near:
    """The namespace."""

    repeat = staticmethod(_repeat)

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(np, name)
        if callable(found) and not isinstance(found, type):
            found = partial(by, found)
        setattr(self, name, found)
        return found


near: Any = _Near()
host: Any = np  # NumPy itself, beside `near`
