"""Whether a tensor is one without data."""

from __future__ import annotations

from typing import Any


def is_fake(x: Any) -> bool:
    """Whether a tensor stands for one that a compiler will compute: nothing is compiled, so False."""
    return False
