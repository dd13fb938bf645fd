"""Memory of the GPU, from CuPy's pool: what is said when it is not enough, and memory that another stream reads.

CuPy keeps freed memory by stream and gives it again to that stream alone, so that work which is still queued there has
read it by then. Of what another stream reads nobody knows but the program: `Tensor.record_stream` says it.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter, deque
from typing import Any

from ferro.core.base import TensorBase
from ferro.core.node import OutputRef
from ferro.core.provenance import described
from ferro.cuda import driver
from ferro.symbols import OutOfMemoryError

_MOST_HOLDERS = 5
PEAK = {"allocated": 0, "reserved": 0}
_LATER: deque[tuple[Any, Any]] = deque()  # events, and what may be given back when they are reached
_GIVING_BACK = threading.Lock()


def allocate(stream: Any, size: int) -> Any:
    """Memory of the pool for a stream of CuPy's, the current one if None; OutOfMemoryError with what takes most of it."""
    if _LATER and _GIVING_BACK.acquire(blocking=False):  # (another thread does it else)
        try:
            while _LATER and _LATER[0][0].done:
                _LATER.popleft()
        finally:
            _GIVING_BACK.release()
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
    PEAK["allocated"] = max(PEAK["allocated"], pool.used_bytes())
    PEAK["reserved"] = max(PEAK["reserved"], pool.total_bytes())
    return found


def keep_until(event: Any, held: Any) -> None:
    """Holds memory until the GPU has reached an event; it is given back when memory is next asked for."""
    _LATER.append((event, held))


def install() -> None:
    """Lets CuPy ask `allocate` for memory."""
    driver.cupy().cuda.set_allocator(lambda size: allocate(None, size))


# -------------------------------------------------------------------- what takes memory


def _says(size: int) -> str:
    cupy = driver.cupy()
    pool, (free, total) = cupy.get_default_memory_pool(), cupy.cuda.runtime.memGetInfo()
    holders = "".join([f"\n  {count:>15,} bytes: {where}" for where, count in largest_holders()])
    return (
        f"CUDA out of memory. Tried to allocate {size:,} bytes: {pool.used_bytes():,} are in use, {pool.total_bytes():,} held by the "
        f"process, {free:,} of {total:,} of the GPU free. Most of what tensors hold was made here:{holders}"
    )


def largest_holders() -> list[tuple[str, int]]:
    """Where the operations stand whose results hold the most memory, and how many bytes; tensors that share memory count once."""
    found = Counter[str]()
    for size, where in held().values():
        found[where] += size
    return found.most_common(_MOST_HOLDERS)


def held() -> dict[int, tuple[int, str]]:
    """By the address at which tensors of the GPU begin: the bytes of the largest of them, and where it was made."""
    found: dict[int, tuple[int, str]] = {}
    if not driver.available():
        return found
    array = driver.cupy().ndarray
    for value in gc.get_objects():
        if not isinstance(value, TensorBase) or type(getattr(value, "_data", None)) is not array:
            continue
        start, size = value._data.data.ptr, value._data.nbytes
        if size and size > found.get(start, (0, ""))[0]:
            found[start] = size, _where(value)
    return found


def _where(tensor: Any) -> str:
    node = tensor._node
    node = node.node if type(node) is OutputRef else node
    place = getattr(node, "location", None)
    return "leaves and tensors without history" if place is None else f"{node.name()}, {described(place)}"


# -------------------------------------------------------------------- memory that another stream reads


class _Kept:
    """Holds memory that other streams read, and gives it back when they have done what they had been given by then."""

    def __init__(self, memory: Any, stream: Any) -> None:
        self.memory, self.streams = memory, [stream]

    def __del__(self) -> None:
        for stream in self.streams if not sys.is_finalizing() else ():
            keep_until(stream.record(), self.memory)


def read_in(array: Any, stream: Any) -> None:
    """Another stream reads an array whose memory `used_in` keeps; nothing for others."""
    kept = getattr(array.data.mem, "_owner", None)
    if type(kept) is _Kept:
        kept.streams.append(stream)


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
