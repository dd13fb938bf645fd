"""Questions about GPUs: answered by CuPy where there is one, and as PyTorch without CUDA answers where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from ferro.core.device import DEVICE_BACKENDS
from ferro.core.device import device as _Device
from ferro.cuda import driver
from ferro.cuda.loading import load


def needs_gpu(function: Callable) -> Callable:
    """Decorator: AssertionError where there is no GPU, as of a build of PyTorch without CUDA."""
    name = function.__name__

    @wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        missing = driver.missing()
        if missing is not None:
            raise AssertionError(
                f"Torch not compiled with CUDA enabled: cuda.{name}() needs a GPU: {missing}. Ask cuda.is_available() first"
            )
        return function(*args, **kwargs)

    return asked


def checked(device: Any) -> int:
    """The number of the GPU that an argument names, which is 0."""
    if isinstance(device, (str, _Device)):
        device = _Device(device).index
    if device not in (None, 0):
        raise RuntimeError(
            f"cuda: ferro uses one GPU, cuda:0, not {device}; CUDA_VISIBLE_DEVICES chooses which one that is"
        )
    return 0


def is_available() -> bool:
    """Whether there is a GPU that ferro can use; the first call loads CuPy, if it is installed.

    >>> import ferro
    >>> ferro.ones(2, device="cuda" if ferro.cuda.is_available() else "cpu").tolist()
    [1.0, 1.0]
    """
    return driver.available()


def device_count() -> int:
    """The number of GPUs; ferro uses the first."""
    return driver.cupy().cuda.runtime.getDeviceCount() if driver.available() else 0


def is_initialized() -> bool:
    """Whether a GPU has been used."""
    return "cuda" in DEVICE_BACKENDS


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU that computes with bfloat16. (The CPU does.)"""
    return driver.available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether products of float32 are computed as TF32: they are not, but in full float32."""
    return False


@needs_gpu
def init() -> None:
    """Makes the GPU ready, which its first use does too."""
    load()


@needs_gpu
def current_device() -> int:
    """The number of the GPU that is used: 0."""
    return 0


@needs_gpu
def set_device(device: Any) -> None:
    """Chooses the GPU, which must be the first; RuntimeError for others."""
    checked(device)


@needs_gpu
def synchronize(device: Any = None) -> None:
    """Waits until the GPU has done all that it was given."""
    checked(device)
    driver.cupy().cuda.runtime.deviceSynchronize()


@needs_gpu
def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU reads the memory of another: there is no other."""
    return checked(device) != checked(peer_device)


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of a GPU."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


@needs_gpu
def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory and number of processors of the GPU."""
    found = driver.cupy().cuda.runtime.getDeviceProperties(checked(device))
    keys = ("major", "minor", "totalGlobalMem", "multiProcessorCount")
    return DeviceProperties(found["name"].decode(), *[int(found[key]) for key in keys])


@needs_gpu
def get_device_name(device: Any = None) -> str:
    """The name of the GPU."""
    return get_device_properties(device).name


@needs_gpu
def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of the GPU, such as (9, 0)."""
    found = get_device_properties(device)
    return found.major, found.minor
