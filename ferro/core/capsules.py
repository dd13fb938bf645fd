"""DLPack capsules: NumPy's, and bfloat16, which NumPy's do not know.

A capsule of bfloat16 is one of uint16 in which the code of the dtype is another.  The places of the code follow from the
C structures of DLPack (dlpack.h of the DMLC consortium, version 1): in DLManagedTensor the DLTensor is first, in
DLManagedTensorVersioned it follows the version, the context, the deleter and the flags.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ferro.core import dtypes

UINT, BFLOAT = 1, 4  # kDLUInt, kDLBfloat
NAMES = {b"dltensor": 0, b"dltensor_versioned": 32}  # of capsules that nobody has used, and where the DLTensor begins
KIND = 8  # of the device, behind the data
CODE = KIND + 4 + 4 + 4  # of the dtype, behind device and number of dimensions


def export(data: np.ndarray, **kwargs: Any) -> Any:
    """A capsule of an array, by the keywords of ``__dlpack__``; BufferError for dtypes without a name in DLPack."""
    if data.dtype != dtypes.bfloat16.np:
        return data.__dlpack__(**kwargs)
    capsule = data.view(np.uint16).__dlpack__(**kwargs)
    _code(capsule).value = BFLOAT
    return capsule


def taken(source: Any, copy: bool | None) -> np.ndarray:
    """The array in a capsule, or of an object with ``__dlpack__``."""
    capsule = source
    if name(source) is None:
        wanted: dict[str, Any] = {} if copy is None else {"copy": copy}
        try:
            capsule = source.__dlpack__(max_version=(1, 0), **wanted)
        except TypeError:  # an object from before version 1 takes no such keyword
            return np.from_dlpack(source, **wanted)
    was_bfloat = name(capsule) in NAMES and _code(capsule).value == BFLOAT
    if was_bfloat:
        _code(capsule).value = UINT
    unversioned = name(capsule) == b"dltensor"
    found = np.from_dlpack(_Holder(capsule, source))
    if unversioned:  # does not say whether it may be written, and NumPy takes it for a no
        found = np.asarray(_Writable(found))
    return found.view(dtypes.bfloat16.np) if was_bfloat else found


def name(obj: Any) -> bytes | None:
    """The name of a capsule, which says whether it has been used; None for what is no capsule."""
    if type(obj).__name__ != "PyCapsule":
        return None
    read = ctypes.pythonapi.PyCapsule_GetName
    read.restype, read.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return read(obj) or b""


def kind_of(capsule: Any) -> ctypes.c_int32:
    """The kind of the device in a capsule that nobody has used."""
    return ctypes.c_int32.from_address(_start(capsule) + KIND)


def _code(capsule: Any) -> ctypes.c_uint8:
    """The code of the dtype in a capsule."""
    return ctypes.c_uint8.from_address(_start(capsule) + CODE)


def _start(capsule: Any) -> int:
    """Where the DLTensor of a capsule begins."""
    label = name(capsule)
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return read(capsule, label) + NAMES[label or b""]


class _Holder:
    """A capsule as an object that hands it over, which is what NumPy reads."""

    def __init__(self, capsule: Any, source: Any) -> None:
        self.capsule, self.source = capsule, source

    def __dlpack__(self, **ignored: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.source.__dlpack_device__() if hasattr(self.source, "__dlpack_device__") else (1, 0)


class _Writable:
    """The memory of an array, which may be written."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}
