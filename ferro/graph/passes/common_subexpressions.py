"""Common subexpressions: a node that computes what an earlier one computed, of the same numbers, gives way to that one."""

from __future__ import annotations

from typing import Any

from ferro.graph.functions import PURE, effects
from ferro.graph.ir import Node, Value
from ferro.graph.literals import written
from ferro.graph.passes.geometry import Geometry
from ferro.graph.passes.memory import Memory, may_share

MOST = 8  # equal nodes that are looked at: those that came last
LARGE = 1 << 20  # bytes of constants that are not compared


def common_subexpressions(program: Any) -> int:
    """Joins equal nodes and equal constants; returns how many there are fewer.

    Nodes in whose operands something was written in between are not equal, nor is what a checkpoint computes again. Two results
    stay two pieces of memory if somebody writes into one of them, or the caller gets both.
    """
    memory, geometry = Memory(program), Geometry()
    count = _constants(program)
    earlier: dict[str, list[Node]] = {}
    kept = []
    for node in program.nodes:
        program.read(node)
        certain = may_share(node) and geometry.note(node)
        key = _key(node) if effects(node.function) == PURE else None
        among = [] if key is None else earlier.setdefault(key, [])
        found = None
        if key is not None and not program.stays(node):
            found = next((n for n in reversed(among[-MOST:]) if _equal(memory, n, node, certain)), None)
        if found is None:
            among.append(node)
            kept.append(node)
            continue
        for value, by in zip(node.outputs, found.outputs, strict=True):
            program.replace(value, by)
            memory.join(value, by)
    count += len(program.nodes) - len(kept)
    program.keep(kept)
    return count


def _key(node: Node) -> str | None:
    """A text that equal nodes share; None if there is none."""
    try:
        given = [written(a) for a in node.args] + [f"{k}={written(a)}" for k, a in sorted(node.kwargs.items())]
    except TypeError:
        return None
    return f"{node.function}({', '.join(given)}) {node.absent} {node.again}"


def _equal(memory: Memory, first: Node, node: Node, certain: bool) -> bool:
    """Whether `node` gives what `first` gave, and nobody sees that there is one result."""
    pairs = list(zip(first.outputs, node.outputs, strict=True))
    if any((a.shape, a.dtype, a.strides) != (b.shape, b.dtype, b.strides) for a, b in pairs):
        return False
    if certain:
        return True  # the same view of the same memory, whatever is written there
    start, end = memory.place[first], memory.place[node]
    if any(memory.written(v, start, end) for v in node.operands):
        return False
    if may_share(node):
        return not any(memory.seen(v) or memory.written(v) for v in node.outputs)
    return all(memory.may_stand_for(a, b, start) for a, b in pairs)


def _constants(program: Any) -> int:
    """Joins constants of equal bytes."""
    count = 0
    known: dict[tuple, Value] = {}
    for value in program.constants:
        array = value.array
        if value.written or array is None or array.nbytes > LARGE or value.device:
            continue
        first = known.setdefault(
            (array.shape, value.strides, array.dtype.str, str(array.dtype), array.tobytes()), value
        )
        if first is not value:
            program.replace(value, first)
            count += 1
    program.constants = [v for v in program.constants if v not in program.instead]
    return count
