"""Deterministic algorithms: the switches of PyTorch, and what memory without set values is filled with.

All of ferro's algorithms are deterministic, for any number of threads: the switch refuses nothing, as nothing need be refused.
It does fill memory that holds no set values, so that a program that reads it by mistake shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class _Switches:
    """What is switched on in this process."""

    __slots__ = ("fill", "level", "warn_only")

    def __init__(self) -> None:
        self.level, self.fill, self.warn_only = 0, True, False


SWITCHES = _Switches()
_LEVELS = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for deterministic algorithms, which ferro's are anyway; memory without set values is then filled (see
    ``ferro.utils.deterministic.fill_uninitialized_memory``).

    Example::

        >>> import ferro
        >>> ferro.use_deterministic_algorithms(True)
        >>> ferro.empty(2)
        tensor([nan, nan])
        >>> ferro.use_deterministic_algorithms(False)
    """
    for name, given in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(given, bool):
            raise TypeError(
                f"use_deterministic_algorithms: _set_deterministic_algorithms(): argument {name} must be bool, not "
                f"{type(given).__name__}"
            )
    SWITCHES.level, SWITCHES.warn_only = 0 if not mode else 1 if warn_only else 2, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms are asked for."""
    return SWITCHES.level > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they are asked for with warnings only."""
    return SWITCHES.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch by a number or a name: 0 or "default", 1 or "warn", 2 or "error"."""
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _LEVELS:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _LEVELS.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    SWITCHES.level, SWITCHES.warn_only = debug_mode, debug_mode == 1


def get_deterministic_debug_mode() -> int:
    """0, 1 (warnings only) or 2."""
    return SWITCHES.level


def unset(dtype: Any) -> Any:
    """What elements of a NumPy dtype hold that were given no values: 0, or in deterministic mode nan or the largest number."""
    if not SWITCHES.level or not SWITCHES.fill:
        return 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else float("nan") if dtype.kind != "c" else complex(float("nan"), float("nan"))


def unset_array(shape: Any, dtype: Any) -> Any:
    """A new array whose elements were given no values."""
    value = unset(dtype)
    return np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
