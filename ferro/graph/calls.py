"""Calls of a graph as part of a program: one node on the tape, whose backward is the graph's, to any order.

Note [Calls].  Where a result has a gradient, the call is a node of its own: its forward runs `Gradient.forward`, its backward the
`backward` of those results that got a cotangent. What is kept for backward is a result of the node as well, so that a backward
that is recorded itself (`create_graph`), which is a call of the backward made of operations, hence one node again, sends gradients back to it: in
eager's order. For the same reason an argument is one as often as contributions to its gradient come, which the engine adds.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.core import mode as _mode
from ferro.core.base import LEAF, mark_inference, version_of, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.history import history
from ferro.core.node import Freed, FreedError, MultiNode, OutputRef, next_sequence
from ferro.core.plan import CalledOp, CalledPlan
from ferro.core.provenance import caller
from ferro.core.saved_values import modified
from ferro.core.shown import Node
from ferro.graph.differentiate import differentiate, refuse_overwritten
from ferro.graph.errors import CaptureError
from ferro.graph.functional import functional, has_contents
from ferro.graph.functions import effects
from ferro.graph.graph import Graph
from ferro.graph.ir import FOREIGN, GRAD, SPENT, Value
from ferro.graph.ir import Node as GraphNode
from ferro.graph.planning.replays import Replays
from ferro.graph.taped import TapedSweep, named_inputs


class Call:
    """A graph that is called with the tensors of its inputs and bound values, each once, and gives tensors.

    `values` are the outputs of its forward: the graph's, then what is kept for backward; `graded` says which have a gradient.
    """

    def __init__(self, graph: Graph) -> None:
        self.overwritten: dict[Value, set[GraphNode]] = {}
        if has_contents(graph) and _is_graded(graph):
            graph, _, self.overwritten = functional(graph)
        self.graph = graph
        self.histories = graph.histories
        if FOREIGN in self.histories:
            raise NotImplementedError("a result has its history from a custom Function, or from before the call")
        self.given: list[Value] = [*dict.fromkeys(graph.inputs), *graph.bound]
        self.edges = [1] * len(self.given)  # how often each is an argument of the node
        self.values = list(graph.outputs)
        self.graded = [i for i, h in enumerate(self.histories) if h == GRAD]
        self.spent = [i for i, h in enumerate(self.histories) if h == SPENT]
        self.gradients: dict[tuple, Any] = {}
        self.forward = Replays(self._forward() if self.graded else _short(graph))

    def _forward(self) -> Graph:
        """The forward of the pair whose backward gets the cotangents of all results."""
        gradient = self._derived(self.graded)
        inputs, computed = self.passed = gradient._passed
        self.values += [v for v in computed if v not in self.values]
        real = len(self.graded)
        self.graded += [i for i, v in enumerate(self.values) if i >= len(self.histories) and _has_gradient(v)]
        self.gradients[tuple([i < real for i in range(len(self.graded))])] = gradient
        counts = dict(zip(self._wrts(), gradient.counts, strict=True))
        self.edges = [max(counts.get(v, 1), 1) for v in self.given]
        self.at = {v: i for i, v in enumerate((*inputs, *computed))}
        self.kept = [self.values.index(v) for v in computed]
        self.plan = _Plan(self, inputs)
        return _short(gradient.forward)

    def _wrts(self) -> list[Value]:
        """What gradients are taken by."""
        return [v for v in self.given if v.requires_grad]

    def _derived(self, outputs: Sequence[int]) -> Any:
        found = differentiate(self.graph, [self.values[i] for i in outputs], self._wrts(), apart=True)
        refuse_overwritten(found, self.overwritten)
        found.short = Replays(_short(found.backward))
        return found

    def gradient(self, present: tuple) -> Any:
        """The derivative of those results that got a cotangent."""
        found = self.gradients.get(present)
        if found is None:
            some = [i for i, has in zip(self.graded, present, strict=True) if has]
            found = self.gradients[present] = self._derived(some)
        return found

    def plans(self) -> list:
        """The memory plans of the forward and of the backwards that there are by now."""
        found = [self.forward.plan, *[g.short.plan for g in self.gradients.values()]]
        return [p for p in found if p is not None]

    def __call__(self, tensors: Sequence[Any]) -> list:
        """The results: tensors, one for each output."""
        mode = _mode.MODE.get()
        count = len(self.histories)
        if self.graded and (mode is None or mode.grad):
            return self._recorded(tensors)[:count]
        found = [wrap(a) for a in self.forward(tensors)[:count]]
        if mode is not None and mode.inference:
            for t in found:
                mark_inference(t)
        if self.spent and (mode is None or mode.grad):
            _spend(found, self.spent)
        return found

    def _recorded(self, tensors: Sequence[Any]) -> list:
        """The same with a node on the tape."""
        arrays = self.forward(tensors)
        node: Any = CompiledFunctionBackward()
        edges = [t if (n := history(t)) is LEAF else n for t in [tensors[i] for i in self.plan.sources]]
        node.plan, node.outputs, node.meta, node.shape, node.dtype = self.plan, self.plan.slots, None, None, None
        node.edges = tuple([e for e in edges if e is not None])
        if len(node.edges) < len(edges):  # a cotangent, or what was kept, without a history
            node.plan = self.plan.of([i for i, e in enumerate(edges) if e is not None])
        node.seq = next_sequence()
        node.code, node.offset = caller()
        outs = [
            wrap(a, None if slot is None else OutputRef(node, i, *slot)) for i, (a, slot) in self.plan.shown(arrays)
        ]
        inputs = [tensors[i] for i in self.plan.kept_inputs]
        versions = [version_of(t) for t in inputs] + [version_of(outs[i]) if i < len(outs) else None for i in self.kept]
        versions += [version_of(tensors[i]) for i in self.plan.named]
        kept, expected = [arrays[i] for i in self.kept], [0 if v is None else v.n for v in versions]
        node.saved = inputs, kept, versions, expected, tensors
        return outs

    def backward(self, run: Any, grads: Sequence[Any], node: Any) -> list:
        """The contributions to the gradients of all arguments, for cotangents of the results (None: there is none)."""
        present = [grads[i] for i in self.graded]
        gradient = self.gradient(tuple([g is not None for g in present]))
        if type(node.saved) is Freed:
            raise FreedError
        inputs, computed, versions, expected, tensors = node.saved
        kept = len(inputs) + len(computed)
        _unchanged(node, versions[:kept], expected, [*inputs, *computed])
        given = [g if run.record else np.asarray(g) for g in present if g is not None]
        if not run.record:
            saved = [*[t._data for t in inputs], *computed]
            taken = [saved[self.at[v]] for values in gradient._passed for v in values]
            return self._spread(gradient, gradient.short([*given, *taken]))
        saved = [*inputs, *[self._kept(node, a, i) for i, a in zip(self.kept, computed, strict=True)]]
        taken = [saved[self.at[v]] for values in gradient._passed for v in values]
        with run.lock, run.user():
            try:
                twin = gradient.recorded()
                twin.call = twin.call or Call(twin.backward)
            except (NotImplementedError, CaptureError):
                named = [tensors[i] for i in self.plan.named]
                _unchanged(node, versions[kept:], expected[kept:], named)
                some = {self.values[i]: g for i, g in zip(self.graded, present, strict=True) if g is not None}
                return self._on_the_tape(saved, tensors, some)
            return self._spread(twin, twin.call([*given, *taken]))

    def _on_the_tape(self, saved: list, tensors: Sequence[Any], given: dict[Value, Any]) -> list:
        """The same by eager's formulas, which may decide by numbers."""
        kept = {v: saved[i] for v, i in self.at.items()}
        sweep = TapedSweep(self.graph, self._wrts(), dict(zip(self.given, tensors, strict=True)), kept, given)
        sweep.run()
        spread: list = []
        for v, edges in zip(self.given, self.edges, strict=True):
            if v.requires_grad:
                own = sweep.contributions(v, edges)
                spread += [*own, *[None] * (edges - len(own))]
        return spread

    def _kept(self, node: Any, array: Any, i: int) -> Any:
        """What was kept of a result, or on the way, as the tensor with its history."""
        slot = node.outputs[i]
        return wrap(array, None if slot is None else OutputRef(node, i, *slot))

    def _spread(self, gradient: Any, found: list) -> list:
        """The contributions to gradients in the order of the node's arguments, None behind those of each."""
        places = iter(gradient.gradients)
        counts = dict(zip(self._wrts(), gradient.counts, strict=True))
        spread: list = []
        for v, edges in zip(self.given, self.edges, strict=True):
            if not v.requires_grad:
                continue
            own = [found[p] for p in itertools.islice(places, counts.get(v, 0))]
            spread += [*own, *[None] * (edges - len(own))]
        return spread


