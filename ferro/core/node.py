"""The tape: nodes, the outputs of nodes with several outputs, and what a user may hang on them.

Note [Made once].  What is made at first use (the meta of a tensor or node, a version counter) must be made once, although
several threads may ask for it at once.  CPython changes threads at calls and at jumps back, and nowhere else: so the new
object is made first, and then one more look and the store follow each other without a call between them.  Signal handlers
and finalisers run at the same places.  Where threads run Python at the same time, `locks.once` takes a lock for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from ferro.native import locks

sequence = count(1)  # (0 stands for none)
next_sequence = sequence.__next__
if locks.GUARDED:  # (a count may give two threads that run at the same time the same number)

    def next_sequence() -> int:
        """The next sequence number."""
        with locks.MAKING:
            return next(sequence)


class FreedError(RuntimeError):
    """A formula asked for saved values that are freed; the engine turns it into a RuntimeError that says what to do."""


class Freed:
    """Stands for the saved values of the nodes that a backward freed: where it was called, and when (a sequence number)."""

    __slots__ = ("location", "seq")

    def __init__(self, location: Any) -> None:
        self.location = location
        self.seq = next_sequence()

    def __getitem__(self, index: int) -> Any:
        raise FreedError

    def __repr__(self) -> str:
        return "<freed>"


class NodeMeta:
    """The rare belongings of a node: hooks, version guards, metadata, forward traceback."""

    __slots__ = ("guards", "metadata", "packed", "post", "pre", "prehooks", "retained", "tangents", "trace")

    def __init__(self) -> None:
        self.pre: dict[int, dict] | None = None  # output number -> tensor hooks
        self.retained: dict[int, Any] | None = None  # output number -> weak reference to a tensor that retains its grad
        self.prehooks: dict | None = None
        self.post: dict | None = None
        self.guards: list | None = None  # (version, number when saved, which result it is of; None: an input's)
        self.metadata: dict | None = None
        self.packed = False  # some saved values are in the hands of saved-tensor hooks
        self.trace: Any = None
        self.tangents: dict | None = (
            None  # forward mode: output number -> tangents by level of that output, where it is saved
        )

    def hooked(self) -> bool:
        """Whether running the node takes more than its formulas and a look at the guards."""
        return bool(self.pre or self.retained or self.prehooks or self.post or self.packed)


class Node:
    """One recorded operation: plan (what to run), edges (where gradients go), saved (what the formulas read).

    An edge is a Node, a `OutputRef` (one output of a node with several) or a leaf tensor; `shape` and `dtype` are those of
    the output, hence of its gradient; `code` and `offset` are the location in the user's program, where it was noted.
    """

    __slots__ = ("__weakref__", "code", "dtype", "edges", "meta", "offset", "plan", "saved", "seq", "shape")

    plan: Any
    edges: tuple
    saved: Any
    shape: tuple
    dtype: Any
    seq: int
    meta: NodeMeta | None
    code: Any
    offset: int

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
            if type(edge) is OutputRef:
                found[index] = (shown(edge.node), edge.index)
            elif isinstance(edge, Node):
                found[index] = (shown(edge), 0)
            else:
                found[index] = (AccumulateGrad(edge, self.seq), 0)
        return tuple(found)

    @property
    def location(self) -> Any:
        """Where in the user's program the operation ran; None if it was not noted (operations that save nothing)."""
        code = getattr(self, "code", None)
        return None if code is None else (code, self.offset)

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
        from ferro.core.calling import call

        return call(self, grads)

    requires_grad = True

    @property
    def _input_metadata(self) -> tuple:
        """Shape, dtype and device of the gradients that the node takes."""
        from ferro.core.saved import metadata

        return metadata(self)

    def __dir__(self) -> list:
        from ferro.core.saved import attributes

        return [n for n in object.__dir__(self) if not n.startswith(("_saved_", "_raw_saved_"))] + attributes(self)

    def _register_hook_dict(self, index: int) -> dict:
        """The tensor hooks of output `index`."""
        return table(node_meta(self), "pre").setdefault(index, {})


