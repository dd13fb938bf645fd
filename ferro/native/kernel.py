"""A kernel as its callers see it: a function of arrays and numbers that picks the machine code for its arguments.

Machine code has two entries, one for a call like that of the function it was written as, and "rows" for one in chunks of rows that
the workers share: then six numbers stand in front of the arguments, see jit_work_queue.py. Each is a Kernel of its own.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.native import disk_cache, loader

_lock = threading.RLock()


class Kernel:
    """Called like the function it stands for; with arguments that have no machine code yet, it asks `make` for it.

    "name.rows" is the entry "rows" of the kernel of that name. Signatures and tags are of the arguments that both take.
    """

    __slots__ = ("compiler", "entry", "file", "make", "name", "runs", "sources", "tags")

    def __init__(self, name: str, sources: tuple[str, ...], compiler: Callable[..., Any], make: Callable[..., None]):
        self.name, self.sources = name, sources
        self.file, _, self.entry = name.partition(".")  # by which machine code is kept, and the entry in it
        self.compiler = (
            compiler  # gives what Numba knows the kernel as (True: its parallel version); this imports Numba
        )
        self.make = make  # called with the kernel and a signature; afterwards the machine code is there
        self.runs: tuple[Callable[..., Any], ...] = ()
        self.tags: set[str] = set()  # the machine code that has been loaded

    def __call__(self, *args: Any) -> Any:
        for run in self.runs:
            result = run(*args)
            if result is not NotImplemented:
                return result
        signature = self.signature(args)
        if signature:  # its machine code has to be found first
            if not self.load(tag_of(signature)):
                self.make(self, signature)
            for run in self.runs:
                result = run(*args)
                if result is not NotImplemented:
                    return result
        return self.compiler(bool(self.entry))(*args)

    def signature(self, args: tuple[Any, ...]) -> str:
        """What machine code for a call is kept by; empty for arguments that none is kept for."""
        return describe(args[loader.LEADING :] if self.entry else args)

    def load(self, tag: str) -> bool:
        """Load machine code from disk, unless that was done. Whether it was there."""
        if tag not in self.tags:
            packed = disk_cache.read(self.file, tag, self.sources)
            if packed is None:
                return False
            try:
                self.add(tag, packed)
            except (ValueError, OSError):  # it is damaged, or the system refuses memory
                return False
        return True

    def load_all(self, start: str) -> bool:
        """Load what machine code there was at the start whose tags begin so ("f4-"). Whether there was any."""
        for tag in disk_cache.tags(self.file, self.sources):
            if tag.startswith(start):
                self.load(tag)
        return any(tag.startswith(start) for tag in self.tags)

    def add(self, tag: str, packed: bytes) -> None:
        """Take machine code into use. What this process cannot run by itself is left to Numba."""
        with _lock:
            if tag not in self.tags:
                try:
                    if not packed:
                        raise LookupError("only Numba can run it")
                    self.runs = (loader.Code(self.name, packed).function(self.name, self.entry), *self.runs)
                except LookupError:
                    self.runs = (*self.runs, self.compiler(bool(self.entry)))
                self.tags.add(tag)

    def compile(self, signature: str) -> bool:
        """Make machine code in this process, take it into use, and keep it on disk where possible. Whether it was."""
        tag = tag_of(signature)
        with _lock:  # the compiler serves one thread at a time, and so does its import
            from ferro.native import jit_export

            if tag in self.tags:
                return True
            packed = jit_export.export(self.compiler, signature)
            kept = disk_cache.write(self.file, tag, self.sources, packed)
            try:
                self.add(tag, packed)
            except OSError:  # the system refuses memory to ferro: Numba has some already
                self.add(tag, b"")
            return kept


def describe(args: tuple[Any, ...]) -> str:
    """The signature of a call, such as "f4[2] i8 (i8 i8) b1"; empty for arguments that no machine code is kept for."""
    words = [_describe(arg) for arg in args]
    return " ".join(words) if all(words) else ""


def _describe(arg: Any) -> str:
    if type(arg) is np.ndarray:
        kept = arg.flags.c_contiguous and arg.flags.aligned and arg.dtype.isnative and arg.dtype.kind in "biuf"
        return f"{arg.dtype.str[1:]}[{arg.ndim}]" if kept else ""
    if type(arg) is tuple:
        inside = describe(arg)
        return f"({inside})" if inside else ""
    return _WORDS.get(type(arg), "")


_WORDS = {bool: "b1", int: "i8", np.int64: "i8", float: "f8", np.float64: "f8", np.float32: "f4"}


def tag_of(signature: str) -> str:
    """A short name of a signature, for names of files. It begins with the dtype of the first array of floats."""
    floats = [word[:2] for word in signature.replace("(", " ").split() if word[0] == "f" and "[" in word]
    return f"{floats[0] if floats else 'any'}-{hashlib.blake2b(signature.encode(), digest_size=4).hexdigest()}"


def _after_fork() -> None:
    """In a forked child nobody holds the lock."""
    global _lock  # noqa: PLW0603 (of the process)
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
