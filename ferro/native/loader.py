"""Machine code in memory: a kernel that was kept on disk becomes a function of Python, without Numba or LLVM.

Numba and LLVM take 125 MB and 0.4 s when the first kernel is loaded through them; a kernel by itself takes 15 KB and
0.1 ms. What is kept is position-independent but for 64-bit addresses that are filled in here: see jit_export.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ferro.native import layout, slots
from ferro.native.extensions import extension
from ferro.native.layout import numpy_interface
from ferro.native.notices import note
from ferro.native.work_queue import SHARED

_METH_FASTCALL = 0x80  # function(self, arguments, count), as Python's headers call it

ROWS, LEADING = "rows", 6  # the entry for chunks of rows, and how many numbers it takes before the kernel's arguments

_OFF = ("0", "off", "no", "false")


def _refusal() -> str:
    """Why machine code does not run in this process; empty if it does."""
    wanted = os.environ.get("FERRO_MACHINE_CODE", "").strip().lower()
    if wanted in _OFF:
        return "FERRO_MACHINE_CODE switches it off"
    if wanted not in ("", "1", "on", "yes", "true"):
        raise ValueError(f"FERRO_MACHINE_CODE is {wanted!r}; it may be 'on' or 'off'")
    # The format of object code that is read, and the calling convention, are those of this kind of machine.
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        return "it is made for Linux on x86-64"
    if sys.implementation.name != "cpython":
        return "it is made for CPython"
    return layout.refusal()


REFUSAL = _refusal()
SUPPORTED = not REFUSAL
if not SUPPORTED:
    note("machine code", REFUSAL)


class _Method(ctypes.Structure):
    """A PyMethodDef: what Python knows of a function written in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_kept: list[Any] = []  # what functions of Python point to, and threads run, stays until the process has ended
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def pack(code: bytes, entries: dict[str, int], symbols: list[str], addresses: list[tuple[int, int, int]]) -> bytes:
    """What `Code` reads. An address is (where it stands, the number of its symbol or -1 for the code itself, addend)."""
    places = np.array(addresses, np.int64).reshape(-1, 3).tobytes()
    header = json.dumps({"entries": entries, "symbols": symbols}).encode()
    rest = struct.pack("<QQ", len(header), len(places)) + header + places + code
    return _digest(rest) + rest


def symbols(packed: bytes) -> list[str]:
    """The names of functions and objects of the process that packed machine code refers to."""
    (words,) = struct.unpack_from("<Q", packed, 16)
    return json.loads(packed[32 : 32 + words])["symbols"]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class Code:
    """Machine code that has been brought into memory."""

    def __init__(self, name: str, packed: bytes):
        if packed[:16] != _digest(packed[16:]):
            raise ValueError(f"kernel {name}: what is kept of it is damaged")
        words, numbers = struct.unpack_from("<QQ", packed, 16)
        header, code = json.loads(packed[32 : 32 + words]), packed[32 + words + numbers :]
        memory = mmap.mmap(-1, len(code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
        memory[:] = code
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        known = np.array([*map(address, header["symbols"]), start], np.uint64)
        place, symbol, addend = np.frombuffer(packed, np.int64, numbers // 8, 32 + words).reshape(-1, 3).T
        filled_in = known[symbol] + addend.astype(np.uint64)  # (modulo 2**64, as addends may be negative)
        np.frombuffer(memory, np.uint8)[place[:, None] + np.arange(8)] = filled_in.view(np.uint8).reshape(-1, 8)
        if ctypes.CDLL(None, use_errno=True).mprotect(
            ctypes.c_void_p(start), ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC
        ):
            raise OSError(ctypes.get_errno(), f"kernel {name}: the system refuses memory for machine code")
        _kept.append(memory)
        self.entries = {label: start + offset for label, offset in header["entries"].items()}

    def function(self, name: str, entry: str = "", fallback: Any = None) -> Callable[..., Any]:
        """The function of an entry. `fallback` is what it is told to call for arguments that it was not compiled for."""
        method = _Method(name.encode(), self.entries[entry], _METH_FASTCALL, None)
        _kept.append(method)
        # None stands for NULL here: without a fallback the entry returns NotImplemented.
        make = _make_bare if fallback is None else _make
        return make(ctypes.addressof(method), fallback, None)


def _maker(kind: Any) -> Any:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, kind, ctypes.c_void_p)
    return prototype(("PyCFunction_NewEx", ctypes.pythonapi))


_make_bare, _make = _maker(ctypes.c_void_p), _maker(ctypes.py_object)

# Objects that the code knows by their addresses: the types of its arguments.
OBJECTS: dict[str, Any] = {
    "type.array": np.ndarray,
    "type.tuple": tuple,
    "type.int": int,
    "type.float": float,
    "type.bool": bool,
    "type.int64": np.int64,
    "type.float32": np.float32,
    "type.float64": np.float64,
}
# Arrays of whose numbers it knows the address: where objects keep what, and what is known of the workers.
TABLES = {"ferro.layout": layout.TABLE, "ferro.tape": slots.TABLE, "ferro.workers": SHARED}
_kept.append(TABLES)

# Which of Numba's libraries the functions come from that kernels call to allocate and to reshape.
_LIBRARIES = {"NRT_": "core/runtime/_nrt_python", "numba_": "_helperlib"}


@cache
def address(symbol: str) -> int:
    """Where a function or an object of the process lies that machine code refers to by name."""
    if symbol in OBJECTS:
        return id(OBJECTS[symbol])
    if symbol in TABLES:
        return TABLES[symbol].ctypes.data
    if symbol.startswith("numpy."):
        return numpy_interface()[int(symbol.removeprefix("numpy."))]
    for prefix, library in _LIBRARIES.items():
        if symbol.startswith(prefix):
            return _functions(library)[symbol.removeprefix(prefix)]
    for library in (ctypes.pythonapi, ctypes.CDLL(None), ctypes.CDLL("libm.so.6")):
        if hasattr(library, symbol):
            return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    raise LookupError(f"machine code refers to {symbol!r}, which this process does not know")


@cache
def _functions(library: str) -> dict[str, int]:
    """The addresses of the functions of one of Numba's libraries in C, which need nothing of Numba itself."""
    found = extension("numba", library)
    if found is None:
        raise LookupError(f"Numba has no library {library}")
    return found.c_helpers
