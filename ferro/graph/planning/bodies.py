"""Bodies: memory plans of the graphs that branches and loops run, within the arena of the graph around them.

Note [Bodies].  A node that runs graphs gets a block of the arena while it runs. What its graphs make and give up lies there, one graph over
the other, since one runs at a time, and at the same places in each trip. What a trip carries to the next lies in places beside the
block, which live as long as the loop's results: so many that no trip writes where an array lies that is still read (`_turns`).
The trips take them by turns, and nothing is copied. If a trip may write where its argument lies, one place is enough; it is the
one of the loop's argument, if nothing reads that afterwards. What is kept for backward lies outside: it grows by the trip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ferro.graph.executor import last_uses
from ferro.graph.ir import Node, Value, in_memory
from ferro.graph.planning.folding import candidates_of, fold, may_lie_in
from ferro.graph.planning.joining import joined, kept_in
from ferro.graph.planning.offsets import placed, rounded
from ferro.graph.planning.places import blocks_of, chains_of
from ferro.graph.planning.recording import Allocation, Recorder, called_dry, recorded, stand_in, stand_ins

_MOST_TURNS = 8  # an array that more trips hand on lies outside


class Trips(NamedTuple):
    """The graphs of a loop in the order of its trips: behind the last comes the one at `back`. The first `count` results of each are the
    first arguments of the next; the others are slices of stacked results.
    """

    graphs: tuple
    back: int
    count: int

    def next(self, p: int) -> int:
        """The number of the graph behind number p."""
        return p + 1 if p + 1 < len(self.graphs) else self.back


class Store(NamedTuple):
    """Places for what trips carry: by the number of the first result that an array is, the offset of its places, the bytes from one to the
    next, and how many there are. `results` are those of the node that may lie in one of them.
    """

    results: tuple
    places: dict[int, tuple[int, int, int]]
    size: int

    def spread(self) -> list[tuple[int, int]]:
        """Where arrays may begin in it, and how large they are."""
        return [(at + n * step, step) for at, step, turns in self.places.values() for n in range(turns)]


class Options(NamedTuple):
    """Of a plan: whether results may lie in the place of an argument, places are used again, and those of what trips carry by turns."""

    fold: bool = True
    reuse: bool = True
    rotate: bool = True


class Body:
    """The plan of one graph that a node runs: `allocations` with offsets in the node's block, of `size` bytes; `inners` of its own nodes
    with graphs; `arguments` are the memory of the first `count` inputs. No array begins where one of `beside` does.
    """

    def __init__(
        self, graph: Any, count: int, options: Options, beside: Sequence[Body] = (), asks: bool = False
    ) -> None:
        self.graph = graph
        found, windows = _dry(graph, count)
        arguments = {v: a for a in found if a.node < 0 for v in a.values[:1]}
        self.arguments = [arguments.get(v) for v in graph.inputs[:count]]
        self.inners = inners_of(graph, options)
        kept = self.kept = kept_in(graph, self.inners)
        for a in found:
            if a.node < 0:
                a.reason = "argument"
            elif a.death is None and (not asks or not kept.isdisjoint(a.values)):
                a.reason = "result" if kept.isdisjoint(a.values) else "kept for backward"
            elif a.death is None:
                a.death = windows[-1][1]
        self.allocations = joined(graph, found, windows, self.inners, options.fold, kept)
        if options.fold:
            fold(graph, self.allocations)
        chains = chains_of(self.allocations)
        taken = frozenset([at for body in beside for at, _ in body.spread()])
        places, self.size = placed(blocks_of(graph, chains), None, True, options.reuse, taken)
        for chain, offset in zip(chains, places, strict=True):
            for a in chain:
                a.offset = offset

    def result(self, j: int) -> Allocation | None:
        """The memory that the graph makes for a result of its own."""
        v = self.graph.outputs[j]
        return next((a for a in self.allocations if a.reason == "result" and v in a.values), None)

    def spread(self) -> list[tuple[int, int]]:
        """Where arrays may begin in the block, and how large they are."""
        found: list[tuple[int, int]] = []
        for a in self.allocations:
            if a.offset is not None:
                found += [(a.offset + at, size) for at, size in a.spread]
        return found


class Inner:
    """What a node that runs graphs needs: a block of `size` bytes while it runs, for `bodies`, and `stores`.

    `own` are the results of the node that each of its branches gives, or that are stacked slices: they lie where the graph around plans them,
    slices at once, by the numbers of a graph and of its result (`slices`).
    """

    def __init__(self, node: Any, options: Options) -> None:
        self.outputs, self.rotates = node.outputs, options.rotate
        what, args = node.function.rpartition(".")[2], node.args
        self.trips: Trips | None = None
        conditions: tuple = ()
        if what in ("cond", "switch", "branch"):
            graphs = args[1] if what != "branch" else args[2]
            self.own = [k for k, v in enumerate(node.outputs) if v.dtype.kind != "O"]
        else:
            if what == "while_loop":
                conditions, self.trips = (args[1],), Trips((args[2],), 0, args[3])
            elif what == "scan":
                self.trips = Trips((args[1],), 0, args[2])
            else:
                self.trips = Trips(tuple(args[2]), args[3], len(args[4]))
            graphs = self.trips.graphs
            self.own = [k for k, v in enumerate(node.outputs) if k >= self.trips.count and v.dtype.kind != "O"]
        count = 0 if self.trips is None else self.trips.count
        self.bodies: list[Body] = []
        for g in graphs:
            self.bodies.append(Body(g, count, options, self.bodies))
        self.conditions = [Body(g, 0, options, self.bodies, asks=True) for g in conditions]
        self.size = rounded(max([b.size for b in (*self.bodies, *self.conditions)], default=0))
        self.turns: dict[int, dict[Allocation, int]] = {}  # by the number of a graph, how many places its results need
        self.over: set[Allocation] = set()  # those that are made in the place of what is handed on
        self.slices = [_slices(b, count) for b in self.bodies] if self.trips is not None else []
        self.passed = {} if self.trips is None else self._passed(self.trips)
        self.carried = [nbytes(v) for v in graphs[0].outputs[:count]]
        self.stores = [] if self.trips is None else self._stores(self.trips, options)

    def is_kept(self, k: int) -> bool:
        """Whether slices of a stacked result are kept for backward: what they lie in outlives the run."""
        for p, some in enumerate(self.slices):
            a, body = some.get(k), self.bodies[p]
            later = self.bodies[self.trips.next(p)]  # type: ignore[union-attr]
            given = [later.arguments[j] for j in _slots(body, a, len(later.arguments))] if a is not None else []
            if a is not None and not all(
                body.kept.isdisjoint(b.values) for body, b in ((body, a), *[(later, g) for g in given if g])
            ):
                return True
        return False

    def first(self, body: Body, a: Allocation) -> int:
        """The first result of a trip that lies in an array's memory."""
        return _slots(body, a, len(body.graph.outputs))[0]

    def spread(self) -> list[tuple[int, int]]:
        """Where arrays may begin in the block, and how large they are."""
        return list(dict.fromkeys([place for b in (*self.bodies, *self.conditions) for place in b.spread()]))

    def _passed(self, trips: Trips) -> dict[int, set[int]]:
        """By the numbers of arguments that trips hand on for ever: the results that they may be."""
        found = {}
        for j in range(trips.count):
            now, seen = {j}, set()
            for trip in range(trips.count * len(self.bodies) + 1):
                body = self.bodies[trip if trip < len(self.bodies) else trips.back]
                given = [b for i in now if (b := body.arguments[i]) is not None]
                now = {k for b in given for k in _slots(body, b, trips.count)}
                seen |= now
            if now:
                found[j] = seen
        return found

    def _stores(self, trips: Trips, options: Options) -> list[Store]:
        most: dict[int, tuple[int, int]] = {}  # by the first result: turns, bytes
        group = list(range(trips.count))
        for p, body in enumerate(self.bodies):
            for a in body.allocations:
                slots = _slots(body, a, trips.count) if a.reason == "result" else []
                if not slots or slots != _slots(body, a, len(body.graph.outputs)):  # (or it is a slice, too)
                    continue
                turns, seen = self._turns(trips, p, a, slots, options.fold and options.rotate)
                turns = turns if turns is None or options.rotate else 2  # (the result, and its copy)
                if turns is None:
                    continue
                self.turns.setdefault(p, {})[a] = turns
                before = most.get(slots[0], (0, 0))
                most[slots[0]] = max(before[0], turns), max(before[1], rounded(a.size))
                for j in seen:
                    group = [group[slots[0]] if g == group[j] else g for g in group]
        found = []
        for g in sorted(set(group)):
            places, size = {}, 0
            for j in [j for j in range(trips.count) if group[j] == g and j in most]:
                places[j] = size, most[j][1], most[j][0]
                size += most[j][0] * most[j][1]
            if places:
                found.append(Store(tuple([j for j in range(trips.count) if group[j] == g]), places, size))
        return found

    def _turns(self, trips: Trips, p: int, a: Allocation, slots: list[int], in_place: bool) -> tuple[int | None, set]:
        """How many places a result needs, so that a trip never writes where it is still read; None: it is kept, or handed on for too long.

        And which results it is on its way.
        """
        seen, now, trip = set(slots), slots, p
        for turns in range(1, _MOST_TURNS + 1):
            trip = trips.next(trip)
            body = self.bodies[trip]
            arguments = [b for j in now if (b := body.arguments[j]) is not None]
            if len(arguments) < len(now) or any(not body.kept.isdisjoint(b.values) for b in arguments):
                return None, seen
            now = sorted({j for b in arguments for j in _slots(body, b, trips.count)})
            if not now:
                made = body.result(slots[0])
                ends = [b.death for b in arguments if b.death is not None]
                if made is None or (len(ends) == len(arguments) and max(ends) < made.birth):
                    return turns, seen
                within = in_place and len(ends) == len(arguments) == 1 and _written_over(body, made, arguments[0])
                if within:
                    self.over.add(made)
                return (turns if within else turns + 1), seen
            seen.update(now)
        return None, seen


