"""How the C library hands out the memory of arrays: large blocks stay in the heap, and begin with a cache line.

By default glibc maps every large block afresh and returns it when it is freed. The next result then costs one page
fault for every 4 KiB, as much time as computing it. Kept in the heap, the block is reused as it is. The price: the
process keeps the memory it has freed until `empty_cache` returns it. FERRO_MALLOC=0 in the environment turns this off.

Every thread keeps the heap that glibc gives it: threads that share one put each other to sleep when both need a block
for a few microseconds of work, which costs 100.

Note [Arrays begin with a cache line]
    glibc's blocks begin at multiples of 16 bytes. A vector register of AVX-512 is as long as a cache line, so that
    every load and store of an array that begins elsewhere touches two of them, and NumPy's loops over numbers in the
    cache take up to twice as long. NumPy lets programs choose the functions that allocate (its C interface calls them a
    handler, NEP 49). The one made here differs from NumPy's own in `malloc` alone, and that only for arrays of the sizes
    ALIGNED, for which it calls `memalign`; `free` is the same for both. It is a function in C by its type, and so a few
    instructions of machine code. Python's threads begin with NumPy's own handler, and arrays work with either.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from typing import Any

import numpy as np

# The names that <malloc.h> gives to what can be set.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

_DISABLED = ("0", "off", "no", "false")

LINE = 64  # bytes of a cache line
# Bytes of the arrays that begin with one. To find such a place takes 50 ns; from 4 MiB on NumPy asks for huge pages.
ALIGNED = range(4 << 10, 4 << 20)


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None


def _keep_freed_blocks(library: ctypes.CDLL) -> bool:
    """Serve blocks of up to 1 GiB from heaps that never shrink. Whether all of it was accepted."""
    library.mallopt.argtypes, library.mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    mapped = library.mallopt(_M_MMAP_THRESHOLD, 1 << 30) or library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    kept = library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    # What is free at the end of a thread's heap, which consists of pieces of 64 MiB, is returned beyond this much.
    padded = library.mallopt(_M_TOP_PAD, 64 << 20)
    return bool(mapped and kept and padded)


def empty_cache() -> None:
    """Return the memory that freed arrays have left in the heap to the operating system."""
    if _library is not None:
        _library.malloc_trim(ctypes.c_size_t(0))


# --- where arrays begin ----------------------------------------------------------------------------------------------


class _Handler(ctypes.Structure):
    """A PyDataMem_Handler, as numpy/ndarraytypes.h declares it."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


_SET_HANDLER, _GET_HANDLER = 304, 305  # places in the table of NumPy's C interface


def _align_arrays(library: ctypes.CDLL) -> bool:
    """See Note [Arrays begin with a cache line]. Whether it was done."""
    if platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        return False
    opened, closed = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    opened.restype, opened.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    closed.restype, closed.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    interface: Any = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined] # (what import_array() reads)
    table = ctypes.cast(opened(interface, None), ctypes.POINTER(ctypes.c_void_p))
    get = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER] or 0)
    put = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0)
    now = _Handler.from_address(opened(get(), b"mem_handler"))
    if now.name != b"default_allocator" or now.version != 1:  # the program has chosen another one
        return False
    memalign = ctypes.cast(library.memalign, ctypes.c_void_p).value or 0
    malloc = _executable(library, _malloc_of_lines(now.malloc, memalign))
    if not malloc:
        return False
    handler = _Handler(b"ferro", 1, now.context, malloc, now.calloc, now.realloc, now.free)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))  # arrays outlive this module
    put(closed(ctypes.addressof(handler), b"mem_handler", None))
    return True


def _malloc_of_lines(otherwise: int, memalign: int) -> bytes:
    """Machine code: a function (context, size) that goes on as memalign(LINE, size) if the size is one of ALIGNED."""
    jump = b"\x48\xb8%b\xff\xe0"  # mov rax, address; jmp rax
    other = jump % struct.pack("<Q", otherwise)
    return b"".join([
        b"\x48\x8d\x86" + struct.pack("<i", -ALIGNED.start),  # lea rax, [rsi - start]
        b"\x48\x3d" + struct.pack("<i", len(ALIGNED)),  # cmp rax, length (as numbers without a sign)
        b"\x72" + bytes([len(other)]),  # jb over the next two instructions
        other,
        b"\xbf" + struct.pack("<I", LINE),  # mov edi, LINE
        jump % struct.pack("<Q", memalign),
    ])  # fmt: skip


def _executable(library: ctypes.CDLL, code: bytes) -> int:
    """Where machine code lies from now on; 0 if the system refuses that."""
    memory = mmap.mmap(-1, len(code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    memory[:] = code
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    size, how = ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC
    return 0 if library.mprotect(ctypes.c_void_p(start), size, how) else start


_library = _glibc()
_wanted = os.environ.get("FERRO_MALLOC", "").strip().lower() not in _DISABLED
_keeps_freed_blocks = _library is not None and _wanted and _keep_freed_blocks(_library)
_aligns_arrays = _library is not None and _wanted and _align_arrays(_library)
