"""Warnings that are given once in the life of a process, and the switch that gives them every time."""

from __future__ import annotations

import warnings

_ALWAYS = [False]
_given: set[str] = set()


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that PyTorch gives once in a process (of deprecated signatures, say) are given every time.

    Example::

        >>> import ferro
        >>> ferro.set_warn_always(False)
        >>> ferro.is_warn_always_enabled()
        False
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _ALWAYS[0] = b


def is_warn_always_enabled() -> bool:
    """Whether warnings that are given once in a process are given every time."""
    return _ALWAYS[0]


def warn_once(message: str, category: type[Warning] = UserWarning, stacklevel: int = 2) -> None:
    """A warning that this process gives once, whatever the filters of `warnings` say."""
    if _ALWAYS[0] or message not in _given:
        _given.add(message)
        warnings.warn(message, category, stacklevel=stacklevel + 1)
