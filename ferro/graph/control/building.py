"""Graphs of backwards, built around derivatives: what they read is unpacked, what does not come is stood for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.graph.copies import node_copy, value_copy
from ferro.graph.differentiate import differentiate
from ferro.graph.graph import Graph
from ferro.graph.ir import COMPUTED, INPUT, Node, Value
from ferro.graph.literals import SAVED


def derived(graph: Graph, present: tuple, wanted: tuple, begun: tuple = ()) -> Any:
    """The derivative of those results of a graph that get a cotangent, by the inputs that are wanted; None if there is none.

    Contributions to one gradient are apart; of inputs that are `begun` the first one is what there is already, given as a cotangent.
    """
    key = present, wanted, begun
    if key not in graph.derived:
        # (a packing graph has one result more)
        fs = [v for v, has, h in zip(graph.outputs, present, graph.histories, strict=False) if has and h]
        wrts = [v for v, want in zip(graph.inputs, wanted, strict=True) if want and v.requires_grad]
        fs += [graph.inputs[i] for i in begun]
        graph.derived[key] = differentiate(graph, fs, wrts, True) if fs and wrts else None
    return graph.derived[key]


def packing(graph: Graph, kept: Sequence[Value]) -> Graph:
    """A graph of the same values that also gives what it keeps."""
    pack = Node("control.pack", tuple(kept))
    saved = Value(COMPUTED, (), SAVED)
    saved.node = pack
    pack.outputs.append(saved)
    nodes, outputs, histories = [*graph.nodes, pack], [*graph.outputs, saved], [*graph.histories, ""]
    made = Graph(graph.inputs, graph.constants, nodes, outputs, histories)
    made.derived = graph.derived
    return made


class Builder:
    """One graph of the backward of a node: of a graph, those of whose results that are `present` get cotangents, and that reads some inputs."""

    def __init__(self, graph: Graph, present: tuple, reads: Sequence[int]) -> None:
        self.of = graph
        self.nodes: list[Node] = []
        self.constants: list[Value] = []
        self.present = present
        self.cotangents = [self.input(v) if has else None for v, has in zip(graph.outputs, present, strict=False)]
        self.reads = {i: self.input(graph.inputs[i]) for i in reads}
        self.saved = [self.input(v) for v in graph.outputs if v.dtype == SAVED]
        self.inputs = [*[v for v in self.cotangents if v is not None], *self.reads.values(), *self.saved]

    @staticmethod
    def input(value: Value) -> Value:
        """An input for a value like another one."""
        found = Value(INPUT, value.shape, value.dtype)
        found.strides = None if value.node is not None else value.strides
        return found

    def contributions(
        self, gradient: Any, present: tuple | None = None, begun: Sequence[Value] = ()
    ) -> list[list[Value]]:
        """Adds the nodes of a derivative; gives the contributions to the gradient of each input that it is taken by.

        present: which cotangents it is of (default: all); begun: what there is already of some gradients.
        """
        if gradient is None:
            return []
        backward = gradient.backward
        given = zip(self.cotangents, present or self.present, self.of.histories, strict=False)
        fs = [v for v, has, h in given if v is not None and has and h]
        kept = self.of.nodes[-1].args if self.saved else ()
        known = dict(zip(kept, self._unpacked(kept), strict=True))
        inputs = self.of.inputs
        passed = [known[inputs[i]] if inputs[i] in known else self.reads[i] for i in gradient.captured_inputs]
        passed += [known[v] for v in gradient._passed[1]]
        made = dict(zip(backward.inputs, [*fs, *begun, *passed], strict=True))
        for v in backward.constants:
            made[v] = value_copy(v)
            self.constants.append(made[v])
        self.nodes += [node_copy(n, made) for n in backward.nodes]
        outputs = iter(backward.outputs)
        return [[made[next(outputs)] for _ in range(n)] for n in gradient.counts]

    def _unpacked(self, kept: tuple) -> list[Value]:
        if not kept:
            return []
        return self.node("control.unpack", (*self.saved, *[(v.shape, v.dtype) for v in kept]), list(kept))

    def node(self, name: str, args: tuple, like: Sequence[Value]) -> list[Value]:
        """Adds a node; gives its results, which are like some values."""
        node = Node(name, args)
        for v in like:
            out = Value(COMPUTED, v.shape, v.dtype)
            out.node, out.index, out.strides = node, len(node.outputs), v.strides
            node.outputs.append(out)
        self.nodes.append(node)
        return node.outputs

    def absent(self, like: Value, *number: float) -> Value:
        """What stands for a contribution that does not come."""
        plain = Value(COMPUTED, like.shape, like.dtype)
        return self.node("control.absent", (like.shape, like.dtype, *number), [plain])[0]

    def total(self, parts: list[Value]) -> Value:
        """The sum of contributions, added one after the other."""
        return parts[0] if len(parts) == 1 else self.node("array.total", tuple(parts), parts[:1])[0]

    def graph(self, outputs: list[Value], history: str) -> Graph:
        """The graph that gives these."""
        return Graph(self.inputs, self.constants, self.nodes, outputs, [history] * len(outputs))
