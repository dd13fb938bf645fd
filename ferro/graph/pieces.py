"""Gradients of views that show disjoint parts of one array share one buffer: each is written where it belongs, nothing is added.

Only where none of the views overlap, one behind the other among the contributions, so that every element gets what eager's sum gives
it (the sign of a zero may be another one: here no zeros are added). Equal views are added as views, if no contribution stands before
them, to which eager adds one after the other. Zeros are filled in only where the views leave gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.graph.array import called
from ferro.graph.functions import pieces
from ferro.graph.ir import Value
from ferro.graph.there import total

MOST = (
    1 << 26
)  # elements of an array of which it is noted which ones views show; parts of larger ones are placed and added
_PLACES = frozenset(("xp.slice_place", "gradient.slice.x", "gradient.select.x", "gradient.narrow.x"))


class _Buffer:
    """Contributions that are parts of one array."""

    def __init__(self, contribution: Any, begins: bool) -> None:
        self.first, self.begins, self.count = contribution, begins, 0
        self.keys: list[tuple] = []
        self.parts: list[Any] = []
        self.taken = np.zeros(contribution.shape, bool)

    def takes(self, key: tuple, g: Any) -> bool:
        """Takes one more part, unless it overlaps with another one."""
        if self.begins and key in self.keys:
            i = self.keys.index(key)
            self.parts[i] = called("array.total", total, self.parts[i], g)
        else:
            shown = self.taken[key]
            if shown.any():
                return False
            shown[...] = True
            self.keys.append(key)
            self.parts.append(g)
        self.count += 1
        return True

    def array(self) -> Any:
        """The array of all parts."""
        if self.count == 1:
            return self.first
        gaps = not self.taken.all()
        return called("array.pieces", pieces, self.taken.shape, gaps, tuple(self.keys), *self.parts)


def shared(contributions: list[Any], array: Callable[[Value], Any]) -> list[Any]:
    """Contributions to one gradient, in their order, of which parts one behind the other are one; `array` gives that of a value."""
    parts = list(map(_part, contributions))
    if len(parts) - parts.count(None) < 2:
        return contributions
    found: list[Any] = []
    for contribution, part in zip(contributions, parts, strict=True):
        if part is None:
            found.append(contribution)
            continue
        key, g = part[0], array(part[1])
        if not (found and isinstance(found[-1], _Buffer) and found[-1].takes(key, g)):
            found.append(_Buffer(contribution, not found))
            found[-1].takes(key, g)
    return [f.array() if isinstance(f, _Buffer) else f for f in found]


def _part(contribution: Any) -> tuple[tuple, Value] | None:
    """The key and what is placed there, if a contribution is zeros but for that."""
    node = contribution.value.node if contribution.value is not None else None
    if node is None or node.function not in _PLACES or contribution.size > MOST:
        return None
    g, _, key = node.args
    return key, g