def _slices(body: Body, count: int) -> dict[int, Allocation]:
    """By the numbers of results that are slices, the memory that a graph makes for them."""
    found: dict[int, Allocation] = {}
    for k, v in enumerate(body.graph.outputs):
        if k < count or v.dtype.kind == "O":
            continue
        a = next((a for a in body.allocations if v in a.values and a.death is None and a.node >= 0), None)
        if a is not None and a.whole and a.size == nbytes(v) and a not in found.values():
            found[k] = a
    return found


def nbytes(value: Value) -> int:
    """How large an array is."""
    return math.prod(value.shape) * np.dtype(value.dtype).itemsize


def _slots(body: Body, a: Any, count: int) -> list[int]:
    """Which of the first results of a graph lie in an array's memory."""
    return [j for j, v in enumerate(body.graph.outputs[:count]) if v in a.values]


def _written_over(body: Body, result: Allocation, argument: Allocation) -> bool:
    """Whether a graph may make a result in the place of an argument."""
    found = candidates_of(body.graph, [argument, *[a for a in body.allocations if a.node >= 0]], of_loop=True)
    return found.get(result) is argument and may_lie_in(body.graph, result, argument)


def inners_of(graph: Any, options: Options) -> dict[int, Inner]:
    """By their numbers, what the nodes need that run graphs."""
    return {i: Inner(node, options) for i, node in enumerate(graph.nodes) if node.graphs}


