"""Apple's GPUs, which ferro does not compute on."""

from __future__ import annotations

import platform
import sys

__all__ = ["get_core_count", "get_name", "is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """Whether ferro could compute on Apple's GPUs: it could not."""
    return False


def is_available() -> bool:
    """Whether ferro computes on an Apple GPU: never.

    Example::

        >>> import ferro
        >>> ferro.backends.mps.is_available()
        False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of that version or a newer one."""
    if sys.platform != "darwin":
        return False
    found = [int(part) for part in platform.mac_ver()[0].split(".")[:2]]
    return found >= [major, minor]


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13.`minor` or newer."""
    return is_macos_or_newer(13, minor)


def get_name() -> str:
    """The name of the GPU: RuntimeError, there is none."""
    raise RuntimeError("backends.mps.get_name: ferro does not compute on Apple's GPUs")


def get_core_count() -> int:
    """The number of the GPU's cores: RuntimeError, there is none."""
    raise RuntimeError("backends.mps.get_core_count: ferro does not compute on Apple's GPUs")
