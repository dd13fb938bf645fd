"""What a capture sees of the tape: through which tensors gradients go, and whether backward stays inside."""

from __future__ import annotations

from typing import Any

from ferro.autograd._observer import Observer, node_of
from ferro.core.apply import watched
from ferro.core.backend import HOST
from ferro.core.base import LEAF
from ferro.core.history import history
from ferro.core.node import OutputRef, next_sequence
from ferro.core.op import Op
from ferro.core.operands import is_constant
from ferro.graph.array import Traced
from ferro.graph.errors import CaptureError
from ferro.graph.ir import Node


class Watch(Observer):
    """Notes for each operation which of its tensors have a history, since that is no matter of arrays: see `detach`."""

    def __init__(self, recorder: Any) -> None:
        self.recorder, self.begun = recorder, next_sequence()
        self.nodes: dict[int, tuple[Any, Node]] = {}  # by the identity of a node of the tape: that, and the graph's

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation."""
        for x in xs:
            if x is not None:
                self.writing(x)
        before = len(self.recorder.nodes)
        result = watched(op, xs, params, mode)
        nodes = self.recorder.nodes
        made = node_of(op, result)
        if made is not None and len(nodes) > before and nodes[-1].function == op.name:
            node = nodes[-1]
            node.mask = made.plan.mask
            node.foreign = sum(1 << i for i in made.plan.indices if self._is_foreign(xs[i]))
            self.nodes[id(made)] = made, node
        return result

    def writing(self, tensor: Any) -> None:
        """Has a tensor that the function made itself (zeros) traced, as a constant, when it is first computed with or changed."""
        data = tensor._data
        if type(data) is HOST and not is_constant(tensor):
            tensor._data = Traced(data, self.recorder, self.recorder.constant(data))

    def _is_foreign(self, x: Any) -> bool:
        """Whether the history of a tensor is not what the graph says of its value."""
        value, n = getattr(x._data, "value", None), history(x)
        if n is LEAF:
            return value is not None and value.node is not None
        known = self.nodes.get(id(n.node if type(n) is OutputRef else n))
        return known is None or value is None or known[1] is not value.node

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Runs the formulas of one node, which must have been recorded since the capture began."""
        if node.seq < self.begun:
            raise CaptureError(
                f"capture: backward reaches '{node.name()}', which was recorded before the capture began; make that part of the "
                "function"
            )
        return rest()
