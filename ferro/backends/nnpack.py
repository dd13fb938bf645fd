"""NNPACK, a library of convolutions, which ferro does not have: its switch is kept and changes nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferro.backends.switches import Switch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["flags", "is_available", "set_flags"]

_ENABLED = Switch("set_enabled_NNPACK")


def is_available() -> bool:
    """Whether ferro computes with NNPACK: never.

    Example::

        >>> import ferro
        >>> ferro.backends.nnpack.is_available()
        False
    """
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Sets whether it may be used, and returns a tuple of what was set before."""
    before = _ENABLED.value
    _ENABLED.set(_enabled)
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """The same for a while."""
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(*before)
