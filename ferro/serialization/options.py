"""What `load` assumes where a file or a call says nothing: the order of bytes, and how a file is mapped."""

from __future__ import annotations

import mmap
from enum import Enum
from typing import Any


class LoadEndianness(Enum):
    """The order of bytes that `load` assumes of a file without a record of it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_SET: dict[str, Any] = {"endianness": None, "mmap": getattr(mmap, "MAP_PRIVATE", 2)}


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes of files that do not say theirs; None is little-endian."""
    return _SET["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes of files that do not say theirs. TypeError for anything but a LoadEndianness or None."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            "Invalid argument type in function set_default_load_endianness: expected a LoadEndianness or None, got "
            f"{type(endianness).__name__}"
        )
    _SET["endianness"] = endianness


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps a file: mmap.MAP_PRIVATE or mmap.MAP_SHARED."""
    return _SET["mmap"]


def is_shared() -> bool:
    """Whether what is written to a mapped file reaches it."""
    return _SET["mmap"] == getattr(mmap, "MAP_SHARED", None)


class set_default_mmap_options:
    """Set how `load(mmap=True)` maps a file; as a context, for its block.

    MAP_PRIVATE: what is written to the tensors stays in memory. MAP_SHARED: it reaches the file, which must be writable,
    and whose checksums are then wrong: it can be loaded mapped only.
    ValueError for other flags, RuntimeError on Windows.

    Example::

        >>> import ferro, mmap
        >>> with ferro.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     ferro.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if not hasattr(mmap, "MAP_PRIVATE"):
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self._before = _SET["mmap"]
        _SET["mmap"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _SET["mmap"] = self._before
