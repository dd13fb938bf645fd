"""Questions about the memory of a GPU: how much is used, at most and where; answered as PyTorch without CUDA answers where there is none."""

from __future__ import annotations

from typing import Any

from ferro.cuda import driver
from ferro.cuda.devices import checked, get_device_name, needs_gpu
from ferro.cuda.pool import PEAK, largest_holders


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
def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """The part of the GPU's memory that the process may take at most; ValueError unless it is between 0 and 1."""
    checked(device)
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    driver.cupy().get_default_memory_pool().set_limit(fraction=float(fraction))
