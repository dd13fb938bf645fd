"""Rooms: at a run, the places of the arrays that branches and loops make, trip by trip; see Note [Bodies] in bodies.py."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ferro.graph.ir import copy_of
from ferro.graph.planning.bodies import Body, Inner
from ferro.graph.planning.recording import Allocation
from ferro.graph.planning.table import END
from ferro.graph.seats import SEATS
from ferro.native.arena import LINE, NEXT, Arena

_MOST_PARTS = 64  # tables of one graph, each for another turn; with more its results lie outside

# Where an allocation lies, and where is counted who must have ended before.
Address = Callable[[Allocation], tuple[int, list[int]]]


class Room:
    """What a node that runs graphs finds at a run, in one thread."""

    def __init__(self, arena: Arena, table: np.ndarray, plan: _Node) -> None:
        self._words, self._none, self._guards, self._singles = arena.words, arena.none, plan.guards, plan.singles
        self._arena, self._table = arena, table
        start = table.ctypes.data
        self._bodies = {
            key: [
                (
                    [start + 8 * at for at in part.starts],
                    entering({i: Room(arena, table, n) for i, n in part.nodes.items()}),
                )
                for part in parts
            ]
            for key, parts in plan.bodies.items()
        }
        self._slices = {key: [part.slices for part in parts] for key, parts in plan.bodies.items()}
        self._copies = None if plan.copies is None else start + 8 * plan.copies

    def is_free(self) -> bool:
        """Whether nothing lives where the arrays of the node are to lie."""
        # (no array may be made here: it would be taken for one of the node)
        return not any(ctypes.string_at(at, count).strip(b"\0") for at, count in self._guards) and not any(
            ctypes.c_uint8.from_address(at).value for at in self._singles
        )

    def seat(self, graph: Any, trip: int) -> tuple | None:
        """What a graph's program is given; None for one that the plan does not know."""
        parts = self._bodies.get(id(graph))
        return None if parts is None else (self._words, *parts[trip % len(parts)])

    def lend(self, stack: np.ndarray) -> bool:
        """Whether slices may be made in this array."""
        return self._arena.lend(stack)

    def aim(self, graph: Any, trip: int, places: dict[int, int]) -> list[int]:
        """The slices that a trip of a graph gives, by the numbers of its results, are to lie at these addresses (0: anywhere); which of them
        will.
        """
        parts = self._slices.get(id(graph))
        entries = {} if parts is None else parts[trip % len(parts)]
        for k, at in entries.items():
            self._table[at] = places[k]
        return [k for k in entries if places[k]]

    def leave(self) -> None:
        """Arrays that are made from now on lie outside."""
        self._words[NEXT] = self._none

    def handed_on(self, arrays: list) -> list:
        """What the next trip is given: the results of this one, or, where places do not take turns, copies of them."""
        if self._copies is None:
            return arrays
        self._words[NEXT] = self._copies
        SEATS.copied += sum([a.nbytes for a in arrays])
        found = [copy_of(a) for a in arrays]
        self.leave()
        return found


def entering(rooms: dict[int, Room]) -> Callable[[int], None]:
    """What a program calls before a node with graphs."""

    def enter(i: int) -> None:
        room = rooms.get(i)
        SEATS.node = room if room is not None and room.is_free() else None

    return enter


class _Part(NamedTuple):
    """A graph in one of its turns: where in the table the entries of each node begin, its nodes with graphs, and where slices are to be aimed."""

    starts: list[int]
    nodes: dict[int, _Node]
    slices: dict[int, int]


class _Node:
    """The plan of one node: parts of the table by graphs and turns, and what must be free before."""

    def __init__(self) -> None:
        self.bodies: dict[int, list[_Part]] = {}
        self.guards: list[tuple[int, int]] = []
        self.singles: list[int] = []
        self.copies: int | None = None


