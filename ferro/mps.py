"""GPUs of Apple, which ferro does not compute on: the answers by which programs choose the CPU, and refusals."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro import absent as _absent

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "is_available",
    "recommended_max_memory",
    "seed",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is such a device that ferro can use: there is none."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"Cannot execute it without MPS backend: mps.{name}() needs a device that ferro does not compute on. Ask mps.is_available() before"
    )


def synchronize() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("synchronize")


def empty_cache() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("empty_cache")


def current_allocated_memory() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("current_allocated_memory")


def driver_allocated_memory() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("driver_allocated_memory")


def recommended_max_memory() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("recommended_max_memory")


def seed() -> Any:
    """RuntimeError: there is no such device."""
    _refuse("seed")


_absent.explain(__name__)
