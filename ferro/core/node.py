"""The tape: nodes, the outputs of nodes with several outputs, and what may hang on them. (shown.py: what a program sees.)

Note [Made once].  What is made at first use (the meta of a tensor or node, a version counter) must be made once, although
several threads may ask for it at once.  CPython changes threads at calls and at jumps back, and nowhere else: so the new
object is made first, and then one more look and the store follow each other without a call between them.  Signal handlers
and finalisers run at the same places.  Where threads run Python at the same time, `locks.once` takes a lock for it.
"""

from __future__ import annotations

from itertools import count
from typing import Any

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
    def location(self) -> Any:
        """Where in the user's program the operation ran; None if it was not noted (operations that save nothing)."""
        code = getattr(self, "code", None)
        return None if code is None else (code, self.offset)


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


def hooks_of(node: Node, index: int) -> dict:
    """The tensor hooks of output `index`."""
    return table(node_meta(node), "pre").setdefault(index, {})


class MultiNode(Node):
    """A node with several outputs: its gradient is a list with None for outputs that have none."""

    __slots__ = ("outputs",)
    outputs: tuple  # (shape, dtype) per output; None where the output is not differentiable


class OutputRef:
    """Output `index` of a MultiNode, as the history of one tensor."""

    __slots__ = ("dtype", "index", "node", "shape")

    def __init__(self, node: MultiNode, index: int, shape: tuple, dtype: Any) -> None:
        self.node, self.index, self.shape, self.dtype = node, index, shape, dtype


# The classes of nodes that somebody has seen (see shown.py), and what they are to the engine.
NAMED: dict[type, type] = {}


def moves_before(leaf: Any, seq: float) -> int:
    """How often a leaf had been given other memory by set_() when the node with this sequence number was made."""
    meta = leaf._meta
    return 0 if meta is None or not meta.moves else sum(move < seq for move in meta.moves)


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