def _unchanged(node: Any, versions: list, expected: list, what: Sequence[Any]) -> None:
    """RuntimeError for a saved value that was changed in place."""
    for v, n, x in zip(versions, expected, what, strict=False):
        if v is not None and v.n != n:
            modified(node, v, n, x.shape)


def _is_graded(graph: Graph) -> bool:
    """Whether a result has a gradient, itself or by what was written into it."""
    written = [history for _, history in graph.contents.values()]
    return bool({GRAD, FOREIGN}.intersection([*graph.histories, *written]))


def _has_gradient(value: Value) -> bool:
    """Whether eager would send a gradient to what a node gave."""
    node = value.node
    return node is not None and bool(node.mask) and value.dtype in INEXACT


def _short(graph: Graph) -> Graph:
    """The graph that runs: with all passes, unless it writes into what it was given, of which nobody knows then who shares it."""
    given = {*graph.inputs}
    if any(given.intersection(node.operands) for node in graph.nodes if effects(node.function).writes):
        return graph
    return graph.optimise(differentiable=False)


class CompiledFunctionBackward(Node, MultiNode):
    """The call on the tape."""

    __slots__ = ()
    writes_view = False


class _Op(CalledOp):
    name, backward_name = "compiled function", "CompiledFunctionBackward0"


