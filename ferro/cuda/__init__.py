"""CUDA, which this build of ferro has not: the answers by which programs choose the CPU, and refusals in PyTorch's words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ferro import absent as _absent
from ferro.cuda import amp, nvtx
from ferro.cuda.streams import (
    CUDAGraph,
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    device,
    device_of,
    graph,
    set_stream,
    stream,
)
from ferro.cuda.types import TYPES as _TYPES
from ferro.symbols import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
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
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "has_half",
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
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "nvtx",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "utilization",
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


def get_gencode_flags() -> str:
    """The compiler's flags for these architectures: none."""
    return ""


# -------------------------------------------------------------------- of no GPU

has_half = True
default_generators: tuple[Any, ...] = ()


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


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Sets the state of the generator of a GPU, of which there is none."""


def set_rng_state_all(new_states: Any) -> None:
    """Sets the states of the generators of all GPUs: none."""


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


def memory_cached(device: Any = None) -> int:
    """An old name of `memory_reserved`, which warns."""
    _old("memory_cached", "memory_reserved")
    return 0


def max_memory_cached(device: Any = None) -> int:
    """An old name of `max_memory_reserved`, which warns."""
    _old("max_memory_cached", "max_memory_reserved")
    return 0


def _old(name: str, new: str) -> None:
    text = f"`torch.cuda.{name}` has been renamed to `torch.cuda.{new}`"
    warnings.warn(text, FutureWarning, stacklevel=3)


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
ipc_collect, reset_peak_memory_stats = _refused("ipc_collect"), _refused("reset_peak_memory_stats")
get_rng_state, memory_summary = _refused("get_rng_state"), _refused("memory_summary")
reset_accumulated_memory_stats = _refused("reset_accumulated_memory_stats")
reset_max_memory_allocated = _refused("reset_max_memory_allocated")
reset_max_memory_cached, memory_snapshot = _refused("reset_max_memory_cached"), _refused("memory_snapshot")
set_per_process_memory_fraction = _refused("set_per_process_memory_fraction")
get_per_process_memory_fraction = _refused("get_per_process_memory_fraction")
can_device_access_peer, utilization = _refused("can_device_access_peer"), _refused("utilization")
get_sync_debug_mode, set_sync_debug_mode = _refused("get_sync_debug_mode"), _refused("set_sync_debug_mode")

globals().update(_TYPES)
__all__ += list(_TYPES)


def __getattr__(name: str) -> Any:
    if name in ("memory", "random"):
        return _absent.load(f"{__name__}.{name}")
    return _absent.missing(__name__, name)
