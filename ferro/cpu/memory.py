"""How the C library hands out the memory of arrays: large blocks stay in the heap, and begin with a cache line.

By default glibc maps every large block afresh and returns it when it is freed. The next result then costs one page
fault for every 4 KiB, as much time as computing it. Kept in the heap, the block is reused as it is. The price: the
process keeps the memory it has freed until `empty_cache` returns it. FERRO_MALLOC=0 in the environment turns this off,
and so does whoever sets glibc's allocator there himself (MALLOC_TRIM_THRESHOLD_, GLIBC_TUNABLES, ...).

Both hold for the whole process, from `import ferro` on, also for arrays that ferro never sees. They do not depend on
whether NumPy was imported before: programs import it in either order, and would be slower in one of them.

Every thread keeps the heap that glibc gives it: threads that share one put each other to sleep when both need a block
for a few microseconds of work, which costs 100.

Note [Arrays begin with a cache line]
    glibc's blocks begin at multiples of 16 bytes. A vector register of AVX-512 is as long as a cache line, so that
    every load and store of an array that begins elsewhere touches two of them, and NumPy's loops over numbers in the
    cache take up to twice as long. NumPy lets programs choose the functions that allocate (its C interface calls them a
    handler, NEP 49). The one made here differs from NumPy's own in `malloc` alone, and that only for arrays of the sizes
    ALIGNED, for which it calls `memalign`; `free` is the same for both. It is a function in C by its type, and so a few
    instructions of machine code. Python's threads begin with NumPy's own handler, and arrays work with either.

    C keeps the addresses of the handler, of its code and of the name of its capsule, which NumPy compares whenever an
    array comes or goes, at the very end of the process too. So all of it lies in memory that nobody ever gives back,
    and a module that is loaded again finds it in place.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from ferro.native import pages
from ferro.native.handlers import Handler, capsule_of, current_name, handlers, opened
from ferro.native.loader import SUPPORTED
from ferro.native.notices import note

# The names that <malloc.h> gives to what can be set.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

_DISABLED = ("0", "off", "no", "false")
# What a user says to glibc's allocator himself is left as it is.
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")

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


_OURS, _NUMPYS = "ferro", "default_allocator"


def _align_arrays(library: ctypes.CDLL) -> bool:
    """See Note [Arrays begin with a cache line]. Whether it was done."""
    try:
        return _set_handler(library)
    except (AttributeError, ImportError, OSError, RuntimeError, ValueError) as error:
        note("allocator", f"NumPy's allocator is left as it is: {error}")
    return False


def _set_handler(library: ctypes.CDLL) -> bool:
    named = current_name()
    if named == _OURS:  # this module was loaded before
        return True
    if named != _NUMPYS:
        note("allocator", f"NumPy's allocator is left as it is: the program has chosen {named!r}")
        return False
    get, put = handlers()
    now = opened(get(), _NUMPYS)
    memalign = ctypes.cast(library.memalign, ctypes.c_void_p).value or 0
    malloc = pages.keep(_malloc_of_lines(now.malloc, memalign), executable=True)
    put(capsule_of(Handler(_OURS.encode(), 1, now.context, malloc, now.calloc, now.realloc, now.free)))
    return True


def _malloc_of_lines(otherwise: int, memalign: int) -> bytes:
    """Machine code: a function (context, size) that goes on as memalign(LINE, size) if the size is one of ALIGNED."""
    jump = b"\x48\xb8%b\xff\xe0"  # mov rax, address; jmp rax
    other = jump % struct.pack("<Q", otherwise)
    return b"".join(
        [
            b"\x48\x8d\x86" + struct.pack("<i", -ALIGNED.start),  # lea rax, [rsi - start]
            b"\x48\x3d" + struct.pack("<i", len(ALIGNED)),  # cmp rax, length (as numbers without a sign)
            b"\x72" + bytes([len(other)]),  # jb over the next two instructions
            other,
            b"\xbf" + struct.pack("<I", LINE),  # mov edi, LINE
            jump % struct.pack("<Q", memalign),
        ]
    )


_library = _glibc()
_said = os.environ.get("FERRO_MALLOC", "").strip().lower()
_theirs = sorted({*_SETTINGS} & {*os.environ}) + ["GLIBC_TUNABLES"] * (
    "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
)
# Where Python looks for mistakes in the use of memory, what it has not given out must not be returned to it.
_debugged = sys.flags.dev_mode or os.environ.get("PYTHONMALLOC", "").endswith("debug")
_wanted = _said not in _DISABLED and (bool(_said) or not _theirs)
if not _wanted:
    note("allocator", f"left as it is: {' '.join(_theirs) if _said not in _DISABLED else f'FERRO_MALLOC={_said}'}")
_keeps_freed_blocks = _library is not None and _wanted and _keep_freed_blocks(_library)
if _wanted and _debugged:
    note("allocator", "NumPy's allocator is left as it is: Python's allocators are those for debugging")
_aligns_arrays = _library is not None and _wanted and SUPPORTED and not _debugged and _align_arrays(_library)