class _Kept:
    """``node._saved_<name>`` or ``node._raw_saved_<name>``: what the node keeps for its formulas."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: Any = None) -> Any:
        if node is None:
            return self
        from ferro.core.saved import attribute

        return attribute(node, self.name)


def expose(names: Iterable[str]) -> None:
    """Makes saved values with these names attributes of nodes.  (A `__getattr__` would slow down every other attribute.)"""
    for name in names:
        for attribute in (f"_saved_{name}", f"_raw_saved_{name}"):
            if attribute not in Node.__dict__:
                setattr(Node, attribute, _Kept(attribute))


# PyTorch's names, which differ from those of the formulas (see saved.py)
expose(
    [
        "self",
        "other",
        "self_sym_sizes",
        "other_sym_sizes",
        "input",
        "weight",
        "mat2",
        "exponent",
        "tensor1",
        "tensor2",
        "min",
        "max",
        "result",
        *[f"result{i}" for i in range(8)],
    ]
)


def node_meta(node: Node) -> NodeMeta:
    """The node's rare belongings, made at first use."""
    meta = node.meta
    if meta is None:
        fresh = NodeMeta()
        meta = node.meta  # Note [Made once]
        if meta is None:
            meta = node.meta = fresh if not locks.GUARDED else locks.once(node, "meta", None, fresh)
    return meta


def table(owner: Any, name: str) -> dict:
    """The dictionary that is the attribute `name` of a tensor's or node's belongings, made at first use."""
    found = getattr(owner, name)
    return locks.once(owner, name, None, {}) if found is None else found


class MultiNode(Node):
    """A node with several outputs: its gradient is a list with None for outputs that have none."""

    __slots__ = ("outputs",)
    outputs: tuple  # (shape, dtype) per output; None where the output is not differentiable


class OutputRef:
    """Output `index` of a MultiNode, as the history of one tensor."""

    __slots__ = ("dtype", "index", "node", "shape")

    def __init__(self, node: MultiNode, index: int, shape: tuple, dtype: Any) -> None:
        self.node, self.index, self.shape, self.dtype = node, index, shape, dtype


# The classes of nodes that somebody has seen, which have the name of the node; and what they are to the engine.
NAMED: dict[type, type] = {}
_classes: dict[tuple[str, type], type] = {}


def shown(node: Any) -> Any:
    """A node as the program sees it: ``type(node).__name__`` is its name, as in PyTorch, for tools that draw graphs.

    The class is changed when it is first looked at, so that recording a node costs nothing for it.
    """
    kind = type(node)
    if kind is Node or kind is MultiNode:
        key = (node.name(), kind)
        cls = _classes.get(key)
        if cls is None:
            cls = type(key[0], (kind,), {"__slots__": (), "__module__": __name__, "__doc__": f"The node {key[0]}."})
            NAMED[cls] = kind
            cls = _classes.setdefault(key, cls)
        node.__class__ = cls
    return node


def moves_before(leaf: Any, seq: float) -> int:
    """How often a leaf had been given other memory by set_() when the node with this sequence number was made."""
    meta = leaf._meta
    return 0 if meta is None or not meta.moves else sum(move < seq for move in meta.moves)


class AccumulateGrad(Node):
    """The end of the tape at a leaf tensor, as shown by ``next_functions``.

    The tape itself points at the leaf; this object is made when asked for, one for a leaf while somebody holds it.  What
    is hung on it (hooks, metadata) belongs to the leaf.

    seq: which of those that a leaf has had, if it was given other memory by set_(): that to which nodes of this age lead.
    """

    __slots__ = ("age", "variable")
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
        from ferro.core.base import meta_of

        meta_of(self.variable).end = value

    @property
    def next_functions(self) -> tuple:
        """Nothing lies behind a leaf."""
        return ()

    def _sequence_nr(self) -> int:
        return 2**64 - 1  # runs as soon as it can

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

    @property
    def id(self) -> int:
        """A number that no other hook has."""
        return self.key

    def remove(self) -> None:
        """Takes the hook away; harmless when it is gone already."""
        self.hooks.pop(self.key, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
