"""CUDA, which this build of ferro has not: the answers by which programs choose the CPU, and refusals in PyTorch's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ferro.cuda import amp, nvtx
from ferro.cuda.streams import CUDAGraph, Event, ExternalStream, Stream, StreamContext, device, device_of, graph, stream
from ferro.symbols import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "nvtx",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a GPU that ferro can use: there is none.

    >>> import ferro
    >>> "cuda" if ferro.cuda.is_available() else "cpu"
    'cpu'
    """
    return False


def device_count() -> int:
    """The number of GPUs: 0."""
    return 0


def is_initialized() -> bool:
    """Whether a GPU has been used: none has."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a GPU computes with bfloat16: there is none. (The CPU does.)"""
    return False


def is_tf32_supported() -> bool:
    """Whether a GPU multiplies float32 as TF32: there is none, and products are full float32."""
    return False


def get_arch_list() -> list[str]:
    """The architectures of GPUs that this build has code for: none."""
    return []


# -------------------------------------------------------------------- of no GPU


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current GPU, of which there is none; the CPU's is `ferro.manual_seed`'s."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all GPUs: none."""
    int(seed)


def seed() -> None:
    """Seeds the generator of the current GPU at random: there is none."""


def seed_all() -> None:
    """Seeds the generators of all GPUs at random: none."""


default_generators: tuple[Any, ...] = ()  # one for each GPU


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the generators of all GPUs: none.  Raises: AssertionError where there are states for some."""
    for state in new_states:
        set_rng_state(state)


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all GPUs: none."""
    return []


def empty_cache() -> None:
    """Gives back the memory of GPUs that is not used: none."""


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on a GPU: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took on a GPU: 0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """The bytes of a GPU that the process holds: 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of a GPU that the process held: 0."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """What is known of the memory of a GPU: nothing."""
    return {}


# -------------------------------------------------------------------- what needs a GPU


def _refused(name: str) -> Callable[..., Any]:
    """The function `name`, which needs a GPU: AssertionError, as of a build of PyTorch without CUDA."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(
            f"Torch not compiled with CUDA enabled: cuda.{name}() needs a GPU, and ferro computes on the CPU only. Ask "
            "cuda.is_available() first"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AssertionError: there is no GPU."
    return refuse


current_device, set_device = _refused("current_device"), _refused("set_device")
current_stream, default_stream = _refused("current_stream"), _refused("default_stream")
get_device_capability, get_device_name = _refused("get_device_capability"), _refused("get_device_name")
get_device_properties, mem_get_info = _refused("get_device_properties"), _refused("mem_get_info")
init, initial_seed, synchronize = _refused("init"), _refused("initial_seed"), _refused("synchronize")
get_rng_state, set_rng_state = _refused("get_rng_state"), _refused("set_rng_state")
ipc_collect, reset_peak_memory_stats = _refused("ipc_collect"), _refused("reset_peak_memory_stats")
