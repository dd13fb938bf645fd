"""GPUs of Intel, which ferro does not compute on: the answers by which programs choose the CPU, and refusals."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro import absent as _absent

__all__ = [
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
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


def empty_cache() -> None:
    """Gives back memory of such a device that is not used: none."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether such a device computes with bfloat16: there is none. (The CPU does.)"""
    return False


def _refuse(name: str) -> NoReturn:
    raise AssertionError(
        f"Torch not compiled with XPU enabled: xpu.{name}() needs a device that ferro does not compute on. Ask xpu.is_available() before"
    )


def current_device() -> Any:
    """AssertionError: there is no such device."""
    _refuse("current_device")


def synchronize(device: Any = None) -> Any:
    """AssertionError: there is no such device."""
    _refuse("synchronize")


def current_stream(device: Any = None) -> Any:
    """AssertionError: there is no such device."""
    _refuse("current_stream")


def get_device_name(device: Any = None) -> Any:
    """AssertionError: there is no such device."""
    _refuse("get_device_name")


def get_device_properties(device: Any = None) -> Any:
    """AssertionError: there is no such device."""
    _refuse("get_device_properties")


def init() -> Any:
    """AssertionError: there is no such device."""
    _refuse("init")


def initial_seed() -> Any:
    """AssertionError: there is no such device."""
    _refuse("initial_seed")


_absent.explain(__name__)
