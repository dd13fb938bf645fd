"""Reverse mode on graphs: the gradient formulas of the operations between `f` and `wrt` run once, and their steps become nodes.

Note [Gradients of graphs].  Nodes are visited from the last to the first, which is the order of eager's engine, so
contributions to one gradient come in eager's order; they are added when the gradient is read, in one node (`array.total`).
A cotangent that nothing gives stays absent. Broadcasting is undone, and dtypes are restored, by the engine's own
function. Eager's masks (watch.py) say through which inputs a gradient goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ferro.core.accumulate import conform
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT
from ferro.core.op import OPS
from ferro.cpu.sparse_rows import Rows
from ferro.graph.array import Traced, called, functions
from ferro.graph.copies import alive, node_copy, value_copy
from ferro.graph.formulas import gradients, outputs_of, stand_in, tensors_of
from ferro.graph.functions import total, written_by
from ferro.graph.ir import BOUND, CAPTURED, COMPUTED, CONSTANT, FOREIGN, INPUT, OWN, Node, Value
from ferro.graph.recorder import Recorder

_FOREIGN = "a custom Function, or from another part of the tape that is not in the graph"


class Completed(NamedTuple):
    """The gradient of a value in a joint graph, the cotangent that it begins with, and the node that completes it."""

    gradient: Value
    seed: Value | None
    node: Node | None


class Gradient:
    """A graph's derivative, as graphs.

    - `joint`: inputs and cotangents -> outputs and gradients
    - `forward`: the graph, with the captured values as further outputs; the first `real_outputs` are the graph's own
    - `backward`: cotangents and captured values -> gradients
    - `cotangents`: for each cotangent, to which output of `forward` it belongs (-1: to none)
    - `captured_inputs`: which inputs of `forward` (behind them its bound values) `backward` takes behind the cotangents
    - `captured_outputs`: which outputs of `forward` it takes behind those
    - `gradients`: for each of `wrt`, which output of `backward` is its gradient; None: it has none
    """

    forward: Any
    backward: Any
    joint: Any
    cotangents: list[int]
    captured_inputs: list[int]
    captured_outputs: list[int]
    gradients: list[int | None]
    real_outputs: int

    def __init__(self, completed: dict[Value, Completed]) -> None:
        self._completed = completed

    def gradient_of(self, value: Value) -> Completed | None:
        """The gradient of a value of the graph that was differentiated, in `joint`; None if it lies on no path."""
        return self._completed.get(value)


def differentiate(graph: Any, f: Any, wrt: Any) -> Gradient:
    """See Graph.differentiate."""
    _refuse_writes(graph)
    fs = _chosen_f(graph, f)
    for v, history in zip(graph.outputs, graph.histories, strict=True):
        if history == FOREIGN and v in fs:
            made = f"'{v.node.function}' at {v.node.line}" if v.node is not None else "an input"
            raise NotImplementedError(f"differentiate: f {v!r}, {made}, has its history from {_FOREIGN}")
    wrts = _chosen_wrt(graph, wrt)
    sweep = _Sweep(graph, fs, wrts)
    with np.errstate(all="ignore"):
        sweep.run()
        found = [sweep.total(v) for v in wrts]
    grads = [None if g is None else sweep.recorder.converted(g) for g in found]
    return _assembled(graph, fs, wrts, sweep, grads)


class _Sweep:
    """One walk from the last node to the first."""

    def __init__(self, graph: Any, fs: list[Value], wrts: list[Value]) -> None:
        self.graph, self.recorder = graph, Recorder()
        self.arrays: dict[Value, Any] = {}
        self.parts: dict[Value, list] = {}
        self.totals: dict[Value, Any] = {}
        self.seeds: dict[Value, Value] = {}
        self.cotangents = []
        for v in graph.constants:  # numbers of the program, by which formulas may decide
            if not v.written and v.array is not None:
                self.arrays[v] = v.array
                self.recorder.constants[id(v.array)] = v
        self.wanted = _on_the_way(graph.nodes, wrts)
        for v in fs:
            seed = Value(INPUT, v.shape, v.dtype)
            seed.name = f"cotangent {len(self.cotangents)}"
            self.cotangents.append(seed)
            self.seeds.setdefault(v, seed)
            self.parts.setdefault(v, []).append(self.array(seed))

    def array(self, value: Value) -> Any:
        """The traced array that stands for a value; of a constant, its own."""
        found = self.arrays.get(value)
        if found is None:
            found = self.arrays[value] = Traced(stand_in(value), self.recorder, value)
        return found

    def total(self, value: Value) -> Any:
        """The gradient of a value: its contributions, added in their order; None if there are none."""
        if value not in self.totals:
            parts = self.parts.get(value)
            if parts is None:
                return None
            self.totals[value] = parts[0] if len(parts) == 1 else called("array.total", total, *parts)
        return self.totals[value]

    def run(self) -> None:
        """Visits all nodes that a gradient reaches."""
        for index in range(len(self.graph.nodes) - 1, -1, -1):
            node = self.graph.nodes[index]
            op = OPS.get(node.function)
            if op is None or not node.mask:
                continue
            xs = tensors_of(op, node)
            outs = outputs_of(op, node)
            if all(v not in self.parts for v in outs):
                continue
            self.recorder.place = node
            self.recorder.of = index
            if node.foreign:
                raise NotImplementedError(
                    f"differentiate: '{node.function}' at {node.line} reads what has its history from {_FOREIGN}"
                )
            want = [i for i, x in enumerate(xs) if node.mask >> i & 1 and x in self.wanted]
            if want:
                gs = [self.total(v) for v in outs]
                for i, gx in zip(want, gradients(op, node, want, gs, self.array, functions), strict=True):
                    self._add(xs[i], gx, node)

    def _add(self, value: Value, gx: Any, node: Node) -> None:
        if gx is None:
            return
        if type(gx) is Rows:
            raise NotImplementedError(f"differentiate: '{node.function}' at {node.line} has a sparse gradient")
        self.parts.setdefault(value, []).append(conform(gx, value.shape, value.dtype, False))


def _on_the_way(nodes: Iterable[Node], wrts: list[Value]) -> set[Value]:
    """The values that depend on `wrts` by a way that gradients go."""
    wanted = set(wrts)
    for node in nodes:
        op = OPS.get(node.function)
        if op is None or not node.mask:
            continue
        if node.foreign or any(node.mask >> i & 1 and x in wanted for i, x in enumerate(tensors_of(op, node))):
            wanted.update(
                [
                    v
                    for k, v in enumerate(outputs_of(op, node))
                    if v and v.dtype in INEXACT and k not in op.nondiff_indices
                ]
            )
    return wanted


# -- what is asked for -------------------------------------------------------------------------------------------------


def _refuse_writes(graph: Any) -> None:
    """Writes are followed by no gradient yet. They may go into bound tensors that gradients do not meet: running statistics."""
    reached: set[Value] = set()
    met: set[Value] = set()
    for node in graph.nodes:
        for value in written_by(node):
            if value.kind != BOUND or value.requires_grad:
                _refuse_write(node)
            reached.add(value)
        if node.mask:
            met.update([*node.operands, *node.outputs])
    if not reached:
        return
    for node in graph.nodes:
        if not reached.isdisjoint(node.operands) and not node.mask:
            reached.update(node.outputs)
    shown = [v.tensor._data for v in met if v.kind == BOUND and v.tensor is not None]
    for node in graph.nodes:
        for value in written_by(node):
            tensor = value.tensor
            same = tensor is not None and any(np.may_share_memory(tensor._data, a) for a in shown)
            if same or not reached.isdisjoint(met):
                _refuse_write(node)


def _refuse_write(node: Node) -> NoReturn:
    raise NotImplementedError(
        f"differentiate: '{node.function}' at {node.line} writes into memory that gradients meet, which is not followed yet; compute "
        "a new tensor instead"
    )


def _value(graph: Any, which: Any, among: Sequence[Value], what: str) -> Value:
    """The value that a number, a value or a tensor means."""
    if isinstance(which, Value):
        if which not in set(graph.values()):
            raise ValueError(f"differentiate: {what} {which!r} is no value of this graph")
        return which
    if isinstance(which, TensorBase):
        for v in graph.bound:
            if v.tensor is which:
                return v
        raise ValueError(
            f"differentiate: {what} is a tensor of shape {list(which._data.shape)} that the graph does not read"
        )
    if isinstance(which, int) and -len(among) <= which < len(among):
        return among[which]
    raise ValueError(
        f"differentiate: {what} is {which!r}; expected a value of the graph, a bound tensor or one of {len(among)} numbers"
    )


def _listed(which: Any) -> list:
    return list(which) if not isinstance(which, (int, Value, TensorBase)) else [which]


def _chosen_f(graph: Any, f: Any) -> list[Value]:
    if f is None:
        found = [v for v, history in zip(graph.outputs, graph.histories, strict=True) if history]
        if not found:
            raise ValueError("differentiate: no output of the graph has a gradient")
        return found
    found = [_value(graph, which, graph.outputs, "f") for which in _listed(f)]
    for v in found:
        if v.dtype not in INEXACT:
            raise ValueError(f"differentiate: f {v!r} is {v.dtype}, which has no gradient")
    return found


def _chosen_wrt(graph: Any, wrt: Any) -> list[Value]:
    among = [*graph.inputs, *graph.bound]
    if wrt is None:
        return [v for v in dict.fromkeys(among) if v.requires_grad]
    found = [_value(graph, which, among, "wrt") for which in _listed(wrt)]
    for v in found:
        if not (v.requires_grad if v.kind != COMPUTED else v.node.mask):  # type: ignore[union-attr]
            name = f" ({v.name!r})" if v.name else ""
            raise ValueError(
                f"differentiate: wrt {v!r}{name} did not require a gradient when the graph was captured; call requires_grad_() before"
            )
    return found


# -- graphs ------------------------------------------------------------------------------------------------------------


def _assembled(graph: Any, fs: list, wrts: list, sweep: _Sweep, grads: list) -> Gradient:
    """The three graphs."""
    make = type(graph)
    own = [g for g in grads if g is not None]
    nodes = alive(sweep.recorder.nodes, [*own, *_values(sweep.totals.values())])
    made: dict[Value, Value] = {}
    values = [
        made.setdefault(v, value_copy(v)) for v in (*dict.fromkeys(graph.inputs), *sweep.cotangents, *graph.bound)
    ]
    values += [made.setdefault(v, value_copy(v)) for v in (*graph.constants, *sweep.recorder.values)]
    copies = [node_copy(n, made) for n in (*graph.nodes, *nodes)]
    completed = {
        v: Completed(made[g.value], made.get(sweep.seeds.get(v)), made[g.value].node)  # type: ignore[arg-type]
        for v, g in sweep.totals.items()
        if type(g) is Traced and g.value in made
    }
    found = Gradient(completed)
    inputs = [made[v] for v in (*graph.inputs, *sweep.cotangents)]
    found.joint = make(
        inputs, values, copies, [made[v] for v in (*graph.outputs, *own)], [*graph.histories, *[OWN] * len(own)]
    )
    places = iter(range(len(own)))
    found.gradients = [None if g is None else next(places) for g in grads]
    found.real_outputs = len(graph.outputs)
    _split(graph, alive(nodes, own), own, sweep, found)
    found.cotangents = [graph.outputs.index(v) if v in graph.outputs else -1 for v in fs]
    return found


def _values(arrays: Iterable[Any]) -> list[Value]:
    return [a.value for a in arrays if type(a) is Traced]


def _split(graph: Any, nodes: list[Node], own: list[Value], sweep: _Sweep, found: Gradient) -> None:
    """The graphs `forward` and `backward`, and what passes from one to the other."""
    make = type(graph)
    made_there = {v for n in nodes for v in n.outputs}
    read = dict.fromkeys(v for v in (*[o for n in nodes for o in n.operands], *own) if v not in made_there)
    among = list(dict.fromkeys([*graph.inputs, *graph.bound]))
    positions = {v: i for i, v in reversed(list(enumerate([*graph.inputs, *graph.bound])))}
    inputs = [v for v in among if v in read]
    computed = [v for n in graph.nodes for v in n.outputs if v in read]
    found.captured_inputs = [positions[v] for v in inputs]
    outputs = [*graph.outputs, *[v for v in computed if v not in graph.outputs]]
    found.captured_outputs = [outputs.index(v) for v in computed]
    copies: dict[Value, Value] = {}
    values = [copies.setdefault(v, value_copy(v)) for v in (*among, *graph.constants)]
    kept = [node_copy(n, copies) for n in graph.nodes]
    more = [CAPTURED] * (len(outputs) - len(graph.outputs))
    found.forward = make(
        [copies[v] for v in graph.inputs], values, kept, [copies[v] for v in outputs], [*graph.histories, *more]
    )
    copies = {v: value_copy(v, INPUT) for v in (*sweep.cotangents, *inputs, *computed)}
    taken = list(copies.values())
    constants = [copies.setdefault(v, value_copy(v)) for v in read if v.kind == CONSTANT]
    kept = [node_copy(n, copies) for n in nodes]
    found.backward = make(taken, constants, kept, [copies[v] for v in own], [OWN] * len(own))