class _Plan(CalledPlan):
    """Stands for a Plan: which arguments get gradients, and how the engine runs the backward."""

    op = _Op

    def __init__(self, call: Call, inputs: list[Value]) -> None:
        self.sources = [i for i, n in enumerate(call.edges) if call.given[i].requires_grad for _ in range(n)]
        self.arity = len(self.sources)
        self.indices = tuple(range(self.arity))
        self.kept_inputs = [call.given.index(v) for v in inputs]
        others = named_inputs(call.graph).difference(inputs)  # which only a formula that runs on the tape reads
        self.named = [i for i, v in enumerate(call.given) if v in others]
        self.slots = tuple([(v.shape, v.dtype) if i in call.graded else None for i, v in enumerate(call.values)])
        self.count = len(call.histories)
        self.user = call.backward
        self._of: dict[tuple, _Plan] = {}

    def of(self, indices: Sequence[int]) -> _Plan:
        """The same where the other arguments need no gradient."""
        key = tuple(indices)
        if key not in self._of:
            self._of[key] = copy.copy(self)
            self._of[key].indices = key
        return self._of[key]

    def shown(self, arrays: list) -> Any:
        """The results that the program gets, with their numbers, and what the tape knows of them."""
        return enumerate(zip(arrays[: self.count], self.slots[: self.count], strict=True))


def _spend(outs: list, spent: Sequence[int]) -> None:
    """Gives results the history that a function leaves which called backward() on them itself: it is freed."""
    node: Any = CompiledFunctionBackward()
    node.plan, node.meta, node.shape, node.dtype = _SPENT, None, None, None
    node.outputs = tuple([(t._data.shape, t._data.dtype) if i in spent else None for i, t in enumerate(outs)])
    node.edges, node.seq = (wrap(np.zeros(()), LEAF),), next_sequence()
    node.code, node.offset = caller()
    node.saved = Freed(caller())
    for i in spent:
        outs[i]._node = OutputRef(node, i, *node.outputs[i])


def _refused(run: Any, given: list, node: Any) -> list:
    raise FreedError


class _Spent(_Plan):
    arity, indices = 1, (0,)

    def __init__(self) -> None:
        self.user = _refused


_SPENT = _Spent()
