"""Copies and casts of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.strided_copy import copied

copy = copied


def cast(x: Any, dtype: Any) -> Any:
    """x as dtype; a complex number loses its imaginary part, as in PyTorch."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b" and x.dtype.kind != "b":
        return x != 0
    return x.astype(dtype)


def may_share_memory(x: Any, y: Any) -> bool:
    """Whether two arrays may show the same memory; False only where it is certain that they do not."""
    return np.may_share_memory(x, y)


def write_(x: Any, value: Any) -> None:
    """Writes `value`, broadcast and cast to any dtype, into x."""
    np.copyto(x, value, casting="unsafe")


def add_(x: Any, value: Any) -> None:
    """Adds `value`, cast to the dtype of x, into x."""
    np.add(x, value, out=x, casting="unsafe")
