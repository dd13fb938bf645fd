"""Marks for PyTorch's compiler that libraries put on their methods; nothing is compiled."""

from __future__ import annotations

from ferro.jit import T, _overload, _overload_method

__all__ = ["_copy_to_script_wrapper", "_overload", "_overload_method"]


def _copy_to_script_wrapper(fn: T) -> T:
    """The method itself, which a compiled module would keep in Python."""
    return fn
