"""LAPACK in the dtype of the array: NumPy's for stacks and small matrices, SciPy's, loaded when first needed, for large ones.

Note [NumPy's LAPACK without its wrappers]
    The functions of numpy.linalg compute float32 in float64, and spend 4 us on each call. The gufuncs beneath them do
    neither. These are no public interface, so where one is missing the public function serves. A matrix that LAPACK
    refuses becomes nan, which is what callers look for; a warning that comes with it is filtered, see `ferro.cpu`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from math import isnan
from typing import Any

import numpy as np

from ferro.cpu.kernels.strided_copy import address

SMALL = 32  # order up to which LAPACK uses one thread anyway, and to load SciPy would not pay


@cache
def gufunc_of(*names: str) -> Callable[..., Any] | None:
    """What numpy.linalg is built on, a function of stacks that takes `signature=`, such as "ff->f".

    `names` are its names in NumPy's versions; None where there is no such function.
    """
    try:
        from numpy.linalg import _umath_linalg
    except ImportError:
        return None
    found = [getattr(_umath_linalg, name) for name in names if hasattr(_umath_linalg, name)]
    return found[0] if found and isinstance(found[0], np.ufunc) else None


def native(name: str, signature: str, public: Callable[..., Any], *arrays: Any) -> Any:
    """The gufunc of that name, or the public function of numpy.linalg. nan for what LAPACK refuses, or LinAlgError."""
    function = gufunc_of(name)
    if function is None:
        return public(*arrays)
    return function(*arrays, signature=signature)


def refused(x: Any) -> bool:
    """Whether one of these numbers, of which each matrix of a stack gives one, is nan."""
    return isnan(x) if x.dtype.char in "fd" and not x.ndim else bool(np.isnan(x).any())


@lru_cache(maxsize=64)
def routine(library: str, name: str, char: str) -> Any:
    """A routine of SciPy's BLAS or LAPACK for the dtype of the given character."""
    from scipy.linalg import blas, lapack

    return getattr(blas if library == "blas" else lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[char] + name)


@cache
def _address(name: str) -> Callable[..., None] | None:
    """A routine of SciPy's LAPACK as C calls it, from what SciPy gives to Cython; None where there is no such thing.

    Its type, which SciPy says in words, is to have numbers, characters and integers of 32 bits alone.
    """
    capsule = getattr(import_module("scipy.linalg.cython_lapack"), "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    interface, kept = ctypes.pythonapi, ctypes.py_object(capsule)
    interface.PyCapsule_GetName.restype, interface.PyCapsule_GetPointer.restype = ctypes.c_char_p, ctypes.c_void_p
    declared = interface.PyCapsule_GetName(kept)
    if not re.fullmatch(rf"void \(((char|int|\w+cython_lapack_{name[0]}) \*(, |\)))+", declared.decode()):
        return None
    return ctypes.CFUNCTYPE(None)(interface.PyCapsule_GetPointer(kept, ctypes.c_char_p(declared)))


def has(*names: str) -> bool:
    """Whether `run` finds these routines, "s" or "d" before the rest of the name."""
    return all(_address(letter + name) is not None for name in names for letter in "sd")


def run(name: str, char: str, *args: Any) -> int:
    """Call a real routine that SciPy gives to Cython alone, with all of its arguments but `info`, which is returned.

    Arrays lie as LAPACK reads them. The caller sees to it that there is one thread.
    """
    info, given = ctypes.c_int(0), []
    for arg in args:
        if isinstance(arg, np.ndarray):
            given.append(ctypes.c_void_p(address(arg)))
        else:
            given.append(ctypes.byref(ctypes.c_char(arg.encode()) if isinstance(arg, str) else ctypes.c_int(arg)))
    function: Any = _address({"f": "s", "d": "d"}[char] + name)
    function(*given, ctypes.byref(info))
    return info.value
