"""Reductions of NumPy arrays; `dim` is a tuple of non-negative dimensions."""

from __future__ import annotations

from typing import Any


def sum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`."""
    return x.sum(axis=dim, keepdims=keepdim, dtype=x.dtype)
