"""The table of NumPy's handler for the runs of a plan: see Note [Arenas] in native/arena.py."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.graph.planning.offsets import rounded
from ferro.graph.planning.order import Order
from ferro.graph.planning.recording import Allocation
from ferro.native.arena import Arena


class Table:
    """An entry for each array: its size, its place, and where is counted who must have ended before.

    `parts` are where the entries begin and end: of all nodes one after the other, or, for `count` nodes, of each one. Then an array asks
    whether all are gone that come before it and lie in its place: by `order`, or else by the order of the nodes. bound: places of
    results outside of the arena. Blocks and stores of nodes with graphs have no entry. ``address(a)`` says where an array lies, and where
    is counted who must have ended before.
    """

    def __init__(
        self,
        allocations: Sequence[Allocation],
        arena: Arena,
        bound: dict[Allocation, int],
        count: int = 0,
        order: Order | None = None,
    ) -> None:
        checks = _all_before(allocations, order) if count else _in_turn(allocations)
        words: list[int] = []
        begins = [0]
        self._places: dict[Allocation, tuple[int, list[int]]] = {}
        for a, before in zip(allocations, checks, strict=True):
            if a.offset is None:
                self._places[a] = bound.get(a, 0), []
            else:
                starts = [b.offset + at for b in before for at, size in b.spread if _meet(a, b.offset + at, size)]
                ended = [arena.begins(at) for at in starts]
                self._places[a] = arena.start + a.offset, ended
            if a.inner is not None or a.store is not None:
                continue
            while len(begins) <= min(a.node, count - 1):
                words += END
                begins.append(len(words))
            at, ended = self._places[a]
            words += (a.size, at, len(ended), *ended)
        while len(begins) < count:
            words += END
            begins.append(len(words))
        self._words = np.array([*words, *END], np.int64)
        start = self._words.ctypes.data
        ends = [*[n - len(END) for n in begins[1:]], len(words)]
        self.address = self._places.__getitem__
        self.rooms: Any = None  # of nodes that run graphs, see rooms.py
        self.parts = [(start + 8 * a, start + 8 * b) for a, b in zip(begins, ends, strict=True)]
        self.starts = [at for at, _ in self.parts]

    def entering(self, arena: Arena) -> Callable[[int], None] | None:
        """What is called before a node that runs graphs, in the thread of an arena."""
        return None if self.rooms is None else self.rooms.entering(arena)


END = (-1, 0, 0)  # an entry for no array


def _meet(a: Allocation, at: int, size: int) -> bool:
    return at < a.offset + a.size and a.offset < at + size


def _in_turn(allocations: Sequence[Allocation]) -> list[list[Allocation]]:
    """For each array those in whose place it comes. One that has lost a part to another array was asked for then."""
    found: list[list[Allocation]] = []
    starts: list[int] = []  # of those that are whole, which do not overlap
    whole: list[Allocation] = []
    for a in allocations:
        if a.offset is None:
            found.append([])
            continue
        i = j = bisect_right(starts, a.offset)
        if i and starts[i - 1] + rounded(whole[i - 1].size) > a.offset:
            i -= 1
        while j < len(starts) and starts[j] < a.offset + a.size:
            j += 1
        found.append([b for b in whole[i:j] if b is not a.folded])
        starts[i:j], whole[i:j] = [a.offset], [a]
    return found


def _all_before(allocations: Sequence[Allocation], order: Order | None) -> list[list[Allocation]]:
    """The same where all that comes before (in every order) is asked; offsets differ, but for those that lie in the place of an argument."""
    placed = [a for a in allocations if a.offset is not None]
    last = {b.folded: b for b in placed if b.folded is not None}  # (who begins where another one began counts for it)
    found: list[list[Allocation]] = []
    for a in allocations:
        if a.offset is None:
            found.append([])
            continue
        own = [a]
        while own[-1].folded is not None:
            own.append(own[-1].folded)
        some = [
            b
            for b in placed
            if b not in own
            and b not in last
            and _meet(a, b.offset, b.size)
            and (b.birth < a.birth if order is None or b.node == a.node else order.precede(1 << b.node, a.node))
        ]
        found.append(some)
    return found
