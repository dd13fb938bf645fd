"""Where in the user's program the operation of a node ran, and notes of it on every node."""

from __future__ import annotations

from typing import Any

from ferro.autograd._location import Location, located, location
from ferro.autograd._observer import Observer, node_of
from ferro.core.apply import watched
from ferro.core.node import node_meta, table
from ferro.core.op import Op

_KEY = "ferro.location"


class locations(Observer):
    """Inside, every operation that is recorded notes its line and module, for `memory` and `graph` to show.

    The lines of operations that save values are known without it; it adds the module, and the others.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.Linear(2, 2)
        >>> with ferro.debug.locations():
        ...     loss = layer(ferro.ones(1, 2)).exp().sum()
        >>> list(ferro.debug.memory(loss).by_module)
        ['Linear']
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
    table(node_meta(node), "metadata")[_KEY] = location()


def location_of(node: Any) -> Location | None:
    """Where the operation of a node ran, if that is known."""
    meta = node.meta
    noted = None if meta is None or meta.metadata is None else meta.metadata.get(_KEY)
    return noted if noted is not None or node.location is None else located(node.location)
