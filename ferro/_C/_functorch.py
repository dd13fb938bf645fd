"""Questions about tensors inside of vmap."""

from __future__ import annotations

from typing import Any

from ferro.batched.array import Batched


def is_batchedtensor(tensor: Any, /) -> bool:
    """Whether a tensor stands for many inside of vmap."""
    return isinstance(tensor._data, Batched)


def is_legacy_batchedtensor(tensor: Any, /) -> bool:
    """Whether a tensor is one of PyTorch's first vmap, which ferro does not have: False."""
    return False
