"""Arithmetic of sizes under the names that PyTorch has for symbols, and what a build of PyTorch for the CPU says of itself.

Sizes are numbers here, so that these are Python's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

__all__ = [
    "AcceleratorError",
    "OutOfMemoryError",
    "SymBool",
    "SymFloat",
    "SymInt",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "has_spectral",
    "is_vulkan_available",
    "set_flush_denormal",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]

has_lapack = has_spectral = True  # (SciPy's and NumPy's)
has_mkl = has_openmp = False


class _Symbol:
    """A class of PyTorch's symbols, for `isinstance`: TypeError when one is made."""

    def __init__(self, *args: Any) -> None:
        raise TypeError(
            f"torch.{type(self).__name__}: sizes are numbers in ferro, never symbols: Python's int, float and bool"
        )


class SymInt(_Symbol):
    """A size that a compiler does not know yet: no size is one."""


class SymFloat(_Symbol):
    """A number that a compiler does not know yet: no number is one."""


class SymBool(_Symbol):
    """A truth value that a compiler does not know yet: no truth value is one."""


class OutOfMemoryError(RuntimeError):
    """The memory of a GPU is full: never raised here, but programs catch it."""


class AcceleratorError(RuntimeError):
    """A GPU has failed: never raised here, but programs catch it."""


def is_vulkan_available() -> bool:
    """Whether there is a device of Vulkan's: no."""
    return False


def set_flush_denormal(mode: bool, /) -> bool:
    """Whether denormal numbers are rounded to zero from now on: False, this is not supported, and nothing has changed.

    >>> import ferro
    >>> ferro.set_flush_denormal(True)
    False
    """
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def sym_int(a: Any, /) -> int:
    """int(a).

    >>> import ferro
    >>> ferro.sym_int(2.7), ferro.sym_max(2, 3.0), ferro.sym_not(True)
    (2, 3.0, False)
    """
    return math.ceil(a) if a < 0 else math.floor(a)


def sym_float(a: Any, /) -> float:
    """float(a)."""
    return float(a)


def sym_not(a: Any, /) -> bool:
    """not a."""
    return not a


def sym_sqrt(a: Any, /) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_max(a: Any, b: Any, /) -> Any:
    """The larger of two numbers; a float if one of them is."""
    return _float_if_one_is(a, b, max(a, b))


def sym_min(a: Any, b: Any, /) -> Any:
    """The smaller of two numbers; a float if one of them is."""
    return _float_if_one_is(a, b, min(a, b))


def _float_if_one_is(a: Any, b: Any, found: Any) -> Any:
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_sum(args: Iterable[Any], /) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any, /) -> Any:
    """`t` if `b` holds, else `f`."""
    return t if b else f
