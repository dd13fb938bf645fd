"""Program: the parts of a graph while passes change them; the graph that it was made of stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ferro.graph.copies import node_copy, value_copy
from ferro.graph.functions import PURE, effects
from ferro.graph.ir import CONSTANT, FOREIGN, GRAD, Node, Value, replaced, strides_of
from ferro.graph.there import device_name


class Program:
    """Values and nodes of its own, which passes replace.

    differentiable: nodes through which gradients go stay, because the order in which gradients are added depends on them.
    became: for each value of the graph, the one that stood for it at first (`now` says which does by now).
    """

    def __init__(self, graph: Any, differentiable: bool) -> None:
        self.differentiable = differentiable
        self.went_inside = False  # whether passes have run on the graphs in its nodes
        self.joined = False  # whether nodes through which gradients go were replaced
        self.became: dict[Value, Value] = {}
        made = self.became
        self.inputs = [made.setdefault(v, value_copy(v)) for v in graph.inputs]
        self.bound = [made.setdefault(v, value_copy(v)) for v in graph.bound]
        self.constants = [made.setdefault(v, value_copy(v)) for v in graph.constants]
        self.nodes = [node_copy(n, made) for n in graph.nodes]
        self.outputs = [made[v] for v in graph.outputs]
        self.histories = list(graph.histories)
        self.instead: dict[Value, Value] = {}
        self.heirs: dict[Node, Node | None] = {}
        self.forward: dict[Node, Node] = {}  # for each node of a backward, the one that it belongs to
        if all(node.of is None or node.of < i for i, node in enumerate(self.nodes)):  # (else numbers of another graph)
            self.forward = {node: self.nodes[node.of] for node in self.nodes if node.of is not None}
        self._count = 0
        for value in self.values():
            self._number(value)

    def _number(self, value: Value) -> None:
        value.number, self._count = self._count, self._count + 1

    def values(self) -> list[Value]:
        """All of them, in the order of the graph."""
        own = [*dict.fromkeys(self.inputs), *self.bound, *self.constants]
        return [*own, *[v for node in self.nodes for v in node.outputs]]

    def stays(self, node: Node) -> bool:
        """Whether a pass must leave a node alone: it does more than giving values, or gradients go through it."""
        return effects(node.function) != PURE or (self.differentiable and bool(node.mask))

    # -- changes -------------------------------------------------------------------------------------------------------

    def now(self, value: Value) -> Value:
        """The value that stands for another one."""
        while value in self.instead:
            value = self.instead[value]
        return value

    def replace(self, value: Value, by: Value) -> None:
        """From here on `by` is read where `value` was."""
        self.instead[value] = by

    def read(self, node: Node) -> None:
        """Has a node read what stands for its operands."""
        if any(v in self.instead for v in node.operands):
            node.args, node.kwargs = replaced((node.args, node.kwargs), self.now)

    def rewritten(self, node: Node) -> None:
        """Notes that a node computes the same in another way."""
        self.joined = self.joined or bool(node.mask)

    def keep(self, nodes: Iterable[Node]) -> None:
        """Leaves these nodes alone in the program, which read what stands for their operands."""
        kept = list(nodes)
        there = set(kept)
        for node in self.nodes:
            if node not in there:
                instead = [self.now(v) for v in node.outputs if v in self.instead]
                self.heirs[node] = instead[0].node if instead else None
                self.joined = self.joined or bool(instead and node.mask)
        self.nodes = kept
        for node in kept:
            self.read(node)
        self.outputs = [self.now(v) for v in self.outputs]

    def constant(self, array: np.ndarray) -> Value:
        """A new constant."""
        value = Value(CONSTANT, array.shape, array.dtype)
        value.array, value.strides, value.device = array, strides_of(array), device_name(array)
        self._number(value)
        self.constants.append(value)
        return value

    # -- the end -------------------------------------------------------------------------------------------------------

    def numbers(self) -> Callable[[Node], int | None]:
        """A function that says the number of the node that computes now what a node did; None if no node does."""
        places = {node: i for i, node in enumerate(self.nodes)}

        def number(node: Node | None) -> int | None:
            while node in self.heirs:
                node = self.heirs[node]
            return None if node is None else places.get(node)

        return number

    def graph(self, make: Callable) -> Any:
        """The graph of what is there now. Its text says that it has no derivative if nodes were joined that gradients tell apart."""
        number = self.numbers()
        for node, of in self.forward.items():
            node.of = number(of)
        if self.joined:
            self.histories = [FOREIGN if h == GRAD else h for h in self.histories]
            for node in self.nodes:
                node.foreign |= node.mask
        return make(self.inputs, [*self.bound, *self.constants], self.nodes, self.outputs, self.histories)
