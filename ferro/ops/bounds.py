"""The bounds of random integers: which a dtype holds, and how those of floating dtypes are rounded."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import TensorBase


def whole_bounds(name: str, low: Any, high: Any, d: Any) -> tuple[int, int]:
    """The bounds of random integers as numbers that the dtype holds."""
    if type(low) is not int or type(high) is not int:
        low, high = [int(v._data) if isinstance(v, TensorBase) else v for v in (low, high)]
    for argument, v in (("low", low), ("high", high)):
        if not hasattr(v, "__index__"):
            raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(v).__name__}")
    if low >= high:
        raise RuntimeError(f"{name}: random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    low, high = exact_bounds(name, int(low), int(high), d)
    held_by(name, d, low, high - 1)
    return low, high


def exact_bounds(name: str, low: int, high: int, d: Any) -> tuple[int, int]:
    """Bounds that stay within [low, high) when their numbers are rounded to a floating dtype."""
    if d not in dtypes.INEXACT or d.kind == "c":
        return low, high
    digits = digits_of(d)
    with np.errstate(over="ignore"):
        first, last = float(d.type(low + 1)), float(d.type(high - 1))
    if math.isfinite(first) and first < low:
        low = int(first) + (1 << (abs(low + 1).bit_length() - digits))
    if math.isfinite(last) and last >= high:
        high = int(last) - (1 << (abs(high - 1).bit_length() - digits))
    if low >= high:
        raise RuntimeError(
            f"{name}: random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= "
            f"to={high}"
        )
    return low, high


def digits_of(d: Any) -> int:
    """How many binary digits a floating dtype has: its integers up to 2^digits are exact."""
    return round(1 - math.log2(dtypes.finfo(dtypes.FROM_NUMPY[d]).eps))


def held_by(name: str, d: Any, low: int, most: int) -> None:
    """Refuses bounds of random integers that an integer dtype does not hold, warns of those between which a floating one skips some."""
    if d.kind in "iub":
        least, largest = _ends(d)
        for words, bound in (("from", low), ("to - 1", most)):
            if not least <= bound <= largest:
                raise RuntimeError(
                    f"{name}: {words} is out of bounds for {_C_NAMES[d.name]}: {bound} is not in [{least}, {largest}]"
                )
        return
    if d in dtypes.COMPLEX:
        raise RuntimeError(
            f"{name}: check_random_bounds handles only integral, floating-point and boolean types, not "
            f"{dtypes.FROM_NUMPY[d]}"
        )
    digits = digits_of(d)
    for words, bound in (("from", low), ("to - 1", most)):
        if abs(bound) > 2**digits:
            warnings.warn(
                f"{name}: {words} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
                f"{dtypes.C_NAMES[dtypes.FROM_NUMPY[d]]} can support discrete uniform distribution only within this range. This "
                "warning will become an error in version 1.7 release, please fix the code in advance",
                stacklevel=3,
            )


@cache
def _ends(d: Any) -> tuple[int, int]:
    """The least and the largest number of a dtype of integers or bool."""
    return (0, 1) if d.kind == "b" else (int(np.iinfo(d).min), int(np.iinfo(d).max))


_C_NAMES = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "bool": "bool",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
}
