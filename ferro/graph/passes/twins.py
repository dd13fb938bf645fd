"""Twins of the graphs of an optimised pair: the same inputs and outputs, made of the nodes that were there before, for `differentiate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.graph.copies import node_copy, value_copy
from ferro.graph.ir import CAPTURED, Value


def of_forward(graph: Any, real: int, numbers: Sequence[int]) -> Any:
    """The forward graph with these of its outputs behind its own."""
    made: dict[Value, Value] = {}
    own = (*dict.fromkeys(graph.inputs), *graph.bound, *graph.constants)
    values = [made.setdefault(v, value_copy(v)) for v in own]
    nodes = [node_copy(n, made) for n in graph.nodes]
    outputs = [*graph.outputs[:real], *[graph.outputs[i] for i in numbers]]
    histories = [*graph.histories[:real], *[CAPTURED] * len(numbers)]
    return type(graph)([made[v] for v in graph.inputs], values, nodes, [made[v] for v in outputs], histories)


def of_backward(graph: Any, cotangents: int, passed: Sequence[int | Value | None]) -> Any:
    """The backward graph that takes other captured values: `passed` says of each of its own which of the new ones it is, which
    constant, or None if it is passed on no more.

    NotImplementedError if one of these is read.
    """
    inputs = [value_copy(v) for v in graph.inputs[:cotangents]]
    made = dict(zip(graph.inputs, inputs, strict=False))
    taken: dict[int, Value] = {}
    constants = [made.setdefault(v, value_copy(v)) for v in graph.constants]
    for value, by in zip(graph.inputs[cotangents:], passed, strict=True):
        if isinstance(by, int):
            made[value] = taken.setdefault(by, value_copy(value))
            made[value].requires_grad |= value.requires_grad
        elif isinstance(by, Value):
            made[value] = value_copy(by)
            constants.append(made[value])
    lost = set(graph.inputs).difference(made)
    for value in (*graph.outputs, *[v for n in graph.nodes for v in n.operands]):
        if value in lost:
            raise NotImplementedError(
                f"differentiate: a second derivative of this backward needs the input {graph.inputs.index(value)} that it had before it "
                'was optimised, and takes no more; optimise the pair without "captures", or differentiate `joint`'
            )
    nodes = [node_copy(n, made) for n in graph.nodes]
    inputs += [taken[i] for i in range(len(taken))]
    return type(graph)(inputs, constants, nodes, [made[v] for v in graph.outputs], graph.histories)
