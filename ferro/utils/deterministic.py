"""``fill_uninitialized_memory``: whether `empty` and `resize_` fill their memory while deterministic algorithms are asked for."""

from __future__ import annotations

import sys
from types import ModuleType

from ferro.core.determinism import SWITCHES


class _Module(ModuleType):
    """The module, whose attribute is a switch."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether memory without set values is filled with nan, or the largest number, in deterministic mode (True at first)."""
        return SWITCHES.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"fill_uninitialized_memory must be a bool, got {type(mode).__name__}")
        SWITCHES.fill = mode


sys.modules[__name__].__class__ = _Module
