"""The pack hook of allow_mutation_on_saved_tensors: what is saved is copied before something writes over it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ferro.core.backend import DEVICES, xp_of
from ferro.core.base import wrap


def _owner(array: Any) -> int:
    """The identity of the memory that an array lies in."""
    while isinstance(array.base, np.ndarray) or type(array.base) in DEVICES:
        array = array.base
    return id(array)


class _Kept:
    """One saved tensor; a copy once its memory has been about to change."""

    __slots__ = ("__weakref__", "book", "tensor")  # (the tensor that is kept, or its copy)

    def __init__(self, tensor: Any, book: object) -> None:
        self.tensor, self.book = tensor, book


class Keeper:
    """The pack hook: keeps tensors as they are, and is told of every array that is about to be written."""

    def __init__(self) -> None:
        self.book: object | None = object()  # of this context; another one after clear(), none after its end
        self.kept: dict[int, weakref.WeakSet] = {}  # by the memory they lie in
        self.tid_to_weakhandle: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by tensor and version
        self.cloned: weakref.WeakKeyDictionary = (
            weakref.WeakKeyDictionary()
        )  # the copies, as long as a graph needs them
        self.limit = 64

    def __call__(self, tensor: Any) -> _Kept:
        version = (id(tensor), 0 if tensor._counter is None else tensor._counter.n)
        before = self.tid_to_weakhandle.get(version)
        if before is not None and before.tensor is tensor and before.book is self.book:
            return before  # saved by several operations: one copy is enough
        kept = self.tid_to_weakhandle[version] = _Kept(tensor, self.book)
        if len(self.kept) >= self.limit:
            self.kept = {owner: found for owner, found in self.kept.items() if found}
            self.limit = 2 * len(self.kept) + 64
        self.kept.setdefault(_owner(tensor._data), weakref.WeakSet()).add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Any:
        """The saved tensor, or the copy of what it was."""
        if kept.book is not self.book:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
                "recorded: call backward() inside of the same context, and before clear()."
            )
        return kept.tensor

    def writing(self, array: Any) -> None:
        """Copies what is saved in the memory of an array that is about to change."""
        found = self.kept.get(_owner(array), ())
        for kept in tuple(found):
            data = kept.tensor._data
            if xp_of(data).may_share_memory(data, array):
                kept.tensor = self.cloned[kept] = wrap(data.copy(order="K"))
                found.discard(kept)  # type: ignore[union-attr]

    def clear(self) -> None:
        """Lets go of what was saved so far: graphs recorded before can no longer run backward."""
        self.kept.clear()
        self.cloned.clear()
        self.tid_to_weakhandle.clear()
        if self.book is not None:
            self.book = object()

    def close(self) -> None:
        """The same at the end of the context."""
        self.kept.clear()
        self.cloned.clear()
        self.tid_to_weakhandle.clear()
        self.book = None
