"""A graph whose gradients no write meets: what was written in place is read as the value that was written.

Note [Functional graphs].  A write that the tape records computes its result first (``relu``, or ``copy_slices`` for a part of
a tensor), and then copies it into the memory: the value is there twice. While a function is captured, each node notes what its operands
are if tensors are followed by what was last written into them (`Node.contents`). A graph in which all nodes read those needs
none of the writes into memory of its own, unless a view that was made before a write is read after it. (``copy_slices`` gives the base, into
which the part has been written; ``view_put`` is the same operation on a base into which it has not.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ferro.core.primitives import COPY_SLICES, VIEW_PUT
from ferro.graph.copies import node_copy, value_copy
from ferro.graph.functions import written_by
from ferro.graph.ir import COMPUTED, CONSTANT, Node, Value, replaced
from ferro.graph.passes.memory import may_share


def has_contents(graph: Any) -> bool:
    """Whether something was written in place that a gradient could follow."""
    return bool(graph.contents) or any(node.contents is not None for node in graph.nodes)


class Functional(NamedTuple):
    """A graph without writes into memory of its own, what the values of the first became, and those that had been written over.

    By these values, the operations whose results were written there: they alone may need them, as eager keeps a copy for them.
    """

    graph: Any
    made: dict[Value, Value]
    overwritten: dict[Value, set[Node]]


def functional(graph: Any) -> Functional:
    """The same graph without writes into memory of its own, as far as nobody reads that memory afterwards."""
    made: dict[Value, Value] = {}
    values = [made.setdefault(v, value_copy(v)) for v in (*graph.inputs, *graph.bound, *graph.constants)]
    nodes: list[Node] = []
    for node in graph.nodes:
        copy = node_copy(node, made)
        if node.contents is not None:
            args, kwargs, foreign = node.contents
            copy.args, copy.kwargs = replaced((args, kwargs), made.__getitem__)
            copy.foreign = foreign
        if copy.function == COPY_SLICES.name:
            copy.function = VIEW_PUT.name
        nodes.append(copy)
    outputs, histories = list(graph.outputs), list(graph.histories)
    for i, (value, history) in graph.contents.items():
        outputs[i], histories[i] = value, history
    outputs = [made[v] for v in outputs]
    group = _groups(nodes)
    kept, writes = _without_writes(nodes, outputs, group)
    overwritten = _overwritten(kept, writes, group)
    return Functional(type(graph)([made[v] for v in graph.inputs], values, kept, outputs, histories), made, overwritten)


def _overwritten(kept: list[Node], writes: list[Node], group: dict[Value, Value]) -> dict[Value, set[Node]]:
    """See Functional: of each memory, what it held before each write."""
    around = {n.args[1]: n.outputs[0] for n in kept if n.function == VIEW_PUT.name}  # by the part that was written
    held: dict[Value, Value] = {}
    by: dict[Value, set[Node]] = {}
    for node in writes:
        target, part = node.operands
        base = group.get(target, target)
        before = held.get(base, base)
        lost = group.get(before, before)
        makers = by.setdefault(lost, set())
        if part.node is not None and sum(group.get(v, v) is lost for v in part.node.operands) == 1:
            # eager keeps a copy of what it writes into, not of a further operand (y.mul_(y))
            makers.add(part.node)
        held[base] = around.get(part, part)
    return {v: by[group.get(v, v)] for node in kept for v in node.outputs if group.get(v, v) in by}


def _without_writes(
    nodes: list[Node], outputs: list[Value], group: dict[Value, Value]
) -> tuple[list[Node], list[Node]]:
    """The nodes without those that write into memory which nobody reads any more, and those.

    ``view_put(base, part)`` reads the base around the part, so for the write of that part it is no reader.
    """
    kept: list[Node] = []
    dropped: list[Node] = []
    read = {group.get(v, v) for v in outputs}
    parts: dict[Value, set[Value]] = {}  # by a base, the parts with which copies of it are made later
    for node in reversed(nodes):
        written = [group.get(v, v) for v in written_by(node)]
        if node.function == "xp.write_" and written[0].kind in (COMPUTED, CONSTANT):
            base, part = written[0], node.args[1]
            if base not in read and parts.get(base, set()) <= {part}:
                if base in parts:
                    read.add(base)
                dropped.append(node)
                continue
        kept.append(node)
        operands = node.operands
        if node.function == VIEW_PUT.name:
            parts.setdefault(group.get(operands[0], operands[0]), set()).add(operands[1])
            operands = operands[1:]
        read.update([group.get(v, v) for v in operands])
    return kept[::-1], dropped[::-1]


def _groups(nodes: list[Node]) -> dict[Value, Value]:
    """By values, one that stands for all that may show the same memory: the first."""
    found: dict[Value, Value] = {}
    for node in nodes:
        shown = node.operands if may_share(node) else node.outputs[:1]
        first = next((found.get(v, v) for v in shown), None)
        for value in node.outputs:
            if first is not None and value is not first:
                found[value] = first
    return found
