"""Copies of values and nodes: a graph owns its own, since their numbers are those of its text."""

from __future__ import annotations

from collections.abc import Iterable

from ferro.graph.ir import INPUT, Node, Value, replaced

_OF_NODES = ("absent", "again", "effect", "foreign", "location", "mask", "module", "of")
_OF_VALUES = ("array", "index", "name", "places", "requires_grad", "strides", "tensor", "written")


def value_copy(value: Value, kind: str | None = None) -> Value:
    """The same value for another graph, perhaps as an input there."""
    found = Value(kind or value.kind, value.shape, value.dtype)
    for name in _OF_VALUES:
        setattr(found, name, getattr(value, name))
    if kind == INPUT:
        found.tensor = found.array = None
    return found


def node_copy(node: Node, made: dict[Value, Value]) -> Node:
    """The same node for another graph, where `made` says what its operands are; its outputs are added there."""
    args, kwargs = replaced((node.args, node.kwargs), made.__getitem__)
    found = Node(node.function, args, kwargs)
    for name in _OF_NODES:
        setattr(found, name, getattr(node, name))
    for value in node.outputs:
        out = made[value] = value_copy(value)
        out.node = found
        found.outputs.append(out)
    return found


def alive(nodes: Iterable[Node], outputs: Iterable[Value]) -> list[Node]:
    """The nodes that lead to some values, and those that have an effect, with what leads to them."""
    needed = set(outputs)
    kept = []
    for node in reversed(list(nodes)):
        if node.effect or not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.operands)
    return kept[::-1]
