"""Passes: what makes a graph shorter and leaves every bit of its results as it is.

Each pass is a function of a Program (program.py) that changes it and returns how much it found to do. They run one after
the other, again and again until none finds anything, so a graph that was optimised stays as it is. A pass that joins or
removes nodes asks `Memory` (memory.py) whether somebody could see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ferro.graph.ir import with_graphs
from ferro.graph.passes.checking import Interface
from ferro.graph.passes.common_subexpressions import common_subexpressions
from ferro.graph.passes.constant_folding import constant_folding
from ferro.graph.passes.dead_code import dead_code
from ferro.graph.passes.elementwise_chains import elementwise_chains
from ferro.graph.passes.fast_math import fast_math
from ferro.graph.passes.program import Program
from ferro.graph.passes.simplification import simplification

PASSES: dict[str, Callable[[Program], int]] = {
    "simplification": simplification,
    "constant_folding": constant_folding,
    "common_subexpressions": common_subexpressions,
    "dead_code": dead_code,
    "elementwise_chains": elementwise_chains,
}
DEFAULT = tuple(PASSES)


def chosen(passes: Any, known: Iterable[str], fast: bool) -> dict[str, Callable[[Program], int]]:
    """The passes of these names, in the order in which they run; ValueError for a name that there is not."""
    names = list(known)
    wanted = [passes] if isinstance(passes, str) else list(passes)
    for name in wanted:
        if name not in names:
            raise ValueError(f"optimise: there is no pass {name!r}; known are {', '.join(names)}")
    found = {name: PASSES[name] for name in PASSES if name in wanted}
    return {"fast_math": fast_math, **found} if fast else found


def run(program: Program, passes: dict[str, Callable[[Program], int]], debug: bool) -> dict[str, int]:
    """Runs passes until none finds anything; returns how much each found."""
    counts = dict.fromkeys(passes, 0)
    if not program.went_inside:
        _inside(program, passes, debug, counts)
    interface = Interface(program) if debug else None
    while True:
        before = sum(counts.values())
        for name, function in passes.items():
            counts[name] += function(program)
            if interface is not None:
                interface.check(program, name)
        if sum(counts.values()) == before:
            return counts


def _inside(program: Program, passes: dict[str, Callable[[Program], int]], debug: bool, counts: dict[str, int]) -> None:
    """Runs passes on the branches and bodies in nodes."""

    def shorter(graph: Any) -> Any:
        inner = Program(graph, program.differentiable)
        found = run(inner, passes, debug)
        if not any(found.values()):
            return graph
        for name, count in found.items():
            counts[name] += count
        program.joined = program.joined or inner.joined
        return inner.graph(type(graph))

    for node in program.nodes:
        if node.graphs:
            node.args = with_graphs(node.args, shorter)
    program.went_inside = True


def optimised(graph: Any, passes: Any, fast: bool, differentiable: bool, debug: bool) -> Any:
    """See Graph.optimise."""
    found = chosen(passes, PASSES, fast)
    return finished(Program(graph, differentiable and graph.again is None), graph, found, debug)


def finished(program: Program, graph: Any, passes: dict[str, Callable[[Program], int]], debug: bool) -> Any:
    """The graph that passes make of the program of another one."""
    counts = run(program, passes, debug)
    made = program.graph(type(graph))
    made.optimised = counts
    made.again = graph.again or ((lambda: graph) if program.joined else None)
    return made
