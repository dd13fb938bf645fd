"""Copies and casts of NumPy arrays."""

from __future__ import annotations

from typing import Any


def cast(x: Any, dtype: Any) -> Any:
    """x as dtype; a complex number loses its imaginary part, as in PyTorch."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b" and x.dtype.kind != "b":
        return x != 0
    return x.astype(dtype)


def copy(x: Any) -> Any:
    """A fresh copy with the same order of dimensions in memory, which for an expanded array is the usual one."""
    return x.copy("C" if 0 in x.strides else "K")
