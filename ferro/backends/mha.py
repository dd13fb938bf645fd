"""The fast path of attention in evaluation: ferro has one path for all, and keeps the switch."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_ENABLED = [True]


def get_fastpath_enabled() -> bool:
    """Whether MultiheadAttention and TransformerEncoder may take a faster path of their own in evaluation.

    Example::

        >>> import ferro
        >>> ferro.backends.mha.get_fastpath_enabled()
        True
    """
    return _ENABLED[0]


def set_fastpath_enabled(value: bool) -> None:
    """Sets whether they may; ferro takes the same path as in training either way."""
    _ENABLED[0] = value
