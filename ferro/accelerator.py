"""The accelerator of this machine, of which ferro knows none: the answers by which programs choose the CPU, and refusals."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator that ferro computes on: there is none."""
    return False


def device_count() -> int:
    """The number of accelerators: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """The device of the accelerator: None.

    Programs choose their device so:

    >>> import ferro
    >>> ferro.accelerator.current_accelerator() if ferro.accelerator.is_available() else ferro.device("cpu")
    device(type='cpu')
    """


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"Cannot access accelerator device when none is available. accelerator.{name}: ferro computes on the CPU, where work is "
        "done when a call returns; ask accelerator.is_available() first"
    )


def current_device_index() -> int:
    """RuntimeError: there is no accelerator."""
    _refuse("current_device_index")


def set_device_index(device: Any, /) -> None:
    """RuntimeError: there is no accelerator."""
    _refuse("set_device_index")


def current_stream(device: Any = None, /) -> Any:
    """RuntimeError: there is no accelerator."""
    _refuse("current_stream")


def synchronize(device: Any = None, /) -> None:
    """RuntimeError: there is no accelerator to wait for."""
    _refuse("synchronize")


def empty_cache() -> None:
    """RuntimeError: there is no accelerator. (`ferro.empty_cache` gives back the CPU's memory.)"""
    _refuse("empty_cache")


def memory_allocated(device: Any = None, /) -> int:
    """RuntimeError: there is no accelerator."""
    _refuse("memory_allocated")


def max_memory_allocated(device: Any = None, /) -> int:
    """RuntimeError: there is no accelerator."""
    _refuse("max_memory_allocated")
