"""Nodes that run graphs, among the allocations around them: blocks and stores, and how long these live. See Note [Bodies] in bodies.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.graph.executor import last_uses
from ferro.graph.ir import Value
from ferro.graph.passes.memory import Memory
from ferro.graph.planning.offsets import rounded
from ferro.graph.planning.recording import Allocation


def joined(
    graph: Any,
    allocations: list[Allocation],
    windows: Sequence[tuple[int, int]],
    inners: dict[int, Any],
    in_place: bool,
) -> list[Allocation]:
    """Allocations of a graph, in which those of nodes with graphs are replaced by blocks and stores.

    windows: the first event of each node, and the first one behind it.
    """
    if not inners:
        return allocations
    for a in allocations:  # room for the beginnings and ends of nodes between events
        a.birth *= 4
        a.death = None if a.death is None else 4 * a.death
    found = [a for a in allocations if a.node not in inners]
    lives = _Lives(graph, windows)
    for i, inner in inners.items():
        node = graph.nodes[i]
        begin, end = 4 * windows[i][0] - 1, 4 * windows[i][1] - 2
        own = {node.outputs[k]: k for k in inner.own}
        for a in [a for a in allocations if a.node == i and a.values and a.values[0] in own]:
            a.birth = begin
            a.reason = "kept for backward" if inner.is_kept(own[a.values[0]]) else a.reason
            found.append(a)
        placed = {a.values[0]: a for a in found if a.values}
        for j, results in inner.passed.items():
            argument = _argument(node, j)
            a = None if argument is None else placed.get(argument)
            if a is not None and not a.reason:
                lives.prolong(a, i, [node.outputs[k] for k in results])
        for store in inner.stores:
            made = Allocation(store.size, i, begin)
            made.store, made.death, made.spread = store, begin, store.spread()
            lives.prolong(made, i, [node.outputs[j] for j in store.results])
            if in_place and not made.reason:
                made.folded = _begins(node, store, placed, i)
            found.append(made)
        if inner.size:
            made = Allocation(inner.size, i, begin)
            made.inner, made.death, made.spread = inner, end, inner.spread()
            found.append(made)
    return sorted(found, key=lambda a: a.birth)


class _Lives:
    """How long the values of a graph live, by the graph alone."""

    def __init__(self, graph: Any, windows: Sequence[tuple[int, int]]) -> None:
        self._nodes, self._windows, self._memory = graph.nodes, windows, Memory(graph)
        self._last = {v: i for i, values in last_uses(graph, takes=True).items() for v in values}
        self._last |= dict.fromkeys(graph.outputs, len(graph.nodes))  # behind all nodes

    def prolong(self, a: Allocation, i: int, values: list[Value]) -> None:
        """Values of node number i, and views of them, lie in an array's memory."""
        groups = {self._memory.group(v) for v in values}
        views = [v for n in self._nodes[i + 1 :] for v in n.outputs if self._memory.group(v) in groups]
        a.values = [*a.values, *values, *views]
        last = max([self._last.get(v, i) for v in (*values, *views)])
        a.last = min(max(a.last, last), len(self._nodes) - 1)
        a.gone = max(a.gone, a.last + 1)
        if last == len(self._nodes):
            a.death, a.reason = None, "result"
        else:
            a.death = max(a.death or 0, 4 * self._windows[last][1] - 1)


def _argument(node: Any, j: int) -> Value | None:
    """The value with which argument number j of the trips of a loop begins, if the loop has no other use for it."""
    if node.function == "control.reversed_loop":
        given, slot = node.args[1], node.args[4][j]
    else:
        given, slot = node.args[0], len(node.args[0]) - 1 - j  # (see loop_derivatives.arguments)
    return given[slot] if type(slot) is int and list(given).count(given[slot]) == 1 else None


def _begins(node: Any, store: Any, of: dict, i: int) -> Allocation | None:
    """The memory of the argument with which a loop begins, if nothing reads it afterwards, and one place is enough for all trips."""
    if len(store.results) != 1 or [n for *_, n in store.places.values()] != [1]:
        return None
    argument = _argument(node, store.results[0])
    source = None if argument is None else of.get(argument)
    if source is None or source.reason or source.store is not None or not source.whole or source.death is None:
        return None
    ends = source.last == i and len(source.values) == 1
    return source if ends and rounded(source.size) == store.size else None
