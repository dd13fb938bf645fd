"""Shapes and views of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def reshape(x: Any, shape: tuple) -> Any:
    """x with another shape: a view where possible."""
    return x.reshape(shape)


def expand(x: Any, shape: tuple) -> Any:
    """x broadcast to `shape` without a copy (a read-only view)."""
    return np.broadcast_to(x, shape)


def permute(x: Any, dims: tuple) -> Any:
    """x with its dimensions in the order `dims`."""
    return x.transpose(dims)
