"""Where objects keep what machine code reads: measured in this process, on objects whose content is known.

Machine code reads the fields of Python's and NumPy's objects. At which offsets they lie is the business of each version
of Python and NumPy (a tuple's items moved in CPython 3.14), so compiled code holds none of them: it looks them up in
TABLE, which is filled here when ferro is imported. `measured` looks for the one offset at which several objects keep what
Python says they hold; `wrong` asks the same of other objects. Where no offset fits, or more than one, or the versions are
not known, the process runs without machine code. Reading goes through a pipe: the system refuses an address that is not
readable, where a read by the processor would end the process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

# The versions that the suite has run on. Others run without machine code until it has run on them too.
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
NUMPYS = ((2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5))
_NUMPY_ABI = 0x2000000  # what PyArray_GetNDArrayCVersion gives for NumPy 2

FIELDS = (
    "type",  # of any object: its class
    *("tuple.size", "tuple.items"),  # how many items, and where the first one stands
    *("list.size", "list.items"),  # likewise, but here stands the address of the first item's place
    *("array.data", "array.ndim", "array.shape", "array.strides", "array.base", "array.dtype", "array.flags"),
    *("dtype.byteorder", "dtype.num"),
)
TABLE = np.zeros(len(FIELDS), np.int64)  # the offsets, in bytes from the beginning of the object


class LayoutError(Exception):
    """An object does not keep a field where it is looked for, or not in one place alone."""


# --- reading memory that may not be there ----------------------------------------------------------------------------


@contextmanager
def reader() -> Iterator[Callable[[int, int], bytes]]:
    """A function (address, size) that gives the bytes there, or none where the process may not read."""
    write = ctypes.CDLL(None).write
    write.restype, write.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    out, into = os.pipe()

    def read(address: int, size: int) -> bytes:
        if not 0 < address < 1 << 63 or write(into, address, size) < size:
            return b""
        return os.read(out, size)

    try:
        yield read
    finally:
        os.close(out)
        os.close(into)


def _number(found: bytes) -> int | None:
    return int.from_bytes(found, sys.byteorder, signed=True) if found else None


# --- what objects are known to hold ----------------------------------------------------------------------------------


def _objects(turn: int) -> dict[str, list[tuple[Any, Any]]]:
    """For every field, objects and what they keep in it: a number, or a tuple of the numbers at the address it holds.

    turn: 0 for the objects that offsets are measured with, 1 for those that they are checked with.
    """
    tuples: list[tuple] = [tuple([object() for _ in range(n)]) for n in (range(3, 9) if turn == 0 else (2, 11, 17))]
    lists = [list(items) for items in tuples]
    shapes = ((3,), (2, 5), (7, 1, 4), (2, 3, 4, 5, 6)) if turn == 0 else ((11,), (6, 2, 9))
    kinds = ("f4", "f8", "i8", "?", ">f4", "c16") if turn == 0 else ("f4", "i4", ">i2", "f8")
    arrays = [np.zeros(shape, kind)[::-1].T for shape, kind in zip(shapes, kinds, strict=False)]
    arrays[0].flags.writeable = False
    dtypes = [np.dtype(kind) for kind in kinds]
    return {
        "type": [(x, id(type(x))) for x in (object(), 1.5, tuples[0], lists[0], arrays[0], dtypes[0])],
        "tuple.size": [(x, len(x)) for x in tuples],
        "tuple.items": [(x, id(x[0])) for x in tuples],
        "list.size": [(x, len(x)) for x in lists],
        "list.items": [(x, tuple(map(id, x))) for x in lists],
        "array.data": [(a, a.ctypes.data) for a in arrays],
        "array.ndim": [(a, a.ndim) for a in arrays],
        "array.shape": [(a, a.shape) for a in arrays],
        "array.strides": [(a, a.strides) for a in arrays],
        "array.base": [(a, id(a.base)) for a in arrays],
        "array.dtype": [(a, id(a.dtype)) for a in arrays],
        "array.flags": [(a, a.flags.num) for a in arrays],
        "dtype.byteorder": [(dtype, ord(dtype.byteorder)) for dtype in dtypes],
        "dtype.num": [(dtype, dtype.num) for dtype in dtypes],
    }


_WIDTHS = {"array.ndim": 4, "array.flags": 4, "dtype.num": 4, "dtype.byteorder": 1}  # bytes; all others are words


def _holds(read: Callable[[int, int], bytes], head: bytes, value: Any) -> bool:
    """Whether a field holds a number, or the address of these numbers."""
    found = _number(head)
    if type(value) is not tuple:
        return found == value
    wanted = b"".join([number.to_bytes(8, sys.byteorder, signed=True) for number in value])
    return found is not None and read(found, len(wanted)) == wanted


def only_place(name: str, found: Iterable[int]) -> int:
    """The one offset among those that fit."""
    places = list(found)
    if len(places) != 1:
        raise LayoutError(f"{name}: {len(places)} places in memory fit what Python says, at offsets {places}")
    return places[0]


def measured() -> dict[str, int]:
    """The offset of every field."""
    found = {}
    with reader() as read:
        for name, known in _objects(0).items():
            width = _WIDTHS.get(name, 8)
            size = min(type(x).__basicsize__ for x, _ in known) + (8 if name == "tuple.items" else 0)
            heads = [(ctypes.string_at(id(x), size), value) for x, value in known]
            fits = [
                k
                for k in range(0, size - width + 1, width)
                if all(_holds(read, head[k : k + width], value) for head, value in heads)
            ]
            found[name] = only_place(name, fits)
    return found


def wrong(offsets: dict[str, int]) -> list[str]:
    """The fields that do not lie where these offsets say, asked of other objects than they were measured with."""
    with reader() as read:
        found = [
            name
            for name, known in _objects(1).items()
            if not all(_holds(read, read(id(x) + offsets[name], _WIDTHS.get(name, 8)), value) for x, value in known)
        ]
        items = tuple([object() for _ in range(5)])
        if read(id(items) + offsets["tuple.items"], 8 * len(items)) != b"".join(
            [id(item).to_bytes(8, sys.byteorder) for item in items]
        ):
            found.append("tuple.items")
    return found


# --- whether this process is one that machine code knows --------------------------------------------------------------


def refusal() -> str:
    """Why the objects of this process cannot be known to machine code; empty if they can, and then TABLE is filled."""
    if sys.version_info[:2] not in PYTHONS or sys.version_info.releaselevel != "final":
        return f"Python {sys.version.split()[0]} is not one of those it has been tested with"
    if set("td") & set(sys.abiflags) or object.__basicsize__ != 16:
        return f"this Python ({sys.abiflags or 'with other objects'}) is built without the interpreter's lock or for debugging"
    version = tuple([int(part) for part in np.__version__.split(".")[:2]])
    if version not in NUMPYS:
        return f"NumPy {np.__version__} is not one of those it has been tested with"
    try:
        abi = ctypes.CFUNCTYPE(ctypes.c_uint)(numpy_interface()[0])()
        if abi != _NUMPY_ABI:
            return f"NumPy's interface in C has version {abi:#x}, not {_NUMPY_ABI:#x}"
        offsets = measured()
        if fields := wrong(offsets):
            return f"{', '.join(fields)} of Python's objects lie elsewhere than was measured"
    except (LayoutError, OSError, AttributeError, TypeError) as e:
        return f"the layout of objects cannot be verified ({e})"
    TABLE[:] = [offsets[name] for name in FIELDS]
    return ""


@cache
def numpy_interface() -> Any:
    """The table of NumPy's functions in C, numbered as its headers number them."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = read(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined] # (what import_array() reads)
    return ctypes.cast(table, ctypes.POINTER(ctypes.c_size_t))
