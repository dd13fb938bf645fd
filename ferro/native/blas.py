"""The threads of the BLAS libraries of NumPy and SciPy: how many they use, and stretches in which they use one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ferro.native import locks


def _find_blas(package: Any, extension: Any) -> tuple[Callable[[], int], Callable[[int], None], str] | None:
    """The functions (get, set) for the number of threads of a package's OpenBLAS, and what processor it computes for.

    None for any other BLAS.
    """
    paths = [extension.__file__] if extension is not None else []  # looking up a name searches its libraries too
    if os.name == "nt":  # but not on Windows
        libraries = Path(package.__file__).parent.parent / f"{package.__name__}.libs"
        paths += [str(path) for path in libraries.glob("*openblas*.dll")]
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            get = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            put = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                get.argtypes, get.restype = [], ctypes.c_int
                put.argtypes, put.restype = [ctypes.c_int], None
                name = getattr(library, f"{prefix}openblas_get_corename{suffix}", None)
                if name is not None:
                    name.argtypes, name.restype = [], ctypes.c_char_p
                return get, put, (name() or b"").decode() if name is not None else ""
    return None


# OpenBLAS's names of processors with AVX-512 for which it has kernels for small products.
_SMALL_PRODUCTS = frozenset(("skylakex", "cooperlake", "sapphirerapids"))


class _Blas:
    """Counted guard over the process-wide number of BLAS threads."""

    __slots__ = ("_functions", "_lock", "_saved", "_users")

    def __init__(self, package: Any, extension: Any) -> None:
        self._functions = _find_blas(package, extension)
        self._lock = locks.new()
        self._users = 0
        self._saved = 1

    def __enter__(self) -> None:
        if self._functions is None:
            return
        entered = False
        try:
            with self._lock:
                self._users += 1
                entered = True
                if self._users == 1:
                    get, put, _ = self._functions
                    self._saved = get()
                    if self._saved != 1:
                        put(1)
        except BaseException:  # an interrupt: whoever enters next must not be taken for the second
            if entered:
                self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        if self._functions is None:
            return
        with self._lock:
            saved = self._saved  # (a signal handler that comes after the next line saves what it finds, which is 1)
            self._users -= 1
            if self._users == 0 and saved != 1:
                self._functions[1](saved)

    def set_limit(self, n: int) -> None:
        """Give BLAS `n` threads, from the end of the guarded stretch on if one is going on."""
        if self._functions is None:
            return
        with self._lock:
            self._saved = n
            if self._users == 0:
                self._functions[1](n)

    def has_small_products(self) -> bool:
        """Whether there are kernels for products of few multiplications, which lie as they are and use one thread.

        (OpenBLAS 0.3, kernel/x86_64/sgemm_small_kernel_permit_skylakex.c: up to a million, where the second of two
        matrices of C's order is not transposed.)
        """
        return self._functions is not None and self._functions[2].lower() in _SMALL_PRODUCTS

    def after_fork(self) -> None:
        """Forget the users that were left behind in the parent process."""
        if self._users:
            self._users = 0
            self.set_limit(self._saved)


_blas = _Blas(np, getattr(getattr(np, "_core", None), "_multiarray_umath", None))


def blas_single() -> _Blas:
    """Context manager: while anyone is inside, every call of NumPy's BLAS runs on one thread."""
    return _blas


@lru_cache(maxsize=1)
def scipy_blas_single() -> _Blas:
    """The same for SciPy's BLAS, which is a library of its own."""
    import scipy.linalg

    guard = _Blas(scipy, getattr(scipy.linalg, "_fblas", None))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=guard.after_fork)
    return guard


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas.after_fork)
