"""Observer: what is shown every operation, and every node that runs backward, while it is switched on."""

from __future__ import annotations

from typing import Any, Self

from ferro.batched.array import plain
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.op import Op


class Observer:
    """The base of observers: a context manager that is shown what happens inside.

    `forward` runs an operation by ``watched(op, xs, params, mode)`` and returns its result; `backward` runs a node's
    formulas by ``rest()`` and returns the gradients.  Threads of one backward call `backward` at the same time.
    """

    def __enter__(self) -> Self:
        _mode.push(self, {"observers+": (self,)})
        return self

    def __exit__(self, *exc: object) -> None:
        _mode.pull(self)

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation."""
        return watched(op, xs, params, mode)

    def recorded(self, node: Any) -> None:
        """Is told of the node of a custom Function, which is no operation."""

    def writing(self, tensor: Any) -> None:
        """Is told of a tensor that is about to be changed in place, if it is the innermost observer."""

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Runs the formulas of one node."""
        return rest()


def outputs_of(op: Op, result: Any) -> tuple:
    """The tensors that an operation returned."""
    return result if op.multi else (result,)


def node_of(op: Op, result: Any) -> Any:
    """The node that recorded the operation, or None."""
    for t in outputs_of(op, result):
        node = t._node
        if node is not None:
            return getattr(node, "node", node)
    return None


def arrays_of(values: Any) -> list:
    """The arrays of some tensors or arrays (those of all slices, under vmap), flattened; what is neither is left out."""
    found: list = []
    for v in values:
        if isinstance(v, (tuple, list)):
            found += arrays_of(v)
        else:
            data = plain(getattr(v, "_data", v))
            if hasattr(data, "dtype") and hasattr(data, "nbytes"):
                found.append(data)
    return found
