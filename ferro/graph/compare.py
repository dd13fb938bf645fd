"""Where a graph and the function that it was captured of part ways: the first node that has other bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.core.backend import on_host
from ferro.core.random import default
from ferro.graph import interpreter
from ferro.graph.functions import effects
from ferro.graph.tracing import trace
from ferro.utils import _pytree


def compared(graph: Any, fn: Callable, inputs: tuple) -> str | None:
    """See Graph.compare."""
    begun = [(g, g.get_state()) for g in _generators(graph)]
    eager = [t._data.copy() for t in _pytree.tree_leaves(fn(*inputs))]
    seen: list = []
    mine: list = []
    _continue_from(begun)
    trace(fn, inputs, {}, seen)
    _continue_from(begun)
    found = interpreter.run(graph, inputs, lambda node, made: mine.append((node, [a.copy() for a in made])))
    for (a, made), (b, wanted) in zip(mine, seen, strict=False):
        if a.function != b.function:
            return (
                f"{a.outputs}: '{a.function}' from {a.line}, where the function now runs '{b.function}' from {b.line}"
            )
        for value, x, y in zip(a.outputs, made, wanted, strict=not a.graphs):  # (they may keep something or not)
            if not same_bits(x, y):
                return f"{value} = {a.function} from {a.line}"
    if len(mine) != len(seen):
        return f"{len(mine)} nodes, where the function now runs {len(seen)}"
    for i, (x, y) in enumerate(zip(found, eager, strict=True)):
        if not same_bits(x, y):
            return f"output {i}"
    return None


def _generators(graph: Any) -> list:
    """The generators from which a graph draws."""
    if not any(effects(node.function).random for node in graph.nodes):
        return []
    return list(dict.fromkeys([default(), *[held.thing for held in graph.held if held.kind == "generator"]]))


def _continue_from(states: list) -> None:
    """Puts generators where they were, so that all runs draw the same numbers."""
    for generator, state in states:
        generator.set_state(state)


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays are equal to the last bit, dtype and shape included."""
    if x.dtype == object and y.dtype == object:
        return True  # (what is kept for a backward)
    return x.shape == y.shape and x.dtype == y.dtype and on_host(x).tobytes() == on_host(y).tobytes()
