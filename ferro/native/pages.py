"""Pages of memory that hold machine code, where the system grants them.

SELinux, systemd (MemoryDenyWriteExecute=) and others refuse to make memory executable that has been written. Then
neither kernels nor Numba can run in the process, and NumPy answers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache

_WRITABLE = mmap.PROT_READ | mmap.PROT_WRITE if sys.platform != "win32" else 0
_EXECUTABLE = mmap.PROT_READ | mmap.PROT_EXEC if sys.platform != "win32" else 0


def reserve(size: int) -> int:
    """Where so many bytes lie that are zero and that no object of Python's owns. OSError if they are refused."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = library.mmap(None, size, _WRITABLE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if start is None or start == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"the system refuses memory: {os.strerror(ctypes.get_errno())}")
    # Pages of 2 MiB, where the memory is that large, spare the faults of 512 small ones.
    library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), getattr(mmap, "MADV_HUGEPAGE", 14))
    return start


def give_back(start: int, size: int) -> None:
    """Returns bytes of `reserve` to the system."""
    ctypes.CDLL(None).munmap(ctypes.c_void_p(start), ctypes.c_size_t(size))


def keep(data: bytes, executable: bool = False) -> int:
    """Where a copy of the data lies from now on, in pages that no object of Python's owns. OSError if they are refused."""
    size = len(data)
    start = reserve(size)
    ctypes.memmove(start, data, size)
    library = ctypes.CDLL(None, use_errno=True)
    if executable and library.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), _EXECUTABLE):
        number = ctypes.get_errno()
        give_back(start, size)
        raise OSError(number, f"the system refuses memory for machine code: {os.strerror(number)}")
    return start


@cache
def refused() -> str:
    """Why no memory can be made executable in this process; nothing where it can, or where that is not known."""
    if sys.platform == "linux":
        try:
            keep(b"\xc3", executable=True)
        except OSError as error:
            return str(error.strerror)
    return ""
