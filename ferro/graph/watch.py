"""What a capture sees of the tape: through which tensors gradients go, and whether backward stays inside."""

from __future__ import annotations

from typing import Any

from ferro.autograd._observer import Observer, node_of
from ferro.core.apply import watched
from ferro.core.base import LEAF
from ferro.core.history import history
from ferro.core.node import OutputRef, next_sequence
from ferro.core.op import Op
from ferro.core.operands import is_constant
from ferro.core.primitives import COPY_SLICES
from ferro.graph.array import Traced, traced
from ferro.graph.ir import Node
from ferro.graph.there import is_real


class Watch(Observer):
    """Notes for each operation which of its tensors have a history, since that is no matter of arrays: see `detach`."""

    def __init__(self, recorder: Any) -> None:
        self.recorder, self.begun = recorder, next_sequence()
        self.nodes: dict[int, tuple[Any, Node]] = {}  # by the identity of a node of the tape: that, and the graph's

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation."""
        if self.recorder.thread is None:  # (released)
            return watched(op, xs, params, mode)
        for x in xs:
            if x is not None:
                self.writing(x)
        if self.recorder.frame is not None:
            self.recorder.frame.read(xs)
        before = len(self.recorder.nodes)
        result = watched(op, xs, params, mode)
        nodes = self.recorder.nodes
        made = node_of(op, result)
        if made is not None and len(nodes) > before and nodes[-1].function == op.name:
            node = nodes[-1]
            kinds = {i: self.history_of(xs[i]) for i in made.plan.indices}
            node.mask = sum(1 << i for i, kind in kinds.items() if kind != "leaf")
            node.foreign = sum(1 << i for i, kind in kinds.items() if kind == "foreign")
            if node.contents is not None:
                followed = {i: self.history_of(xs[i], _read(op, xs[i]._data)) for i in made.plan.indices}
                node.contents = (*node.contents[:2], sum(1 << i for i, k in followed.items() if k == "foreign"))
            self.nodes[id(made)] = made, node
            if op is COPY_SLICES:
                self.recorder.holds(xs[0]._data, node.outputs[0])
        return result

    def writing(self, tensor: Any) -> None:
        """Has a tensor that the function made itself (zeros) traced, as a constant, when it is first computed with or changed."""
        data = tensor._data
        if is_real(data) and not is_constant(tensor):
            tensor._data = traced(data, self.recorder, self.recorder.constant(data))

    def history_of(self, x: Any, value: Any = None) -> str:
        """Whether the history of a tensor is what the graph says of its value ("grad"), or lies elsewhere ("foreign").

        "leaf": the function made a leaf of it (`requires_grad_`), where gradients end; "": it has no history. value: what it is read as (default:
        the value of its array).
        """
        n = history(x)
        if n is None:
            return ""
        value = value or getattr(x._data, "value", None)
        before = self.recorder.external.get(id(x._data))
        if before is not None and (before is x if n is LEAF else n is history(before)):
            return "grad"
        if n is LEAF:
            return "leaf"
        known = self.nodes.get(id(n.node if type(n) is OutputRef else n))
        return "grad" if known is not None and value is not None and known[1] is value.node else "foreign"

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Runs the formulas of one node, which must have been recorded since the capture began."""
        if node.seq < self.begun:
            self.recorder.end(
                f"capture: backward reaches '{node.name()}', which was recorded before the capture began; make that part of the "
                "function"
            )
        varying = getattr(node.plan.op, "varying", None)
        if varying is None or run.record:
            return rest()
        self.recorder.gathered = _taken(run.grads, node, varying)
        try:
            return rest()
        finally:
            self.recorder.gathered = {}


def _taken(grads: dict, node: Any, varying: Any) -> dict[int, Any]:
    """By the numbers of a loop's invariants, what there is of their gradients, taken out of the engine's hands: the loop goes on adding to it."""
    saved = dict(zip(node.plan.names, node.saved, strict=True))
    count = len(saved["xs"]) - varying(*[saved[name] for name in node.plan.op.params])
    found = {}
    for i, t in zip(node.plan.indices, node.edges, strict=True):
        if i < count and type(t) is OutputRef and (buffer := grads.get(t.node)) is not None:
            found[i], buffer[t.index] = buffer[t.index], None
        elif i < count and t in grads:
            found[i] = grads.pop(t)
    return {i: g for i, g in found.items() if g is not None}


def _read(op: Op, array: Any) -> Any:
    """What an operation reads an array as if tensors are followed by what was written into them; see Recorder._follow."""
    if not isinstance(array, Traced):
        return None
    return array.content or (array.before if op is COPY_SLICES else None)
