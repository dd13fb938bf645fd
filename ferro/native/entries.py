"""Entries: machine code that stands before functions of Python and answers for most of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import BuiltinFunctionType
from typing import Any

from ferro.native import disk_cache, readiness
from ferro.native.loader import SUPPORTED, Code


class EntryFile:
    """Entries that are kept together in one file of machine code."""

    def __init__(self, tag: str, sources: tuple[str, ...], functions: Callable[[], dict[str, Any]]):
        self.tag, self.sources = tag, sources  # the modules that they are made from
        self.functions = functions  # gives what is compiled, by name; this imports Numba

    @cached_property
    def code(self) -> Code | None:
        """The entries, if they are on disk when they are first asked for. Where kernels are waited for, they are made."""
        if not SUPPORTED or readiness.MODE == "off":
            return None
        packed = disk_cache.read(NAME, self.tag, self.sources)
        if packed is None:
            if readiness.MODE != "wait":
                return None
            packed = self.make()
        try:
            return Code(NAME, packed)
        except (LookupError, OSError, ValueError):  # see Kernel.add and Kernel.load
            return None

    def make(self) -> bytes:
        """Compile the entries, and keep them on disk."""
        from ferro.native import jit_entries

        packed = jit_entries.export(self.functions())
        disk_cache.write(NAME, self.tag, self.sources, packed)
        return packed

    def make_missing(self) -> None:
        """The same, where they are not on disk."""
        if SUPPORTED and disk_cache.read(NAME, self.tag, self.sources) is None:
            self.make()


NAME = "entries"  # one that no kernel has


def fallback(function: Any) -> Any:
    """The fallback of its entries, a function of Python."""
    while isinstance(function, BuiltinFunctionType) and callable(function.__self__):
        function = function.__self__
    return function
