"""Questions about GPUs and their memory: answered by CuPy where there is one, and as PyTorch without CUDA answers where there is none."""

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


def absent(name: str) -> Callable:
    """A function that is not there yet: AssertionError without a GPU, NotImplementedError with one."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"cuda.{name}() is not there yet")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AssertionError without a GPU, NotImplementedError with one: it is not there yet."
    return needs_gpu(refuse)


def _checked(device: Any) -> int:
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
    _checked(device)


@needs_gpu
def synchronize(device: Any = None) -> None:
    """Waits until the GPU has done all that it was given."""
    _checked(device)
    driver.cupy().cuda.runtime.deviceSynchronize()


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
    found = driver.cupy().cuda.runtime.getDeviceProperties(_checked(device))
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


# -------------------------------------------------------------------- memory: that of CuPy's pool


@needs_gpu
def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the total bytes of the GPU."""
    _checked(device)
    free, total = driver.cupy().cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on the GPU; 0 without one."""
    return driver.cupy().get_default_memory_pool().used_bytes() if driver.available() else 0


def memory_reserved(device: Any = None) -> int:
    """The bytes of the GPU that the process holds; 0 without one."""
    return driver.cupy().get_default_memory_pool().total_bytes() if driver.available() else 0


def empty_cache() -> None:
    """Gives back the memory of the GPU that the process holds and does not use."""
    if driver.available():
        driver.cupy().get_default_memory_pool().free_all_blocks()


@needs_gpu
def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What is known of the memory of the GPU, in words."""
    free, total = mem_get_info(device)
    return (
        f"{get_device_name(device)}: {memory_allocated():,} bytes in tensors, {memory_reserved():,} held by the process, "
        f"{free:,} of {total:,} free"
    )


def _unless_gpu(name: str, doc: str, answer: Any) -> Callable:
    """What is answered without a GPU, and not there yet with one."""

    def asked(*args: Any, **kwargs: Any) -> Any:
        if driver.available():
            raise NotImplementedError(f"cuda.{name}() is not there yet")
        return answer

    asked.__name__ = asked.__qualname__ = name
    asked.__doc__ = doc
    return asked


max_memory_allocated = _unless_gpu(
    "max_memory_allocated", "The most bytes that tensors took: 0 without a GPU, else not there yet.", 0
)
max_memory_reserved = _unless_gpu(
    "max_memory_reserved", "The most bytes that were held: 0 without a GPU, else not there yet.", 0
)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """What is known of the memory of the GPU, by PyTorch's names; nothing without one."""
    if not driver.available():
        return {}
    return {"allocated_bytes.all.current": memory_allocated(), "reserved_bytes.all.current": memory_reserved()}
