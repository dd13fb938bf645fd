"""Geometry: which part of which memory a view shows; found by making the view once more of an array that nobody reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ferro.graph.executor import arrays_in
from ferro.graph.functions import resolved
from ferro.graph.ir import Node, Value, in_memory, replaced
from ferro.graph.passes.memory import may_share


class Place(NamedTuple):
    """A part of the memory of `root`: its first byte, sizes, strides in bytes, and dtype."""

    root: Value
    offset: int
    shape: tuple
    strides: tuple
    dtype: Any


class Geometry:
    """The places of values. What is no view for certain (a copy, or what depends on the data) is a root."""

    def __init__(self) -> None:
        self._arrays: dict[Value, tuple[Value, Any]] = {}

    def array(self, value: Value) -> tuple[Value, Any]:
        """The root of a value, and an array like the value in an array like the root, whose numbers mean nothing."""
        if value not in self._arrays:
            self._arrays[value] = value, unread(value)
        return self._arrays[value]

    def place(self, value: Value) -> Place:
        """Where a value lies."""
        root, array = self.array(value)
        start = array.ctypes.data - self.array(root)[1].ctypes.data
        return Place(root, start, array.shape, array.strides, array.dtype)

    def note(self, node: Node) -> bool:
        """Finds out where the results of a node lie; False if they are no views of its first operand for certain."""
        found = self.views(node, node.operands[0]) if may_share(node) and len(node.operands) == 1 else None
        if found is None:
            return False
        self._arrays.update(zip(node.outputs, found, strict=True))
        return True

    def views(self, node: Node, operand: Value) -> list[tuple[Value, Any]] | None:
        """What a node of one operand gives of this one, as `array` does; None if these are no views like its results."""
        root, array = self.array(operand)
        args, kwargs = replaced((node.args, node.kwargs), lambda _: array)
        try:
            made = list(arrays_in(resolved(node.function)(*args, **kwargs)))
        except (TypeError, ValueError, IndexError, RuntimeError):
            return None
        whole = self.array(root)[1]
        if len(made) != len(node.outputs) or not all(_within(a, whole) for a in made):
            return None
        if any((a.shape, a.dtype) != (v.shape, v.dtype) for a, v in zip(made, node.outputs, strict=True)):
            return None
        return [(root, a) for a in made]


def _within(array: Any, whole: Any) -> bool:
    return bool(array.size) and np.may_share_memory(array, whole)


def unread(value: Value) -> Any:
    """An array like a value, in memory of its own that is not touched."""
    return in_memory(value.shape, value.strides, value.dtype)
