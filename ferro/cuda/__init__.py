"""CUDA: the device "cuda", whose arrays are CuPy's. CuPy is loaded when it is first used; without a GPU the answers are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

from ferro import absent as _absent
from ferro._compiling import RECORDERS
from ferro.core.device import LAZY
from ferro.cuda import amp, nvtx
from ferro.cuda.cuda_graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from ferro.cuda.devices import (
    can_device_access_peer,
    current_device,
    device_count,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from ferro.cuda.generator import default_generator as _default_generator
from ferro.cuda.loading import load
from ferro.cuda.memory_use import (
    empty_cache,
    get_per_process_memory_fraction,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ferro.cuda.nvml import clock_rate, memory_usage, power_draw, temperature, utilization
from ferro.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ferro.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    device,
    device_of,
    set_stream,
    stream,
)
from ferro.cuda.sync_mode import get_sync_debug_mode, set_sync_debug_mode
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
    "clock_rate",
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
    "graph_pool_handle",
    "has_half",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
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
    "memory_usage",
    "nvtx",
    "power_draw",
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
    "temperature",
    "utilization",
]


def get_arch_list() -> list[str]:
    """The architectures of GPUs that this build has code for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler's flags for these architectures: none."""
    return ""


has_half = True


def memory_cached(device: Any = None) -> int:
    """An old name of `memory_reserved`, which warns."""
    _old("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """An old name of `max_memory_reserved`, which warns."""
    _old("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def _old(name: str, new: str) -> None:
    text = f"`torch.cuda.{name}` has been renamed to `torch.cuda.{new}`"
    warnings.warn(text, FutureWarning, stacklevel=3)


LAZY["cuda"] = load
RECORDERS["cuda"] = lambda *given: _absent.load("ferro.cuda.replays").Replays(*given)

globals().update(_TYPES)
__all__ += list(_TYPES)


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return (_default_generator,) if is_available() else ()
    if name == "memory":
        return _absent.load(f"{__name__}.{name}")
    return _absent.missing(__name__, name)
