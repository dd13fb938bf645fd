"""Which tensors exist: what a capture has to look at, since it cannot know what a function will reach."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ferro.core.base import TensorBase
from ferro.core.node import Node
from ferro.core.operands import is_constant
from ferro.graph.array import Traced
from ferro.graph.there import is_real


class _Living:
    """What gc lists, and what gc.freeze() hides from that list.

    To look at what is hidden it is unfrozen and frozen again, with all else that there is. What becomes garbage after that is
    never collected, so it is done once for each freeze() of the program: then the mark, made behind the last one, is hidden too.
    """

    def __init__(self) -> None:
        self.mark: Any = None
        self.hidden: list[weakref.ref] = []

    def tensors(self) -> list[Any]:
        """All tensors of NumPy's arrays that exist and may change: not those that stand for Python's numbers."""
        kinds = dense()  # (isinstance would ask each object, which may be a stand-in that warns)
        found = [t for t in gc.get_objects() if type(t) in kinds or t is self.mark]
        if self.mark is None or not any(t is self.mark for t in found):
            if gc.get_freeze_count():
                gc.unfreeze()
                found = [t for t in gc.get_objects() if type(t) in kinds]
                gc.freeze()
                self.hidden = list(map(weakref.ref, found))
            self.mark = _Mark()
        found += [t for ref in self.hidden if (t := ref()) is not None]
        return [t for t in found if is_real(getattr(t, "_data", None)) and not is_constant(t)]

    def all(self) -> list[Any]:
        """The same, and those that are traced."""
        kinds = dense()
        found = [t for t in gc.get_objects() if type(t) in kinds]
        return [*found, *[t for ref in self.hidden if (t := ref()) is not None]]


class _Mark:
    """An object that gc lists."""


_LIVING = _Living()


def tensors() -> list[Any]:
    """All tensors of NumPy's arrays that exist and may change: not those that stand for Python's numbers."""
    return _LIVING.tensors()


def memory() -> dict[int, Any]:
    """What owns the memory of the tensors that exist, by identity: not of those that stand for Python's numbers."""
    arrays = [getattr(t, "_data", None) for t in _LIVING.all() if not is_constant(t)]
    roots = [root(a.near if isinstance(a, Traced) else a) for a in arrays]
    return {id(r): r for r in roots if r is not None}


def root(array: Any) -> Any:
    """What owns the memory of an array."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def untrace(recorder: Any) -> None:
    """Gives the tensors and the nodes of the tape that came up during a capture their real arrays."""
    tensors, nodes = dense(), classes(Node)
    found = [t for t in gc.get_objects() if type(t) in tensors or type(t) in nodes]
    for t in found:
        if type(t) in nodes:
            t.saved = _real(getattr(t, "saved", None), recorder)
        elif isinstance(data := getattr(t, "_data", None), Traced) and data.recorder is recorder:
            t._data = data.near


def _real(saved: Any, recorder: Any) -> Any:
    """Saved values with real arrays in the place of those that a recorder traced; the very same if there are none."""
    if isinstance(saved, Traced):
        return saved.near if saved.recorder is recorder else saved
    if type(saved) is tuple or type(saved) is list:
        found = [_real(s, recorder) for s in saved]
        return saved if all(x is y for x, y in zip(found, saved, strict=True)) else type(saved)(found)
    return saved


def dense() -> set[type]:
    """The classes of tensors with an array of their own: a sparse tensor has two dense ones."""
    return {kind for kind in classes(TensorBase) if not isinstance(getattr(kind, "_data", None), property)}


def classes(base: type) -> set[type]:
    """A class and all that come from it."""
    return {base}.union(*[classes(c) for c in base.__subclasses__()])
