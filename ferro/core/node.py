"""The tape: nodes, the outputs of nodes with several outputs, and what a user may hang on them."""

from __future__ import annotations

from itertools import count
from typing import Any

next_sequence = count().__next__


class FreedError(RuntimeError):
    """A formula asked for saved values that are freed; the engine turns it into a RuntimeError that says what to do."""


class Freed:
    """Stands for the saved values of a node whose graph has been freed."""

    __slots__ = ()

    def __getitem__(self, index: int) -> Any:
        raise FreedError

    def __repr__(self) -> str:
        return "<freed>"


FREED = Freed()


class NodeMeta:
    """The rare belongings of a node: hooks, version guards, metadata, forward traceback."""

    __slots__ = ("guards", "metadata", "packed", "post", "pre", "prehooks", "retained", "tangents", "trace")

    def __init__(self) -> None:
        self.pre: dict[int, dict] | None = None  # output number -> tensor hooks
        self.retained: dict[int, Any] | None = None  # output number -> weak reference to a tensor that retains its grad
        self.prehooks: dict | None = None
        self.post: dict | None = None
        self.guards: list | None = None  # (version, number when saved, name of the saved value)
        self.metadata: dict | None = None
        self.packed = False  # some saved values are in the hands of saved-tensor hooks
        self.trace: Any = None
        self.tangents: dict | None = (
            None  # forward mode: output number -> tangents by level of that output, where it is saved
        )


class Node:
    """One recorded operation: plan (what to run), edges (where gradients go), saved (what the formulas read).

    An edge is a Node, a `Pick` (one output of a node with several) or a leaf tensor; `shape` and `dtype` are those of
    the output, hence of its gradient.
    """

    __slots__ = ("__weakref__", "dtype", "edges", "meta", "plan", "saved", "seq", "shape")

    plan: Any
    edges: tuple
    saved: Any
    shape: tuple
    dtype: Any
    seq: int
    meta: NodeMeta | None

    def name(self) -> str:
        """The name PyTorch gives the node, for example ``"MulBackward0"``."""
        return self.plan.op.backward_name

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple:
        """Pairs (node, output number) that the gradients of this node's inputs go to; (None, 0) where none is needed."""
        found: list = [(None, 0)] * self.plan.arity
        for index, edge in zip(self.plan.indices, self.edges, strict=True):
            if type(edge) is Pick:
                found[index] = (edge.node, edge.index)
            elif isinstance(edge, Node):
                found[index] = (edge, 0)
            else:
                found[index] = (AccumulateGrad(edge), 0)
        return tuple(found)

    @property
    def metadata(self) -> dict:
        """A dictionary for the user's own notes."""
        meta = node_meta(self)
        if meta.metadata is None:
            meta.metadata = {}
        return meta.metadata

    def _sequence_nr(self) -> int:
        return self.seq

    def register_hook(self, hook: Any) -> Handle:
        """Calls ``hook(grad_inputs, grad_outputs)`` after the node has run; it may return new grad_inputs."""
        meta = node_meta(self)
        if meta.post is None:
            meta.post = {}
        return Handle(meta.post, hook)

    def register_prehook(self, hook: Any) -> Handle:
        """Calls ``hook(grad_outputs)`` before the node runs; it may return new grad_outputs."""
        meta = node_meta(self)
        if meta.prehooks is None:
            meta.prehooks = {}
        return Handle(meta.prehooks, hook)

    def _register_hook_dict(self, index: int) -> dict:
        """The tensor hooks of output `index`."""
        meta = node_meta(self)
        if meta.pre is None:
            meta.pre = {}
        return meta.pre.setdefault(index, {})


def node_meta(node: Node) -> NodeMeta:
    """The node's rare belongings, made at first use."""
    meta = node.meta
    if meta is None:
        meta = node.meta = NodeMeta()
    return meta


class MultiNode(Node):
    """A node with several outputs: its gradient is a list with None for outputs that have none."""

    __slots__ = ("outputs",)
    outputs: tuple  # (shape, dtype) per output; None where the output is not differentiable


class Pick:
    """Output `index` of a MultiNode, as the history of one tensor."""

    __slots__ = ("dtype", "index", "node", "shape")

    def __init__(self, node: MultiNode, index: int, shape: tuple, dtype: Any) -> None:
        self.node, self.index, self.shape, self.dtype = node, index, shape, dtype


class AccumulateGrad:
    """The end of the tape at a leaf tensor, as shown by ``next_functions``.

    The tape itself points at the leaf; this object is made when asked for, equal for equal leaves.
    """

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """ "torch::autograd::AccumulateGrad" in PyTorch; the plain name here."""
        return "AccumulateGrad"

    @property
    def next_functions(self) -> tuple:
        """Nothing lies behind a leaf."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable) ^ 0x5F

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


class Handle:
    """Removes a hook: ``handle.remove()``, or leaving it as a context manager."""

    __slots__ = ("hooks", "key")

    _next = count().__next__

    def __init__(self, hooks: dict, hook: Any) -> None:
        self.hooks = hooks
        self.key = Handle._next()
        hooks[self.key] = hook

    def remove(self) -> None:
        """Takes the hook away; harmless when it is gone already."""
        self.hooks.pop(self.key, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
