"""Memory of the GPU: CuPy's pool, how much of it is used, what is said when it is not enough, and memory that another stream reads.

CuPy keeps freed memory by stream and gives it again to that stream alone, so that work which is still queued there has
read it by then. Of what another stream reads nobody knows but the program: `Tensor.record_stream` says it.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from typing import Any

from ferro.core.base import TensorBase
from ferro.core.node import OutputRef
from ferro.core.provenance import described
from ferro.cuda import driver
from ferro.cuda.devices import checked, get_device_name, needs_gpu
from ferro.symbols import OutOfMemoryError

_MOST_HOLDERS = 5
_PEAK = {"allocated": 0, "reserved": 0}
_LATER: deque[tuple[Any, Any]] = deque()  # events, and what may be given back when they are reached


def allocate(stream: Any, size: int) -> Any:
    """Memory of the pool for a stream of CuPy's, the current one if None; OutOfMemoryError with what takes most of it."""
    while _LATER and _LATER[0][0].done:
        _LATER.popleft()
    cupy = driver.cupy()
    pool = cupy.get_default_memory_pool()
    try:
        if stream is None:
            found = pool.malloc(size)
        else:
            with stream:
                found = pool.malloc(size)
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise OutOfMemoryError(_says(size)) from error
    _PEAK["allocated"] = max(_PEAK["allocated"], pool.used_bytes())
    _PEAK["reserved"] = max(_PEAK["reserved"], pool.total_bytes())
    return found


def install() -> None:
    """Lets CuPy ask `allocate` for memory."""
    driver.cupy().cuda.set_allocator(lambda size: allocate(None, size))


# -------------------------------------------------------------------- what takes memory


def _says(size: int) -> str:
    free, total = mem_get_info()
    holders = "".join([f"\n  {count:>15,} bytes: {where}" for where, count in largest_holders()])
    return (
        f"CUDA out of memory. Tried to allocate {size:,} bytes: {memory_allocated():,} are in use, {memory_reserved():,} held by "
        f"the process, {free:,} of {total:,} free on {get_device_name()}. Most of what tensors hold was made here:{holders}"
    )


def largest_holders() -> list[tuple[str, int]]:
    """Where the operations stand whose results hold the most memory, and how many bytes; tensors that share memory count once."""
    array, seen, found = driver.cupy().ndarray, set(), Counter[str]()
    for value in gc.get_objects():
        if not isinstance(value, TensorBase) or type(getattr(value, "_data", None)) is not array:
            continue
        start = value._data.data.ptr
        if start not in seen:
            seen.add(start)
            found[_where(value)] += value._data.nbytes
    return found.most_common(_MOST_HOLDERS)


def _where(tensor: Any) -> str:
    node = tensor._node
    node = node.node if type(node) is OutputRef else node
    place = getattr(node, "location", None)
    return "leaves and tensors without history" if place is None else f"{node.name()}, {described(place)}"


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
    return max(_PEAK["allocated"], memory_allocated()) if driver.available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the process held since the start or `reset_peak_memory_stats`; 0 without a GPU."""
    return max(_PEAK["reserved"], memory_reserved()) if driver.available() else 0


@needs_gpu
def reset_peak_memory_stats(device: Any = None) -> None:
    """Lets the peaks begin anew with what is taken now."""
    checked(device)
    _PEAK.update(allocated=memory_allocated(), reserved=memory_reserved())


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


# -------------------------------------------------------------------- memory that another stream reads


class _Kept:
    """Holds memory that other streams read, and gives it back when they have done what they had been given by then."""

    def __init__(self, memory: Any, stream: Any) -> None:
        self.memory, self.streams = memory, [stream]

    def __del__(self) -> None:
        for stream in self.streams if not sys.is_finalizing() else ():
            _LATER.append((stream.record(), self.memory))


def used_in(tensor: Any, stream: Any) -> None:
    """Lets the memory of a tensor live until a stream of CuPy's has done what it was given before the tensor died."""
    array, cupy = tensor._data, driver.cupy()
    memory = array.data.mem
    kept = getattr(memory, "_owner", None)
    if type(kept) is _Kept:
        kept.streams.append(stream)
        return
    kept = _Kept(array.data, stream)
    owned = cupy.cuda.UnownedMemory(memory.ptr, memory.size, kept, 0)
    start = cupy.cuda.MemoryPointer(owned, array.data.ptr - memory.ptr)
    tensor._data = cupy.ndarray(array.shape, array.dtype, start, array.strides)
