"""Checks the plans of branches and bodies by their graphs alone: within a run of one, and from trip to trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ferro.graph.ir import Value
from ferro.graph.passes.memory import may_share
from ferro.graph.planning.folding import is_elementwise
from ferro.graph.planning.joining import kept_in
from ferro.graph.planning.offsets import rounded
from ferro.native.arena import LINE

Clashes = Callable[
    [Any, list], Iterator[str]
]  # what is wrong among allocations of a graph that lie in one piece of memory

_PACK = "control.pack"


def wrong_in(node: Any, inner: Any, clashes: Clashes) -> Iterator[str]:
    """What is wrong in the plan of a node that runs graphs."""
    said = f"'{node.function}' at {node.line}"
    for body in (*inner.bodies, *inner.conditions):
        placed = [a for a in body.allocations if a.offset is not None]
        for a in placed:
            if a.offset < 0 or a.offset % LINE or a.offset + a.size > inner.size:
                yield f"{a!r} in {said} does not lie within {inner.size} bytes, or not at a cache line"
        yield from clashes(body.graph, placed)
        yield from kept_inside(body.graph, placed, body.inners)
        for i, more in body.inners.items():
            yield from wrong_in(body.graph.nodes[i], more, clashes)
    for store in inner.stores:
        places = sorted([(at + k * step, step) for at, step, n in store.places.values() for k in range(n)])
        ends = [at + size for at, size in places]
        if any(e > at for e, (at, _) in zip(ends, places[1:], strict=False)) or ends[-1] > store.size:
            yield f"places of what {said} carries overlap"
        if any(at % LINE or step % LINE for at, step, _ in store.places.values()):
            yield f"places of what {said} carries do not begin at cache lines"
    if inner.trips is not None and inner.rotates:
        yield from _wrong_trips(inner, said)


def kept_inside(graph: Any, placed: list, inners: dict) -> Iterator[str]:
    """Arrays in the arena that are kept for backward."""
    kept = kept_in(graph, inners)
    for a in placed:
        if not kept.isdisjoint(a.values):
            yield f"{a!r} is kept for backward, and must lie outside of the arena"


class _Array(NamedTuple):
    """An array that trips hand on: its place (of which result, and which turn), when it was made, and when it is used."""

    place: tuple[int, int] | None
    made: tuple[int, int]
    used: list[tuple[int, int]]


def _wrong_trips(inner: Any, said: str) -> Iterator[str]:
    """Makes trips without numbers, so many that all places come several times, and looks at who uses what afterwards."""
    places = {j: place for store in inner.stores for j, place in store.places.items()}
    arrays: list[_Array] = []
    carried = [_Array(None, (-1, -1), []) for _ in range(inner.trips.count)]
    number = 0
    for trip in range(3 * max([n for _, _, n in places.values()], default=0) + len(inner.bodies)):
        body = inner.bodies[number]
        groups = _groups(body.graph)
        held = {groups[v]: a for v, a in zip(body.graph.inputs, carried, strict=False)}
        for j, v in enumerate(body.graph.outputs[: inner.trips.count]):
            if groups[v] not in held:
                made = next((a for a in inner.turns.get(number, {}) if v in a.values), None)
                slot = None if made is None else inner.first(body, made)
                if slot is not None and rounded(made.size) > places[slot][1]:
                    yield f"result {j} of {said} has {made.size} bytes, its places {places[slot][1]}"
                place = None if slot is None or slot not in places else (slot, trip % places[slot][2])
                held[groups[v]] = _Array(place, (trip, body.graph.nodes.index(v.node)), [])
                arrays.append(held[groups[v]])
        for i, node in enumerate(body.graph.nodes):
            for v in (*node.operands, *node.outputs):
                if groups[v] in held:
                    held[groups[v]].used.append((trip, i))
                    if node.function == _PACK and held[groups[v]].place is not None:
                        yield f"{v!r} in {said} is kept for backward, and lies where trips take turns"
        carried = [held[groups[v]] for v in body.graph.outputs[: inner.trips.count]]
        number = inner.trips.next(number)
    yield from _written_over(inner, arrays, said)


def _written_over(inner: Any, arrays: list[_Array], said: str) -> Iterator[str]:
    """Arrays that another one is made over before their last use."""
    last: dict[tuple[int, int], _Array] = {}
    for a in arrays:
        before = last.get(a.place) if a.place is not None else None
        if a.place is not None:
            last[a.place] = a
        if before is None:
            continue
        end = max(before.used, default=before.made)
        node = inner.bodies[_number(inner, a.made[0])].graph.nodes[a.made[1]]
        if end > a.made or (end == a.made and not is_elementwise(node)):
            yield f"what {said} carries as number {a.place[0]} is written over before it was read"
            return


def _number(inner: Any, trip: int) -> int:
    number = 0
    for _ in range(trip):
        number = inner.trips.next(number)
    return number


def _groups(graph: Any) -> dict[Value, Value]:
    """By the values of a graph, one of those that may share their memory; two inputs do not."""
    found: dict[Value, Value] = {v: v for v in graph.values()}
    for node in graph.nodes:
        for v in node.operands if may_share(node) else ():
            for w in node.outputs:
                old, new = found[w], found[v]
                found = {k: new if g is old else g for k, g in found.items()}
    return found
