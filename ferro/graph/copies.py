"""Copies of values and nodes: a graph owns its own, since their numbers are those of its text."""

from __future__ import annotations

from collections.abc import Iterable

from ferro.graph.ir import INPUT, Node, Value, replaced


def value_copy(value: Value, kind: str | None = None) -> Value:
    """The same value for another graph, perhaps as an input there."""
    found = Value(kind or value.kind, value.shape, value.dtype)
    found.device = value.device
    found.array, found.index, found.name, found.places = value.array, value.index, value.name, value.places
    found.requires_grad, found.strides, found.tensor, found.written = (
        value.requires_grad,
        value.strides,
        value.tensor,
        value.written,
    )
    if kind == INPUT:
        found.tensor = found.array = None
    return found


def node_copy(node: Node, made: dict[Value, Value]) -> Node:
    """The same node for another graph, where `made` says what its operands are; its outputs are added there."""
    args = replaced(node.args, made.__getitem__)
    found = Node(node.function, args, replaced(node.kwargs, made.__getitem__) if node.kwargs else None, node.effect)
    found.absent, found.again, found.foreign, found.mask = node.absent, node.again, node.foreign, node.mask
    found.location, found.module, found.of = node.location, node.module, node.of
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
