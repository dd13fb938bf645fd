"""Batches in pinned memory, for copies to a GPU that nobody waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferro.tensor import Tensor
from ferro.utils.data.collate import mapping_like, sequence_like

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """The tensors in nested data, and what has a method `pin_memory`, in pinned memory; everything else stays as it is."""
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return mapping_like(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[pin_memory(item) for item in data])
    if isinstance(data, Sequence):
        return sequence_like(data, [pin_memory(item) for item in data])
    return data
