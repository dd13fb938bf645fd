"""Ready-made packs for saved-tensor hooks: what is saved for backward goes to disk, or to bfloat16."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from ferro.autograd.graph import saved_tensors_hooks
from ferro.core.base import LEAF, version_of, wrap
from ferro.core.dtypes import bfloat16

__all__ = ["save_in_bfloat16", "save_on_disk"]


class _Leaf:
    """A leaf that requires grad (a parameter) is kept as it is: it stays in memory in any case."""

    def __init__(self, t: Any) -> None:
        self.tensor, self.version = t, version_of(t)
        self.expected = self.version.n

    def unpacked(self) -> Any:
        """The leaf, if nobody has changed it."""
        if self.version.n != self.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a leaf of shape "
                f"{list(self.tensor.shape)} that was saved for backward is at version {self.version.n}; expected version "
                f"{self.expected} instead. The last change was made by '{self.version.culprit}'."
            )
        return self.tensor


class _File:
    """A saved tensor in a file, which goes when the graph does."""

    def __init__(self, t: Any, directory: str | None) -> None:
        import tempfile

        data = np.ascontiguousarray(t._data)
        self.shape, self.dtype = data.shape, data.dtype
        number, self.path = tempfile.mkstemp(suffix=".saved", prefix="ferro-", dir=directory)
        with os.fdopen(number, "wb") as file:
            data.reshape(-1).view(np.uint8).tofile(file)
        self._remove = weakref.finalize(self, Path(self.path).unlink, missing_ok=True)

    def unpacked(self) -> Any:
        """The tensor, its pages read from the file as they are touched (changes would stay private)."""
        pages = np.memmap(self.path, np.uint8, "c")
        return wrap(np.asarray(pages).view(self.dtype).reshape(self.shape))


class _Rounded:
    """A saved tensor as bfloat16."""

    def __init__(self, t: Any) -> None:
        self.dtype = t._data.dtype
        with np.errstate(all="ignore"):
            self.data = t._data.astype(bfloat16.np)

    def unpacked(self) -> Any:
        """The tensor in its own dtype, with the 8 bits of precision it has left."""
        return wrap(self.data.astype(self.dtype))


def _unpack(packed: Any) -> Any:
    return packed.unpacked() if isinstance(packed, (_Leaf, _File, _Rounded)) else packed


def _is_parameter(t: Any) -> bool:
    return t._node is LEAF


class save_on_disk(saved_tensors_hooks):
    """Inside, what is saved for backward is written to temporary files and memory-mapped when backward asks for it.

    directory: where (None: the system's place for temporary files); min_bytes: smaller tensors stay in memory.  A file is
    removed when its part of the graph is freed, at the latest when the program ends.

    Example::

        >>> import ferro
        >>> from ferro.utils.offload import save_on_disk
        >>> x = ferro.ones(3, requires_grad=True)
        >>> with save_on_disk(min_bytes=0):
        ...     y = (x * 2).exp().sum()
        >>> y.backward()
        >>> x.grad
        tensor([14.7781, 14.7781, 14.7781])
    """

    def __init__(self, directory: str | os.PathLike | None = None, min_bytes: int = 4096) -> None:
        where = None if directory is None else os.fspath(directory)

        def pack(t: Any) -> Any:
            if _is_parameter(t):
                return _Leaf(t)
            return wrap(t._data) if t._data.nbytes < max(min_bytes, 1) else _File(t, where)

        super().__init__(pack, _unpack)


class save_in_bfloat16(saved_tensors_hooks):
    """Inside, the float32 and float64 tensors saved for backward are kept as bfloat16: gradients are as exact as that.

    min_bytes: smaller tensors keep their precision, as do parameters and all other dtypes.
    """

    def __init__(self, min_bytes: int = 0) -> None:
        def pack(t: Any) -> Any:
            if _is_parameter(t):
                return _Leaf(t)
            wide = t._data.dtype in (np.float32, np.float64)
            return _Rounded(t) if wide and t._data.nbytes >= min_bytes else wrap(t._data)

        super().__init__(pack, _unpack)
