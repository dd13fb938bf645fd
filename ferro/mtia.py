"""Accelerators of Meta, which ferro does not compute on: the answers by which programs choose the CPU, and refusals."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro import absent as _absent

__all__ = [
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "memory_allocated",
    "seed",
    "seed_all",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is such a device that ferro can use: there is none."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def is_initialized() -> bool:
    """Whether such a device has been used: none has."""
    return False


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on such a device: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took on such a device: 0."""
    return 0


def seed() -> None:
    """Seeds the generator of such a device at random: there is none."""


def seed_all() -> None:
    """Seeds the generators of all such devices at random: none."""


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"Cannot execute it without MTIA backend: mtia.{name}() needs a device that ferro does not compute on. Ask mtia.is_available() before"
    )


def current_device() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("current_device")


def synchronize(device: Any = None) -> Any:
    """RuntimeError: there is no such device."""
    _refuse("synchronize")


def current_stream(device: Any = None) -> Any:
    """RuntimeError: there is no such device."""
    _refuse("current_stream")


def empty_cache() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("empty_cache")


def get_device_capability(device: Any = None) -> Any:
    """RuntimeError: there is no such device."""
    _refuse("get_device_capability")


_absent.explain(__name__)
