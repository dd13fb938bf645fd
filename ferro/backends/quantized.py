"""Engines of quantised layers: ferro has none."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    engine: str
    supported_engines: list[str]

_ENGINES = ("none", "", "fbgemm", "qnnpack", "onednn", "x86")


class _Quantized(types.ModuleType):
    @property
    def engine(self) -> str:
        """The engine in use: "none"."""
        return "none"

    @engine.setter
    def engine(self, value: str) -> None:
        if value not in _ENGINES:
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        if value not in ("none", ""):
            raise RuntimeError(f"quantized engine {value} is not supported: ferro has no quantised layers")

    @property
    def supported_engines(self) -> list[str]:
        """All that can be set: "none"."""
        return ["none"]

    @supported_engines.setter
    def supported_engines(self, value: object) -> None:
        raise RuntimeError("Assignment not supported")


sys.modules[__name__].__class__ = _Quantized
