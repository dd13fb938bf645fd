"""NumPy's handlers: the functions in C that give arrays their memory, which a program may choose (NEP 49)."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ferro.native import pages


class Handler(ctypes.Structure):
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


# Places in the table of NumPy's C interface, the same in all versions with this number of its binary interface.
_VERSION, _FEATURES, _SET_HANDLER, _GET_HANDLER = 0, 211, 304, 305
_BINARY_INTERFACE, _WITH_HANDLERS = 0x02000000, 0x0F
_CAPSULE = b"mem_handler"


class Handlers(NamedTuple):
    """How the handler of the running context is asked for, and set (which gives the one before): as capsules."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]


@cache
def handlers() -> Handlers:
    """The functions of this process; RuntimeError (or OSError, AttributeError, ValueError) where they are not those that are known."""
    if platform.machine() != "x86_64" or sys.maxsize < 1 << 32 or sys.implementation.name != "cpython":
        raise RuntimeError("handlers are known to CPython on x86-64 alone")
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    read = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))  # (raises if the capsule has another name)
    table = ctypes.cast(read(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))  # type: ignore[attr-defined]
    number = ctypes.CFUNCTYPE(ctypes.c_uint)
    if number(table[_VERSION] or 0)() != _BINARY_INTERFACE or number(table[_FEATURES] or 0)() < _WITH_HANDLERS:
        raise RuntimeError("NumPy's binary interface is not one that is known")
    return Handlers(
        ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER] or 0),
        ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0),
    )


def opened(capsule: Any, name: str = "") -> Handler:
    """The handler (of this name, if one is given) in a capsule; RuntimeError if it does not look as NumPy's headers declare it."""
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    found = Handler.from_address(prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, _CAPSULE))
    if (
        found.name != (name or current_name()).encode()
        or found.version != 1
        or not (found.malloc and found.calloc and found.realloc and found.free)
    ):
        raise RuntimeError("the handler of NumPy's allocator does not look as its headers declare it")
    return found


def capsule_of(handler: Handler) -> Any:
    """A capsule of a copy of a handler. C reads both until the process ends, so nobody ever gives their memory back."""
    kept = pages.keep(bytes(handler) + _CAPSULE + b"\0")
    # A name that is given as a number is not copied into an object of Python's.
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return made(("PyCapsule_New", ctypes.pythonapi))(kept, kept + ctypes.sizeof(Handler), None)


def current_name() -> str:
    """What the handler of the running context is called."""
    interface: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    return interface.get_handler_name()
