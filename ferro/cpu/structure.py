"""Copies and casts of NumPy arrays."""

from __future__ import annotations

from typing import Any

from ferro.cpu.kernels.moves import copied

copy = copied


def cast(x: Any, dtype: Any) -> Any:
    """x as dtype; a complex number loses its imaginary part, as in PyTorch."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b" and x.dtype.kind != "b":
        return x != 0
    return x.astype(dtype)
