"""Notes on every recorded node where in the user's program its operation ran."""

from __future__ import annotations

from typing import Any

from ferro.autograd._location import Location, location
from ferro.autograd._observer import Observer, node_of
from ferro.core.apply import watched
from ferro.core.op import Op

_KEY = "ferro.location"


class locations(Observer):
    """Inside, every operation that is recorded notes its line and module, for `memory` and `graph` to show.

    Example::

        >>> import ferro
        >>> x = ferro.ones(2, requires_grad=True)
        >>> with ferro.debug.locations():
        ...     loss = x.exp().sum()
        >>> len(ferro.debug.memory(loss).by_line)
        1
    """

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation and notes where."""
        result = watched(op, xs, params, mode)
        node = node_of(op, result)
        if node is not None:
            note_location(node)
        return result


def note_location(node: Any) -> None:
    """Notes on a node the line of the user's program that is running now."""
    node.metadata[_KEY] = location()


def location_of(node: Any) -> Location | None:
    """Where the operation of a node ran, if that was noted."""
    meta = node.meta
    return None if meta is None or meta.metadata is None else meta.metadata.get(_KEY)
