"""What a program sees of the tape: nodes with hooks, edges and saved values, and the end of the tape at a leaf."""

from __future__ import annotations

import math
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from ferro.core.base import meta_of
from ferro.core.calling import add, call
from ferro.core.node import NAMED, Handle, MultiNode, NodeMeta, OutputRef, hooks_of, moves_before, node_meta, table
from ferro.core.node import Node as TapeNode
from ferro.core.saved import attribute, attributes, metadata
from ferro.native import locks


class Node(TapeNode):
    """A node that a program looks at."""

    __slots__ = ()

    @property
    def next_functions(self) -> tuple:
        """Pairs (node, output number) that the gradients of this node's inputs go to; (None, 0) where none is needed."""
        found: list = [(None, 0)] * self.plan.arity
        for index, edge in zip(self.plan.indices, self.edges, strict=True):
            if type(edge) is OutputRef:
                found[index] = (shown(edge.node), edge.index)
            elif isinstance(edge, TapeNode):
                found[index] = (shown(edge), 0)
            else:
                found[index] = (AccumulateGrad(edge, self.seq), 0)
        return tuple(found)

    @property
    def metadata(self) -> dict:
        """A dictionary for the user's own notes."""
        return table(node_meta(self), "metadata")

    def _sequence_nr(self) -> int:
        return self.seq

    def register_hook(self, hook: Any) -> Handle:
        """Calls ``hook(grad_inputs, grad_outputs)`` after the node has run; it may return new grad_inputs."""
        return Handle(table(node_meta(self), "post"), hook)

    def register_prehook(self, hook: Any) -> Handle:
        """Calls ``hook(grad_outputs)`` before the node runs; it may return new grad_outputs."""
        return Handle(table(node_meta(self), "prehooks"), hook)

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the node's inputs, given those of its outputs: backward through this node alone."""
        return call(self, grads)

    requires_grad = True

    @property
    def _input_metadata(self) -> tuple:
        """Shape, dtype and device of the gradients that the node takes."""
        return metadata(self.outputs if isinstance(self, MultiNode) else [(self.shape, self.dtype)])

    def _register_hook_dict(self, index: int) -> dict:
        """The tensor hooks of output `index`."""
        return hooks_of(self, index)


class _Recorded(Node):
    """The node of an operation. (Its `__getattr__` slows down every attribute, so only nodes that are looked at have it.)"""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """``node._saved_<name>`` or ``node._raw_saved_<name>``: what the node keeps for its formulas."""
        if name.startswith(("_saved_", "_raw_saved_")):
            return attribute(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list:
        return [*object.__dir__(self), *attributes(self)]


_classes: dict[tuple[str, type], type] = {}


def shown(node: Any) -> Any:
    """A node as the program sees it: ``type(node).__name__`` is its name, as in PyTorch, for tools that draw graphs.

    The class is changed when it is first looked at, so that recording a node costs nothing for it.
    """
    kind = type(node)
    if kind is TapeNode or kind is MultiNode:
        key = (node.name(), kind)
        cls = _classes.get(key)
        if cls is None:
            cls = type(
                key[0], (_Recorded, kind), {"__slots__": (), "__module__": __name__, "__doc__": f"The node {key[0]}."}
            )
            NAMED[cls] = kind
            cls = _classes.setdefault(key, cls)
        node.__class__ = cls
    return node


class AccumulateGrad(Node):
    """The end of the tape at a leaf tensor, as shown by ``next_functions``.

    The tape itself points at the leaf; this object is made when asked for, one for a leaf while somebody holds it.  What
    is hung on it (hooks, metadata) belongs to the leaf.

    seq: which of those that a leaf has had, if it was given other memory by set_(): that to which nodes of this age lead.
    """

    __slots__ = ("age", "variable")
    plan = None  # it keeps nothing
    _living: ClassVar[WeakValueDictionary] = WeakValueDictionary()

    def __new__(cls, variable: Any, seq: float = math.inf) -> AccumulateGrad:
        age = moves_before(variable, seq)
        with locks.MAKING:
            self = cls._living.get((id(variable), age))
            if self is None:
                self = object.__new__(cls)
                self.variable, self.age = variable, age
                self = cls._living.setdefault((id(variable), age), self)
            return self

    def name(self) -> str:
        """ "torch::autograd::AccumulateGrad" in PyTorch; the plain name here."""
        return "AccumulateGrad"

    @property
    def meta(self) -> NodeMeta | None:  # type: ignore[override]
        """Hooks and metadata, kept by the leaf."""
        meta = self.variable._meta
        return None if meta is None else meta.end

    @meta.setter
    def meta(self, value: NodeMeta | None) -> None:
        meta_of(self.variable).end = value

    @property
    def next_functions(self) -> tuple:
        """Nothing lies behind a leaf."""
        return ()

    @property
    def _input_metadata(self) -> tuple:
        return metadata([(self.variable._data.shape, self.variable._data.dtype)])

    def __call__(self, *grads: Any) -> tuple:
        """Adds a gradient to the leaf's."""
        add(self, self.variable, grads)
        return ()

    def _sequence_nr(self) -> int:
        return 2**64 - 1  # runs as soon as it can

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"
