"""Elementwise chains: nodes over large arrays whose results only the next one reads become one node, a program over blocks.

What a step leaves is still in the cache when the next one reads it: one reading of each array, and one writing. Chained
are steps that eager computes by NumPy's loops (fusion.py), and of one shape and dtype.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ferro.core.op import OPS
from ferro.cpu import fusion
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.graph.chains import formula_of
from ferro.graph.functions import ARRAY, CHAINED
from ferro.graph.ir import Node, Value
from ferro.graph.passes.memory import Memory
from ferro.graph.there import device_of

CHAIN = "chain.elementwise"
MOST = 16  # steps and arrays of one chain


def elementwise_chains(program: Any) -> int:
    """Joins nodes; returns how many there are fewer."""
    memory = Memory(program)
    uses = Counter([v for node in program.nodes for v in node.operands])
    uses.update(program.outputs)
    links: dict[Node, tuple] = {}
    absorbed: set[Node] = set()
    for node in program.nodes:
        steps = None if program.stays(node) else _steps(node)
        if steps is None:
            continue
        inner = [v.node for v in dict.fromkeys(node.operands) if v.node in links and uses[v] == 1]
        inner = [n for n in inner if _may_move(n, node, links, memory)]
        found = _joined(node, steps, {n.outputs[0]: links[n] for n in inner})
        if len(found[0]) > MOST or len(found[1]) > MOST:
            inner, found = [], steps
        links[node] = found
        absorbed.update(inner)
        for n in inner:
            program.rewritten(n)
            program.rewritten(node)
            node.again = node.again or n.again
    for node, (steps, arrays) in links.items():
        if node not in absorbed and len(steps) > 1:
            node.function, node.args = CHAIN, (steps, *arrays)
    program.keep([node for node in program.nodes if node not in absorbed])
    return len(absorbed)


def _steps(node: Node) -> tuple[tuple, tuple] | None:
    """The steps of a node and the arrays that they read, as arguments of a chain; None if no program does what it does."""
    if len(node.outputs) != 1 or node.kwargs or node.absent:
        return None
    value = node.outputs[0]
    if value.strides is not None or math.prod(value.shape) < PROGRAM_LEAST:
        return None
    if node.function == CHAIN:
        return node.args[0], node.args[1:]
    if device_of(node):  # (a program of the CPU)
        return None
    arrays = tuple(dict.fromkeys(node.operands))
    if not all(isinstance(a, Value) or type(a) in (int, float) for a in node.args) or not arrays:
        return None
    if any(v.dtype != value.dtype or v.shape not in (value.shape, ()) or any(v.strides or ()) for v in arrays):
        return None
    if not node.function.startswith(CHAINED) and node.function not in OPS:
        return None
    steps = ((node.function, *[f"x{arrays.index(a)}" if isinstance(a, Value) else a for a in node.args]),)
    return (
        (steps, arrays) if fusion.is_program(formula_of(steps, ARRAY.__getitem__), value.dtype, len(arrays)) else None
    )


def _may_move(inner: Node, node: Node, links: dict, memory: Memory) -> bool:
    """Whether a node gives the same if it runs where another one runs, and both are of one shape."""
    start, end = memory.place[inner], memory.place[node]
    if inner.outputs[0].shape != node.outputs[0].shape or memory.written(inner.outputs[0]):
        return False
    return not any(memory.written(v, start, end) for v in links[inner][1])


def _joined(node: Node, own: tuple[tuple, tuple], inner: dict[Value, tuple]) -> tuple[tuple, tuple]:
    """The steps of a node behind those of the nodes whose results it reads, and all arrays that these read."""
    arrays = list(dict.fromkeys([v for steps, given in inner.values() for v in given]))
    arrays += [v for v in own[1] if v not in inner and v not in arrays]
    steps: list[tuple] = []
    results: dict[Value, str] = {}
    for value, (before, given) in inner.items():
        steps += _renamed(before, {f"x{i}": f"x{arrays.index(v)}" for i, v in enumerate(given)}, len(steps))
        results[value] = f"s{len(steps) - 1}"
    names = {f"x{i}": results.get(v) or f"x{arrays.index(v)}" for i, v in enumerate(own[1])}
    return (*steps, *_renamed(own[0], names, len(steps))), tuple(arrays)


def _renamed(steps: tuple, arrays: dict[str, str], behind: int) -> list[tuple]:
    """Steps behind others, which read other arrays."""

    def name(arg: Any) -> Any:
        if type(arg) is not str:
            return arg
        return arrays[arg] if arg[0] == "x" else f"s{int(arg[1:]) + behind}"

    return [(function, *map(name, args)) for function, *args in steps]
