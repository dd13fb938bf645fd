"""Nodes that run graphs, among the allocations around them: blocks and stores, and how long these live. See Note [Bodies] in bodies.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.graph.executor import last_uses
from ferro.graph.ir import Value
from ferro.graph.operands import inputs_of
from ferro.graph.passes.memory import Memory
from ferro.graph.planning.offsets import rounded
from ferro.graph.planning.recording import Allocation


def joined(
    graph: Any,
    allocations: list[Allocation],
    windows: Sequence[tuple[int, int]],
    inners: dict[int, Any],
    in_place: bool,
    kept: set[Value],
) -> list[Allocation]:
    """Allocations of a graph, in which those of nodes with graphs are replaced by blocks and stores.

    windows: the first event of each node, and the first one behind it; kept: values that outlive the run, see `kept_in`.
    """
    if not inners:
        return allocations
    for a in allocations:  # room for the beginnings and ends of nodes between events
        a.birth *= 4
        a.death = None if a.death is None else 4 * a.death
    found = [a for a in allocations if a.node not in inners]
    for a in found:
        if not a.reason and not kept.isdisjoint(a.values):
            a.reason, a.death = "kept for backward", None
    lives = _Lives(graph, windows, kept)
    for i, inner in inners.items():
        node = graph.nodes[i]
        begin, end = 4 * windows[i][0] - 1, 4 * windows[i][1] - 2
        found += _own(node, inner, [a for a in allocations if a.node == i and a.values], begin, kept)
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


def _own(node: Any, inner: Any, made: list[Allocation], begin: int, kept: set[Value]) -> list[Allocation]:
    """The results of a node that lie where the graph around has them, from its beginning on."""
    own = {node.outputs[k]: k for k in inner.own}
    found = [a for a in made if a.values[0] in own]
    for a in found:
        a.birth = begin
        if inner.is_kept(own[a.values[0]]) or not kept.isdisjoint(a.values):
            a.reason = "kept for backward"
    return found


def kept_in(graph: Any, inners: dict[int, Any]) -> set[Value]:
    """The values whose arrays are kept for backward, by the graph or by graphs of its nodes: they outlive the run."""
    found = {v for node in graph.nodes if node.function == "control.pack" for v in node.operands}
    for i, inner in inners.items():
        operands = inputs_of(graph.nodes[i])
        for body in inner.bodies:
            found.update(
                [v for v, own in zip(operands, body.graph.inputs, strict=False) if v is not None and own in body.kept]
            )
    return found


class _Lives:
    """How long the values of a graph live, by the graph alone."""

    def __init__(self, graph: Any, windows: Sequence[tuple[int, int]], kept: set[Value]) -> None:
        self._nodes, self._windows, self._memory, self._kept = graph.nodes, windows, Memory(graph), kept
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
        if last == len(self._nodes) or not self._kept.isdisjoint(a.values):
            a.death, a.reason = None, "result" if last == len(self._nodes) else "kept for backward"
        else:
            a.death = max(a.death or 0, 4 * self._windows[last][1] - 1)


def _argument(node: Any, j: int) -> Value | None:
    """The value with which argument number j of the trips of a loop begins, if the loop has no other use for it."""
    operands = inputs_of(node)
    return operands[j] if operands.count(operands[j]) == 1 else None


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
