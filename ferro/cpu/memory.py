"""How the C library hands out the memory of arrays: large blocks stay in the heap, so that fresh results are cheap.

By default glibc maps every large block afresh and returns it when it is freed. The next result then costs one page
fault for every 4 KiB, as much time as computing it. Kept in the heap, the block is reused as it is. The price: the
process keeps the memory it has freed until `empty_cache` returns it. FERRO_MALLOC=0 in the environment turns this off.
"""

import ctypes
import os
import sys

# The names that <malloc.h> gives to what can be set.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_DISABLED = ("0", "off", "no", "false")


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None


def _keep_freed_blocks(library: ctypes.CDLL) -> bool:
    """Serve blocks of up to 1 GiB from one heap for all threads, never shrunk. Whether all of it was accepted."""
    library.mallopt.argtypes, library.mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    mapped = library.mallopt(_M_MMAP_THRESHOLD, 1 << 30) or library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    kept = library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    shared = library.mallopt(_M_ARENA_MAX, 1)  # a worker's block is then the caller's next one
    return bool(mapped and kept and shared)


def empty_cache() -> None:
    """Return the memory that freed arrays have left in the heap to the operating system."""
    if _library is not None:
        _library.malloc_trim(ctypes.c_size_t(0))


_library = _glibc()
_keeps_freed_blocks = (
    _library is not None
    and os.environ.get("FERRO_MALLOC", "").strip().lower() not in _DISABLED
    and _keep_freed_blocks(_library)
)
