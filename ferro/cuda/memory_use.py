"""Questions about the memory of a GPU: how much is used, at most and where; answered as PyTorch without CUDA answers where there is none."""

from __future__ import annotations

import warnings
from typing import Any

from ferro.cuda import driver
from ferro.cuda.devices import checked, get_device_name, needs_gpu
from ferro.cuda.pool import PEAK, held, largest_holders

_FRACTION = [1.0]  # the part that the process may take at most


@needs_gpu
def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The free and the total bytes of the GPU."""
    checked(device)
    free, total = driver.cupy().cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on the GPU; 0 without one."""
    return driver.cupy().get_default_memory_pool().used_bytes() if driver.available() else 0


def memory_reserved(device: Any = None) -> int:
    """The bytes of the GPU that the process holds; 0 without one."""
    return driver.cupy().get_default_memory_pool().total_bytes() if driver.available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took since the start or `reset_peak_memory_stats`; 0 without a GPU."""
    return max(PEAK["allocated"], memory_allocated()) if driver.available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the process held since the start or `reset_peak_memory_stats`; 0 without a GPU."""
    return max(PEAK["reserved"], memory_reserved()) if driver.available() else 0


@needs_gpu
def reset_peak_memory_stats(device: Any = None) -> None:
    """Lets the peaks begin anew with what is taken now."""
    checked(device)
    PEAK.update(allocated=memory_allocated(), reserved=memory_reserved())


@needs_gpu
def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Changes nothing: no sums of what was ever taken are kept."""
    checked(device)


def _reset_all(name: str, device: Any) -> None:
    text = f"torch.cuda.{name} now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats."
    warnings.warn(text, FutureWarning, stacklevel=4)
    reset_peak_memory_stats(device)


@needs_gpu
def reset_max_memory_allocated(device: Any = None) -> None:
    """An old name of `reset_peak_memory_stats`, which warns."""
    _reset_all("reset_max_memory_allocated", device)


@needs_gpu
def reset_max_memory_cached(device: Any = None) -> None:
    """An old name of `reset_peak_memory_stats`, which warns."""
    _reset_all("reset_max_memory_cached", device)


@needs_gpu
def ipc_collect() -> None:
    """Changes nothing: no memory of the GPU is shared with other processes."""


def empty_cache() -> None:
    """Gives back the memory of the GPU that the process holds and does not use."""
    if driver.available():
        driver.cupy().get_default_memory_pool().free_all_blocks()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """What is known of the memory of the GPU, by PyTorch's names; nothing without one."""
    if not driver.available():
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(),
        "allocated_bytes.all.peak": max_memory_allocated(),
        "reserved_bytes.all.current": memory_reserved(),
        "reserved_bytes.all.peak": max_memory_reserved(),
    }


@needs_gpu
def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What is known of the memory of the GPU, in words, and where the tensors were made that hold most (not if abbreviated)."""
    free, total = mem_get_info(device)
    text = (
        f"{get_device_name(device)}: {memory_allocated():,} bytes in tensors (at most {max_memory_allocated():,}), "
        f"{memory_reserved():,} held by the process, {free:,} of {total:,} free"
    )
    holders = [] if abbreviated else largest_holders()
    return text + "".join([f"\n  {count:>15,} bytes: {where}" for where, count in holders])


@needs_gpu
def memory_snapshot(mempool_id: Any = None) -> list[dict[str, Any]]:
    """What tensors hold of the GPU, a segment with one block for each piece of memory, in PyTorch's form.

    CuPy's pool does not say what it keeps without use, nor where one piece ends in what it got from the driver.
    """
    return [
        {
            "device": 0,
            "address": address,
            "total_size": size,
            "allocated_size": size,
            "active_size": size,
            "requested_size": size,
            "segment_type": "large" if size > 1 << 20 else "small",
            "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated"}],
            "made_at": where,
        }
        for address, (size, where) in sorted(held().items())
    ]


@needs_gpu
def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """The part of the GPU's memory that the process may take at most; ValueError unless it is between 0 and 1."""
    checked(device)
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    driver.cupy().get_default_memory_pool().set_limit(fraction=float(fraction))
    _FRACTION[0] = float(fraction)


@needs_gpu
def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the GPU's memory that the process may take at most: 1 unless another one was set."""
    checked(device)
    return _FRACTION[0]
