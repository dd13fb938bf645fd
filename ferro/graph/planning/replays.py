"""Replays of a graph that is called again and again: by a memory plan, where that is worth its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.cpu.memory import empty_cache
from ferro.graph.interpreter import execute
from ferro.graph.planning.bodies import Options, nbytes
from ferro.graph.planning.plan import Plan

PLAN_LEAST = 1 << 18  # bytes of an arena: smaller ones stay in the second-level cache (bench/plans.py shows both sides)
RECORDED = 2  # which call is recorded: the first one is to be soon


class Replays:
    """Calls of a graph: its output arrays, for tensors of all inputs and bound values, which have been checked.

    One call is recorded, the ones behind it follow the plan, if the arena has PLAN_LEAST bytes: smaller ones stay in the
    caches anyway.
    """

    __slots__ = ("_calls", "graph", "plan")

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.plan: Plan | None = None
        self._calls = 0 if _bytes_of(graph) >= PLAN_LEAST else RECORDED

    def __call__(self, given: Sequence) -> list:
        if self.plan is not None:
            return self.plan.execute(given)
        if self._calls < RECORDED:
            self._calls += 1
            if self._calls == RECORDED:
                return self._planned(given)
        return execute(self.graph, given)

    def _planned(self, given: Sequence) -> list:
        plan = Plan(self.graph, "serial", Options(), ahead=False)
        found = plan.execute(given)
        if not plan.refusal and plan.arena_bytes >= PLAN_LEAST:
            self.plan = plan
            empty_cache()  # the heap still has the room that the same arrays took before
        return found


def _bytes_of(graph: Any) -> int:
    """What the nodes give takes so much memory together, at most, those of branches and of one trip among them."""
    return sum([sum(map(nbytes, node.outputs)) + sum(map(_bytes_of, node.graphs)) for node in graph.nodes])