def _dry(graph: Any, count: int) -> tuple[list[Allocation], list[tuple[int, int]]]:
    """What one run of a graph makes, for arrays that mean nothing; its first `count` inputs are among it, made before node 0."""
    recorder = recorded(graph, lambda recorder: _run(graph, count, recorder))
    found, windows = recorder.allocations(), recorder.windows()
    for a in found:
        a.node, a.last, a.gone = a.node - 1, a.last - 1, a.gone - 1
    return found, windows[1:]


def _run(graph: Any, count: int, recorder: Recorder) -> None:
    found = stand_ins(graph, graph.inputs[count:])
    unpacked = {
        node: [in_memory(v.shape, v.strides, v.dtype) for v in node.outputs]
        for node in graph.nodes
        if node.function == "control.unpack"
    }
    last = last_uses(graph, takes=True)
    kept = {*graph.outputs}.union(*last.values())

    def nodes() -> None:
        own = [stand_in(v) for v in graph.inputs[:count]]
        first = Node("", ())
        first.outputs += graph.inputs[:count]
        recorder(first, own)
        found.update([(v, a) for v, a in zip(graph.inputs[:count], own, strict=True) if v in kept])
        del own
        for i, node in enumerate(graph.nodes):
            made = unpacked[node] if node in unpacked else called_dry(node, found)
            found.update(zip(node.outputs, made, strict=True))
            recorder(node, made)
            del made
            for value in last.get(i, ()):
                found.pop(value, None)

    recorder.run(nodes)
