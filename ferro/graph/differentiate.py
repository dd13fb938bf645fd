"""Reverse mode on graphs: the gradient formulas of the operations between `f` and `wrt` run once, and their steps become nodes.

Note [Gradients of graphs].  Nodes are visited from the last to the first, which is the order of eager's engine, so
contributions to one gradient come in eager's order; they are added when the gradient is read, in one node (`array.total`).
A cotangent that nothing gives stays absent. Broadcasting is undone, and dtypes are restored, by the engine's own
function. Eager's masks (watch.py) say through which inputs a gradient goes.

Note [Gradients of gradients].  The steps of a backward are functions of arrays, which have no derivative, and fused ones
among them round otherwise than the formulas that the tape runs where a backward is recorded. So a backward that is to be
differentiated is made once more, with the recorded formulas, whose steps are operations (`again`): what `create_graph` is
in eager. It has the same inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT
from ferro.graph.copies import alive, node_copy, value_copy
from ferro.graph.functional import functional, has_contents
from ferro.graph.functions import has_any_shape, written_by
from ferro.graph.ir import BOUND, CAPTURED, COMPUTED, CONSTANT, FOREIGN, INPUT, Node, Value
from ferro.graph.passes.pair import DEFAULT as PAIR
from ferro.graph.passes.pair import optimised_pair
from ferro.graph.sweep import FROM_ELSEWHERE, RecordedSweep, Sweep
from ferro.graph.there import shares


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
    counts: list[int]
    readers: dict[Value, set[Node]]  # by what formulas named, the nodes whose formulas did
    short: Any = None  # of a call (calls.py): the backward that runs, and the call of it
    call: Any = None
    recorded: Callable[[], Gradient]
    _passed: tuple[list[Value], list[Value]]  # what `backward` takes, as values of the graph that was differentiated

    def __init__(self, completed: dict[Value, Completed]) -> None:
        self.completed = completed

    def gradient_of(self, value: Value) -> Completed | None:
        """The gradient of a value of the graph that was differentiated, in `joint`; None if it lies on no path."""
        return self.completed.get(value)

    def optimise(self, passes: Sequence[str] = PAIR, *, fast_math: bool = False, debug: bool = False) -> Gradient:
        """The same of shorter graphs; see Graph.optimise. `optimised` of each graph says what the passes found.

        A further pass, "captures": what `forward` passes on to `backward` is passed on once, only if it is read, and not if it
        is a constant. All three are differentiated again as what they were before.
        """
        return optimised_pair(self, passes, fast_math, debug)


def differentiate(graph: Any, f: Any, wrt: Any, apart: bool = False) -> Gradient:
    """See Graph.differentiate. apart: the contributions to each gradient, in eager's order, instead of their sum.

    Of those, `counts` says how many there are for each of `wrt`, and ``recorded()`` is the same of operations, which can be differentiated.
    """
    if graph.again is not None:
        twin = graph.again()
        return differentiate(twin, _in_twin(graph, twin, f), _in_twin(graph, twin, wrt), apart)
    if has_contents(graph):
        return _of_functional(graph, f, wrt, apart)
    _refuse_writes(graph)
    fs = _chosen_f(graph, f)
    for v, history in zip(graph.outputs, graph.histories, strict=True):
        if history == FOREIGN and v in fs:
            made = f"'{v.node.function}' at {v.node.line}" if v.node is not None else "an input"
            raise NotImplementedError(f"differentiate: f {v!r}, {made}, has its history from {FROM_ELSEWHERE}")
    wrts = _chosen_wrt(graph, wrt)
    sweep = Sweep(graph, fs, wrts, apart)
    with np.errstate(all="ignore"):
        sweep.run()
        found = _found(sweep, wrts)
    gradient = _assembled(graph, fs, wrts, sweep, found, None)

    @cache
    def again() -> Gradient:
        """The same with operations in the place of the steps of formulas, which can be differentiated again."""
        with RecordedSweep(graph, fs, wrts, apart) as twin, np.errstate(all="ignore"):
            twin.run()
            return _assembled(graph, fs, wrts, twin, _found(twin, wrts), gradient)

    gradient.recorded = again
    gradient.joint.again = lambda: again().joint
    gradient.backward.again = lambda: again().backward
    return gradient


def _of_functional(graph: Any, f: Any, wrt: Any, apart: bool) -> Gradient:
    """The same of a graph that writes in place: the derivative of the one without these writes, for values of the first."""
    twin, made, overwritten = functional(graph)

    def mapped(which: Any) -> Any:
        if isinstance(which, (list, tuple)):
            return [mapped(w) for w in which]
        return made.get(which, which) if isinstance(which, Value) else which

    found = differentiate(twin, mapped(f), mapped(wrt), apart)
    refuse_overwritten(found, overwritten)
    found.completed = {old: found.completed[new] for old, new in made.items() if new in found.completed}
    return found


def refuse_overwritten(found: Gradient, overwritten: dict[Value, set[Node]]) -> None:
    """NotImplementedError where eager raises, too: a gradient needs what was written over since."""
    lost = [v for v in found._passed[1] if v in overwritten and not found.readers.get(v, set()) <= overwritten[v]]
    if lost:
        node = lost[0].node
        raise NotImplementedError(
            f"differentiate: a gradient needs {lost[0]!r}, made by '{node.function}' at {node.line}, into which the function writes afterwards"  # type: ignore[union-attr]
        )


def _found(sweep: Any, wrts: list[Value]) -> list:
    """The gradients by `wrts`, or the contributions to them one after the other."""
    if not sweep.apart:
        return [sweep.total(v) for v in wrts]
    return [part for v in wrts for part in sweep.parts.get(v, [])]


def _in_twin(graph: Any, twin: Any, which: Any) -> Any:
    """What is asked for, of the graph that stands for another one."""
    if isinstance(which, (list, tuple)):
        return [_in_twin(graph, twin, w) for w in which]
    for mine, its in ((graph.inputs, twin.inputs), (graph.bound, twin.bound), (graph.outputs, twin.outputs)):
        if isinstance(which, Value) and which in mine:
            return its[mine.index(which)]
    return which


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
            same = tensor is not None and any(shares(tensor._data, a) for a in shown)
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
        found = [v for v, h in zip(graph.outputs, graph.histories, strict=True) if h and v.dtype in INEXACT]
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


def _assembled(graph: Any, fs: list, wrts: list, sweep: Any, found: list, like: Gradient | None) -> Gradient:
    """The three graphs; those of `like` have the same inputs."""
    for node in sweep.recorder.nodes:
        if has_any_shape(node.function, node.args):
            raise NotImplementedError(
                f"differentiate: the gradient of '{_maker(graph, node)}' at {node.line} has steps whose shapes depend on the data"
            )
    make = type(graph)
    grads = [None if g is None else sweep.value_of(g) for g in found]
    histories = [sweep.history_of(g) for g in found if g is not None]
    own = [g for g in grads if g is not None]
    totals = {v: sweep.value_of(g) for v, g in sweep.totals.items()}
    nodes = alive(sweep.recorder.nodes, [*own, *totals.values()])
    made: dict[Value, Value] = {}
    values = [
        made.setdefault(v, value_copy(v)) for v in (*dict.fromkeys(graph.inputs), *sweep.cotangents, *graph.bound)
    ]
    values += [made.setdefault(v, value_copy(v)) for v in (*graph.constants, *sweep.recorder.values)]
    copies = [node_copy(n, made) for n in (*graph.nodes, *nodes)]
    completed = {
        v: Completed(made[g], made.get(sweep.seeds.get(v)), made[g].node)  # type: ignore[arg-type]
        for v, g in totals.items()
        if g in made
    }
    gradient = Gradient(completed)
    inputs = [made[v] for v in (*graph.inputs, *sweep.cotangents)]
    for v in sweep.cotangents:
        made[v].requires_grad = sweep.requires_grad(v)
    gradient.joint = make(
        inputs, values, copies, [made[v] for v in (*graph.outputs, *own)], [*graph.histories, *histories]
    )
    places = iter(range(len(own)))
    gradient.readers = sweep.readers
    gradient.counts = [len(sweep.parts.get(v, [])) for v in wrts]
    gradient.gradients = [None if g is None else next(places) for g in grads]
    gradient.real_outputs = len(graph.outputs)
    _split(graph, alive(nodes, own), own, histories, sweep, gradient, like)
    gradient.cotangents = [graph.outputs.index(v) if v in graph.outputs else -1 for v in fs]
    return gradient


def _maker(graph: Any, node: Node) -> str:
    return graph.nodes[node.of].function if node.of is not None else node.function


def _split(
    graph: Any, nodes: list[Node], own: list[Value], histories: list[str], sweep: Any, found: Gradient, like: Any
) -> None:
    """The graphs `forward` and `backward`, and what passes from one to the other."""
    make = type(graph)
    made_there = {v for n in nodes for v in n.outputs}
    read = dict.fromkeys(v for v in (*[o for n in nodes for o in n.operands], *own) if v not in made_there)
    among = list(dict.fromkeys([*graph.inputs, *graph.bound]))
    positions = {v: i for i, v in reversed(list(enumerate([*graph.inputs, *graph.bound])))}
    inputs = [v for v in among if v in read]
    computed = [v for n in graph.nodes for v in n.outputs if v in read]
    if like is not None:
        inputs, computed = _as_captured(like, [*inputs, *computed])
    found._passed = inputs, computed
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
    for v, copy in copies.items():
        copy.requires_grad = sweep.requires_grad(v)
    taken = list(copies.values())
    constants = [copies.setdefault(v, value_copy(v)) for v in read if v.kind == CONSTANT]
    kept = [node_copy(n, copies) for n in nodes]
    found.backward = make(taken, constants, kept, [copies[v] for v in own], histories)


def _as_captured(like: Gradient, read: list[Value]) -> tuple[list[Value], list[Value]]:
    """The values that another pair of graphs passes on, which are to be enough here."""
    inputs, computed = like._passed
    missing = [v for v in read if v not in inputs and v not in computed]
    if missing:
        raise NotImplementedError(
            f"differentiate: a second derivative of this backward needs {missing[0]!r} of `forward`, which it does not take; "
            "differentiate `joint`"
        )
    return inputs, computed