class Rooms:
    """The tables of all nodes with graphs, in a graph that lies in an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._list: list[int] = []
        self._nodes: dict[int, _Node] = {}
        self._entering: dict[Arena, Callable[[int], None]] = {}

    def add(self, i: int, inner: Inner, allocations: list[Allocation], address: Address) -> None:
        """Enters node number i of the outer graph, whose allocations lie at these addresses."""
        self._nodes[i] = self._node(i, inner, allocations, address)

    def close(self) -> None:
        """No more nodes come."""
        self._table = np.array([*self._list, *END], np.int64)

    def entering(self, arena: Arena) -> Callable[[int], None]:
        """For one of the threads of a run, which has an arena of its own."""
        if arena not in self._entering:
            self._entering[arena] = entering({i: Room(arena, self._table, node) for i, node in self._nodes.items()})
        return self._entering[arena]

    def _node(self, i: int, inner: Inner, allocations: list[Allocation], address: Address) -> _Node:
        node = _Node()
        own = [a for a in allocations if a.node == i]
        block = next((a for a in own if a.inner is inner), None)
        base = None if block is None or block.offset is None else address(block)[0] - self._arena.start
        stores: dict[int, tuple[int, int, int]] = {}
        for a in own:
            if a is block or a.store is not None:
                at, before = address(a)
                if at:
                    self._guard(node, at - self._arena.start, a.size, before, a.folded is not None)
            if a.store is not None and (at := address(a)[0]):
                stores.update({j: (at + first, step, n) for j, (first, step, n) in a.store.places.items()})
        for p, body in enumerate(inner.bodies):
            node.bodies[id(body.graph)] = self._parts(inner, p, body, base, stores, own, address)
        for body in inner.conditions:
            node.bodies[id(body.graph)] = self._parts(inner, -1, body, base, {}, [], address)
        if inner.trips is not None and not inner.rotates:
            node.copies = self._copies(inner, stores)
        return node

    def _guard(self, node: _Node, offset: int, size: int, before: list[int], folded: bool) -> None:
        first, count = self._arena.begins(offset), -(-size // LINE)
        node.guards.append((first + folded, count - folded))  # (the argument of a loop may lie there still)
        node.singles += [at for at in before if not first <= at < first + count]

    def _copies(self, inner: Inner, stores: dict) -> int:
        start = len(self._list)
        for j in range(inner.trips.count):  # type: ignore[union-attr]
            size = inner.carried[j]
            at, step, _ = stores.get(j, (0, 0, 0))
            self._entry(size, at + step if at else 0, [])
        self._list += END
        return start

    def _parts(
        self, inner: Inner, p: int, body: Body, base: int | None, stores: dict, own: list[Allocation], address: Address
    ) -> list[_Part]:
        results = {a: stores[j] for a in inner.turns.get(p, {}) if (j := inner.first(body, a)) in stores}
        count = math.lcm(*[n for _, _, n in results.values()]) if inner.rotates else 1
        if count > _MOST_PARTS:
            results, count = {}, 1
        lies = {a: self._inside(inner, a, base) for a in body.allocations if a.offset is not None}
        if inner.trips is None:
            lies |= self._of_branch(inner, body, own, address)
        found = []
        for turn in range(count):
            for a, (first, step, n) in results.items():
                at = first + turn % n * step
                over = a in inner.over and n == inner.turns[p][a]  # (in the place of an argument, which lives)
                lies[a] = at, [] if over else [self._arena.begins(at - self._arena.start)]
            found.append(self._part(body, dict(lies), {} if p < 0 or inner.trips is None else inner.slices[p]))
        return found

    def _part(self, body: Body, lies: dict[Allocation, tuple[int, list[int]]], slices: dict[int, Allocation]) -> _Part:
        """The entries of a graph in one of its turns."""

        def address(a: Allocation) -> tuple[int, list[int]]:
            return lies.get(a, (0, []))

        starts, written = [], {}
        for i in range(len(body.graph.nodes)):
            starts.append(len(self._list))
            for a in body.allocations:
                if a.node == i and a.inner is None and a.store is None:
                    written[a] = len(self._list) + 1
                    self._entry(a.size, *address(a))
            self._list += END
        nodes = {i: self._node(i, inner, body.allocations, address) for i, inner in body.inners.items()}
        return _Part(starts, nodes, {k: written[a] for k, a in slices.items() if a in written})

    def _inside(self, inner: Inner, a: Allocation, base: int | None) -> tuple[int, list[int]]:
        """Where an array in the block lies, and who must have ended: all that may lie there."""
        if base is None:
            return 0, []
        some = [at for at, size in inner.spread() if at < a.offset + a.size and a.offset < at + size]
        before = [self._arena.begins(base + at) for at in some if not (a.folded is not None and at == a.offset)]
        return self._arena.start + base + a.offset, before

    def _of_branch(self, inner: Inner, body: Body, own: list[Allocation], address: Address) -> dict:
        """Where the results of a branch lie: where the graph around has those of the node."""
        found: dict[Allocation, tuple[int, list[int]]] = {}
        for k in inner.own:
            a, outer = body.result(k), next((b for b in own if inner.outputs[k] in b.values[:1]), None)
            if a is not None and outer is not None and a.size == outer.size and a not in found:
                at, before = address(outer)
                found[a] = at, before
        return found

    def _entry(self, size: int, at: int, before: list[int]) -> None:
        self._list += (size, at, len(before) if at else 0, *(before if at else ()))
