"""Backwards of branches: graphs with the same inputs and results for each branch, of the derivative of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ferro.autograd.backward import grad
from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.graph.array import Traced, called
from ferro.graph.control.building import Builder, derived, packing
from ferro.graph.control.running import branch, chosen
from ferro.graph.differentiate import refuse_overwritten
from ferro.graph.functional import functional, has_contents
from ferro.graph.graph import Graph
from ferro.graph.ir import GRAD, OWN, Value
from ferro.graph.literals import SAVED
from ferro.graph.operands import of_operands
from ferro.graph.taped import taped


class Prepared(NamedTuple):
    """Graphs that keep what their backwards need, how often each of their inputs is an argument, and which results have a gradient."""

    graphs: tuple
    repeats: tuple
    graded: list


def prepared(graphs: Sequence[Graph]) -> Prepared:
    """Graphs of one node, captured, made ready."""
    graded = [any(g.histories[i] == GRAD for g in graphs) for i in range(len(graphs[0].outputs))]
    repeats = [1] * len(graphs[0].inputs)
    if not any(graded):
        return Prepared(tuple(graphs), tuple(repeats), graded)
    found = []
    for graph in graphs:
        graph, gradient = differentiable(graph)
        if gradient is not None:
            own = [j for j, v in enumerate(graph.inputs) if v.requires_grad]
            for j, n in zip(own, gradient.counts, strict=True):
                repeats[j] = max(repeats[j], n)
        found.append((graph, [] if gradient is None else gradient._passed[1]))
    if any(kept for _, kept in found):
        found = [(packing(graph, kept), []) for graph, kept in found]
    return Prepared(tuple([graph for graph, _ in found]), tuple(repeats), graded)


def differentiable(graph: Graph) -> tuple[Graph, Any]:
    """A graph without writes that gradients meet, and its derivative by all inputs; None if it has none (which is said when it is asked for)."""
    overwritten: dict = {}
    if has_contents(graph):
        graph, _, overwritten = functional(graph)
    try:
        gradient = derived(graph, tuple([True] * len(graph.outputs)), tuple([v.requires_grad for v in graph.inputs]))
    except NotImplementedError:
        return graph, None
    if gradient is not None:
        refuse_overwritten(gradient, overwritten)
    return graph, gradient


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
        made = [_of_branch(g, d, present, reads, repeats, wanted) for g, d in zip(graphs, found, strict=True)]
        graphs[0].derived[key] = Backward(tuple(made), reads)
    return graphs[0].derived[key]


def _of_branch(graph: Graph, gradient: Any, present: tuple, reads: list[int], repeats: tuple, wanted: tuple) -> Graph:
    """The graph of one branch: see Backward."""
    builder = Builder(graph, present, reads)
    found = iter(builder.contributions(gradient))
    outputs: list[Value] = []
    for v, n, want in zip(graph.inputs, repeats, wanted, strict=True):
        if want:
            own = next(found, []) if v.requires_grad else []
            outputs += [*own, *[builder.absent(v) for _ in range(n - len(own))]]
    return builder.graph(outputs, OWN)


def spread(found: Sequence, repeats: Sequence[int], wanted: Sequence[bool], needs: Sequence[bool]) -> list:
    """Contributions to gradients by the arguments of a node, behind the first, for those that are wanted as often as each is one."""
    given = iter(found)
    out = [next(given) if want else None for n, want in zip(repeats, wanted, strict=True) for _ in range(n)]
    return [None, *[g if need else None for g, need in zip(out, needs[1:], strict=True)]]


def branches_vjp(
    xp: Any, g: tuple, needs: Sequence[bool], xs: Sequence, out: tuple, graphs: tuple, repeats: tuple
) -> list:
    """The gradients by the operands of a node with branches: the backward of the branch that ran."""
    needs = padded(needs, xs)
    if xp is backend.functional:
        return recorded(branches_taped, g, needs, xs, graphs, repeats)
    gs, saved = results(g, out, graphs[0])
    present = tuple([x is not None for x in gs])
    wanted = tuple(of_operands(needs[1:], repeats))
    backward = backward_branches(graphs, repeats, present, wanted)
    operands = of_operands(xs[1:], repeats)
    given = [*[x for x in gs if x is not None], *[operands[i] for i in backward.reads], *saved]
    return spread(run(branch, xs[0], given, backward.graphs), repeats, wanted, needs)


def padded(needs: Sequence[bool], xs: Sequence) -> list[bool]:
    """Which arguments need a gradient; the engine leaves out those behind the last one that does."""
    return [*needs, *[False] * (len(xs) - len(needs))]


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


def recorded(on_tape: Callable, g: tuple, needs: Sequence[bool], xs: Sequence, *params: Any) -> list:
    """Gradients that have gradients: what the node did is done once more on the tape, on copies of its operands.

    Of an operand that is an argument several times, the first gets all.
    """
    some = next((x._data for x in xs if isinstance(x._data, Traced)), None)
    if some is not None:
        some.recorder.refuse("a derivative goes through the derivative of a branch or a loop")
    first: dict[int, Any] = {}
    for x, need in zip(xs, needs, strict=True):
        if id(x) not in first:
            first[id(x)] = backend.functional.clone(x) if need else x
    made = on_tape(tuple([first[id(x)] for x in xs]), *params)
    pairs = [(t, c) for t, c in zip(made, g, strict=False) if c is not None and t._node is not None]
    wrts = {id(x): first[id(x)] for x, need in zip(xs, needs, strict=True) if need}
    found: list = [None] * len(wrts)
    if pairs:
        outs, cotangents = [t for t, _ in pairs], [c for _, c in pairs]
        found = list(grad(outs, list(wrts.values()), cotangents, create_graph=True, allow_unused=True))
    gradients = dict(zip(wrts, found, strict=True))
    return [gradients.pop(id(x), None) for x in xs]


def run(function: Callable, *args: Any) -> Any:
    return called(f"control.{function.__name__}", function, *args, itself=False)
