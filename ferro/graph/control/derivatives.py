"""Backwards of branches: graphs with the same inputs and results for each branch, of the derivative of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ferro.autograd.backward import grad
from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.graph.array import Traced, called
from ferro.graph.control.running import branch, chosen
from ferro.graph.copies import node_copy, value_copy
from ferro.graph.differentiate import differentiate, refuse_overwritten
from ferro.graph.functional import functional, has_contents
from ferro.graph.graph import Graph
from ferro.graph.ir import COMPUTED, GRAD, INPUT, OWN, Node, Value
from ferro.graph.literals import SAVED
from ferro.graph.taped import taped

PACK = "control.pack"


class Prepared(NamedTuple):
    """Graphs that keep what their backwards need, how often each of their inputs is an argument, and which results have a gradient."""

    graphs: tuple
    repeats: tuple
    graded: list


def prepared(graphs: Sequence[Graph], apart: bool = True) -> Prepared:
    """Graphs of one node, captured, made ready. apart: contributions to one gradient are not added up inside."""
    graded = [any(g.histories[i] == GRAD for g in graphs) for i in range(len(graphs[0].outputs))]
    repeats = [1] * len(graphs[0].inputs)
    if not any(graded):
        return Prepared(tuple(graphs), tuple(repeats), graded)
    found = []
    for graph in graphs:
        overwritten: dict = {}
        if has_contents(graph):
            graph, _, overwritten = functional(graph)
        wanted = tuple([v.requires_grad for v in graph.inputs])
        kept: list[Value] = []
        try:
            gradient = derived(graph, tuple([True] * len(graded)), wanted, apart)
        except NotImplementedError:  # (which is said when it is differentiated)
            gradient = None
        if gradient is not None:
            refuse_overwritten(gradient, overwritten)
            kept = gradient._passed[1]
            counts = iter(gradient.counts)
            for j, v in enumerate(graph.inputs):
                if v.requires_grad:
                    repeats[j] = max(repeats[j], next(counts))
        found.append((graph, kept))
    if any(kept for _, kept in found):
        return Prepared(tuple([_packing(*pair) for pair in found]), tuple(repeats), graded)
    return Prepared(tuple([graph for graph, _ in found]), tuple(repeats), graded)


def _packing(graph: Graph, kept: list[Value]) -> Graph:
    """A graph of the same values that also gives what it keeps."""
    pack = Node(PACK, tuple(kept))
    saved = Value(COMPUTED, (), SAVED)
    saved.node = pack
    pack.outputs.append(saved)
    made = Graph(graph.inputs, graph.constants, [*graph.nodes, pack], [*graph.outputs, saved], [*graph.histories, ""])
    made.derived = graph.derived
    return made


def derived(graph: Graph, present: tuple, wanted: tuple, apart: bool = True) -> Any:
    """The derivative of those results of a graph that get a cotangent, by the inputs that are wanted; None if there is none."""
    key = present, wanted, apart
    if key not in graph.derived:
        # (a packing graph has one result more)
        fs = [v for v, has, h in zip(graph.outputs, present, graph.histories, strict=False) if has and h]
        wrts = [v for v, want in zip(graph.inputs, wanted, strict=True) if want and v.requires_grad]
        graph.derived[key] = differentiate(graph, fs, wrts, apart) if fs and wrts else None
    return graph.derived[key]


class Backward(NamedTuple):
    """Graphs of (cotangents, operands, what was kept) -> contributions to the gradients of the inputs that are wanted, as often as each
    is an argument; `reads` are the numbers of the operands that some of them read.
    """

    graphs: tuple
    reads: list


def backward_branches(graphs: tuple, repeats: tuple, present: tuple, wanted: tuple) -> Backward:
    """The backwards of branches."""
    key = "backward", present, wanted
    if key not in graphs[0].derived:
        found = [derived(g, present, wanted) for g in graphs]
        reads = sorted({i for gradient in found if gradient is not None for i in gradient.captured_inputs})
        made = [
            _Builder(g, gradient, present, reads).branch(repeats, wanted)
            for g, gradient in zip(graphs, found, strict=True)
        ]
        graphs[0].derived[key] = Backward(tuple(made), reads)
    return graphs[0].derived[key]


class _Builder:
    """One graph of the backward of a node."""

    def __init__(self, graph: Graph, gradient: Any, present: tuple, reads: list[int]) -> None:
        self.graph, self.gradient = graph, gradient
        self.nodes: list[Node] = []
        self.constants: list[Value] = []
        self.cotangents = [_input(v) if has else None for v, has in zip(graph.outputs, present, strict=False)]
        self.reads = {i: _input(graph.inputs[i]) for i in reads}
        self.saved = [_input(v) for v in graph.outputs if v.dtype == SAVED]
        self.inputs = [*[v for v in self.cotangents if v is not None], *self.reads.values(), *self.saved]

    def contributions(self) -> list[list[Value]]:
        """Adds the nodes of the derivative; gives the contributions to the gradient of each input that it is taken by."""
        gradient = self.gradient
        if gradient is None:
            return []
        backward = gradient.backward
        fs = [v for v, h in zip(self.cotangents, self.graph.histories, strict=False) if v is not None and h]
        kept = self.graph.nodes[-1].args if self.saved else ()
        known = self._unpacked(kept)
        passed = [self.reads[i] for i in gradient.captured_inputs]
        passed += [known[kept.index(v)] for v in gradient._passed[1]]
        made = dict(zip(backward.inputs, [*fs, *passed], strict=True))
        for v in backward.constants:
            made[v] = value_copy(v)
            self.constants.append(made[v])
        self.nodes += [node_copy(n, made) for n in backward.nodes]
        outputs = iter(backward.outputs)
        return [[made[next(outputs)] for _ in range(n)] for n in gradient.counts]

    def _unpacked(self, kept: tuple) -> list[Value]:
        if not kept:
            return []
        node = self.node("control.unpack", (*self.saved, *[(v.shape, v.dtype) for v in kept]), list(kept))
        return node.outputs

    def node(self, name: str, args: tuple, like: list[Value]) -> Node:
        """Adds a node with results like some values."""
        node = Node(name, args)
        for v in like:
            out = Value(COMPUTED, v.shape, v.dtype)
            out.node, out.index, out.strides = node, len(node.outputs), v.strides
            node.outputs.append(out)
        self.nodes.append(node)
        return node

    def absent(self, like: Value) -> Value:
        """What stands for a contribution that does not come."""
        plain = Value(COMPUTED, like.shape, like.dtype)
        return self.node("control.absent", (like.shape, like.dtype), [plain]).outputs[0]

    def branch(self, repeats: tuple, wanted: tuple) -> Graph:
        """The graph of a branch: see Backward."""
        found = iter(self.contributions())
        outputs: list[Value] = []
        for v, n, want in zip(self.graph.inputs, repeats, wanted, strict=True):
            if want:
                own = next(found, []) if v.requires_grad else []
                outputs += [*own, *[self.absent(v) for _ in range(n - len(own))]]
        return Graph(self.inputs, self.constants, self.nodes, outputs, [OWN] * len(outputs))


def _input(value: Value) -> Value:
    found = Value(INPUT, value.shape, value.dtype)
    found.strides = None if value.node is not None else value.strides
    return found


def spread(found: Sequence, repeats: Sequence[int], wanted: Sequence[bool], needs: Sequence[bool]) -> list:
    """Contributions to gradients by the arguments of a node, behind the first, for those that are wanted as often as each is one."""
    given = iter(found)
    out = [next(given) if want else None for n, want in zip(repeats, wanted, strict=True) for _ in range(n)]
    return [None, *[g if need else None for g, need in zip(out, needs[1:], strict=True)]]


def of_operands(values: Sequence, repeats: Sequence[int]) -> list:
    """Of something for each argument behind the first, that of each operand: its first."""
    found, place = [], 0
    for n in repeats:
        found.append(values[place])
        place += n
    return found


def branches_vjp(
    xp: Any, g: tuple, needs: Sequence[bool], xs: Sequence, out: tuple, graphs: tuple, repeats: tuple
) -> list:
    """The gradients by the operands of a node with branches: the backward of the branch that ran."""
    if xp is backend.functional:
        return recorded(branches_taped, g, needs, xs, graphs, repeats)
    gs, saved = results(g, out, graphs[0])
    present = tuple([x is not None for x in gs])
    wanted = tuple(of_operands(needs[1:], repeats))
    backward = backward_branches(graphs, repeats, present, wanted)
    operands = of_operands(xs[1:], repeats)
    given = [*[x for x in gs if x is not None], *[operands[i] for i in backward.reads], *saved]
    return spread(_run(branch, xs[0], given, backward.graphs), repeats, wanted, needs)


def results(g: tuple, out: tuple, graph: Graph) -> tuple[tuple, tuple]:
    """The cotangents of the results of a node, and what was kept for backward behind them."""
    count = len(g) - (graph.outputs[-1].dtype == SAVED)
    return g[:count], out[count:]


# -- on the tape -------------------------------------------------------------------------------------------------------


def branches_taped(xs: Sequence, graphs: tuple, repeats: tuple) -> list:
    """The results of the branch that runs, as tensors of the tape."""
    graph = graphs[chosen(xs[0]._data, len(graphs))]
    return body_taped(graph, of_operands(xs[1:], repeats))


def body_taped(graph: Graph, given: Sequence) -> list:
    """The results of a graph for these tensors."""
    made = taped(graph, dict(zip(graph.inputs, given, strict=True)))
    return [x if isinstance(x, TensorBase) else wrap(x) for x in [made[v] for v in graph.outputs]]


def recorded(run: Callable, g: tuple, needs: Sequence[bool], xs: Sequence, *params: Any) -> list:
    """Gradients that have gradients: what the node did is done once more on the tape, on aliases of its operands."""
    some = next((x._data for x in xs if type(x._data) is Traced), None)
    if some is not None:
        some.recorder.refuse("a derivative goes through the derivative of a branch or a loop")
    repeats = params[-1]
    operands, wanted = of_operands(xs[1:], repeats), of_operands(needs[1:], repeats)
    aliases = [backend.functional.clone(t) if want else t for t, want in zip(operands, wanted, strict=True)]
    made = run((xs[0], *[t for t, n in zip(aliases, repeats, strict=True) for _ in range(n)]), *params)
    pairs = [(t, c) for t, c in zip(made, g, strict=True) if c is not None and t._node is not None]
    wrts = [t for t, want in zip(aliases, wanted, strict=True) if want]
    outs, cotangents = [t for t, _ in pairs], [c for _, c in pairs]
    found = iter(grad(outs, wrts, cotangents, create_graph=True, allow_unused=True) if pairs else [None] * len(wrts))
    spread: list = [None]
    for n, want in zip(repeats, wanted, strict=True):
        spread += [next(found) if want else None, *[None] * (n - 1)]
    return spread


def _run(function: Callable, *args: Any) -> Any:
    return called(f"control.{function.__name__}", function, *args, itself=False)
