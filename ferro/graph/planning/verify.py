"""Checks a plan by the graph alone: who reads what, until when; the planner's lives are not asked."""

from __future__ import annotations

from typing import Any

from ferro.graph.errors import PlanError
from ferro.graph.ir import OWN
from ferro.graph.planning.folding import is_elementwise
from ferro.graph.planning.offsets import rounded
from ferro.graph.planning.recording import Allocation
from ferro.native.arena import LINE


def verify(plan: Any) -> None:
    """PlanError for a plan under which two arrays that live at the same time might share memory."""
    wrong: list[str] = []
    pairs = zip(plan.graph.outputs, plan.graph.histories, strict=True)
    handed_out = {v for v, history in pairs if history != OWN}  # (gradients are copied where they do not own their memory)
    lives = _lives(plan.graph, plan.allocations)
    placed = [a for a in plan.allocations if a.offset is not None]
    for a in placed:
        if a.offset < 0 or a.offset % LINE or a.offset + a.size > plan.arena_bytes:
            wrong.append(f"{_said(plan, a)} does not lie within {plan.arena_bytes} bytes, or not at a cache line")
        if not handed_out.isdisjoint(a.values):
            wrong.append(f"{_said(plan, a)} is a result, which must lie outside of the arena")
    placed.sort(key=lambda a: a.offset)
    active: list[Allocation] = []
    for a in placed:
        active = [b for b in active if b.offset + rounded(b.size) > a.offset]
        wrong += [
            f"{_said(plan, b)} and {_said(plan, a)} lie in the same place at the same time"
            for b in active
            if _clash(plan.graph, a, b, lives)
        ]
        active.append(a)
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise PlanError("the plan is wrong: " + "; ".join(wrong[:5]) + more)


def _lives(graph: Any, allocations: list[Allocation]) -> dict[Allocation, tuple[int, int]]:
    """The first and last node of each: of values by their readers; of scratch, by what was seen."""
    last: dict[Any, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.outputs):
            last[value] = i
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    return {a: (a.node, max([last.get(v, a.node) for v in a.values] or [a.last])) for a in allocations}


def _clash(graph: Any, a: Allocation, b: Allocation, lives: dict[Allocation, tuple[int, int]]) -> bool:
    """Whether two arrays in one place live at the same time."""
    if lives[a][0] > lives[b][0] or (lives[a][0] == lives[b][0] and a.birth > b.birth):
        a, b = b, a
    end, begin = lives[a][1], lives[b][0]
    if end < begin:
        return False
    if a.node == b.node and not a.values:  # (scratch, and what the same function makes after it)
        return a.death is None or a.death > b.birth
    if b.folded is a and end == begin and a.offset == b.offset and a.size == b.size:
        return not (begin < len(graph.nodes) and is_elementwise(graph.nodes[begin]))
    return True


def _said(plan: Any, a: Allocation) -> str:
    node = plan.graph.nodes[a.node] if a.node < len(plan.graph.nodes) else None
    line = f" ({node.line})" if node is not None and node.line else ""
    return f"{a.values[0] if a.values else 'scratch'} of node {a.node}{line}, {a.size} bytes at {a.offset}"
