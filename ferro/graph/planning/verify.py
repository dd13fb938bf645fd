"""Checks a plan by the graph alone: who reads what, until when; the planner's lives are not asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferro.graph.errors import PlanError
from ferro.graph.functions import PURE, effects
from ferro.graph.planning.folding import is_elementwise
from ferro.graph.planning.offsets import rounded
from ferro.graph.planning.order import Order
from ferro.graph.planning.recording import Allocation
from ferro.graph.planning.verify_bodies import kept_inside, wrong_in
from ferro.native.arena import LINE


def verify(plan: Any) -> None:
    """PlanError for a plan under which two arrays that live at the same time might share memory."""
    wrong: list[str] = []
    graph = plan.graph
    order = None
    if plan.order == "any":
        wrong += _missing(plan)
        order = Order(graph)
    uses = _uses(graph, plan.allocations)
    placed = [a for a in plan.allocations if a.offset is not None]
    for a in placed:
        if a.offset < 0 or a.offset % LINE or a.offset + a.size > plan.arena_bytes:
            wrong.append(f"{_said(graph, a)} does not lie within {plan.arena_bytes} bytes, or not at a cache line")
        if not {*graph.outputs}.isdisjoint(a.values):
            wrong.append(f"{_said(graph, a)} is a result, which must lie outside of the arena")
    wrong += _overlaps(graph, placed, uses, order)
    wrong += kept_inside(graph, placed, plan.inners)
    for i, inner in plan.inners.items():
        wrong += wrong_in(graph.nodes[i], inner, lambda g, some: _overlaps(g, some, _uses(g, some), None))
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise PlanError("the plan is wrong: " + "; ".join(wrong[:5]) + more)


def _overlaps(graph: Any, placed: list[Allocation], uses: dict, order: Order | None) -> Iterator[str]:
    """Arrays in one place that live at the same time."""
    active: list[Allocation] = []
    for a in sorted(placed, key=lambda a: a.offset):
        active = [b for b in active if b.offset + rounded(b.size) > a.offset]
        for b in active:
            if _clash(graph, *((a, b) if (a.node, a.birth) < (b.node, b.birth) else (b, a)), uses, order):
                yield f"{_said(graph, b)} and {_said(graph, a)} lie in the same place at the same time"
        active.append(a)


def _uses(graph: Any, allocations: list[Allocation]) -> dict[Allocation, set[int]]:
    """The nodes that use each: of values, those that make and read them; of scratch, those that were seen."""
    nodes: dict[Any, set[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.outputs):
            nodes.setdefault(value, set()).add(i)
    return {
        a: {a.node}.union(*[nodes.get(v, ()) for v in a.values]) if a.values else {a.node, a.last} for a in allocations
    }


def _missing(plan: Any) -> list[str]:
    """Where a node of a threaded run might begin before another one whose result it reads, or whose place in the order counts."""
    found, after = [], plan.tasks.order.after
    before: list[int] = []
    for waits in after:
        bits = 0
        for k in waits:
            bits |= before[k] | 1 << k
        before.append(bits)
    makers = {v: i for i, node in enumerate(plan.graph.nodes) for v in node.outputs}
    for i, node in enumerate(plan.graph.nodes):
        needed = {makers[v] for v in node.operands if v in makers}
        if effects(node.function) != PURE:
            needed = set(range(i))
        needed |= {k for k in range(i) if effects(plan.graph.nodes[k].function).writes}
        found += [
            f"node {i} ({node.line}) does not wait for node {k}" for k in sorted(needed) if not before[i] >> k & 1
        ]
    return found


def _clash(graph: Any, a: Allocation, b: Allocation, uses: dict[Allocation, set[int]], order: Order | None) -> bool:
    """Whether two arrays in one place, of which `b` comes later, may live at the same time."""
    if a.node == b.node and not a.values:  # (scratch, and what the same function makes after it)
        return a.death is None or a.death > b.birth
    before, begin = uses[a], b.node
    if b.folded is a and a.offset == b.offset and rounded(a.size) == rounded(b.size):
        if begin >= len(graph.nodes) or not (b.store is not None or is_elementwise(graph.nodes[begin])):
            return True
        before = before - {begin}
    if order is None:
        return max(before, default=-1) >= begin
    return begin >= len(graph.nodes) or any(not order.ancestors[begin] >> k & 1 for k in before)


def _said(graph: Any, a: Allocation) -> str:
    node = graph.nodes[a.node] if a.node < len(graph.nodes) else None
    line = f" ({node.line})" if node is not None and node.line else ""
    return f"{a.values[0] if a.values else 'scratch'} of node {a.node}{line}, {a.size} bytes at {a.offset}"
