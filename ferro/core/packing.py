"""What saved-tensor hooks keep in the place of the tensors that a node has saved."""

from __future__ import annotations

from typing import Any

from ferro.core.backend import DEVICES, HOST
from ferro.core.base import LEAF, TensorBase, wrap
from ferro.core.mode import switched
from ferro.core.node import Node, node_meta
from ferro.core.operands import is_constant
from ferro.core.primitives import CLONE
from ferro.core.recording import record
from ferro.core.saved_values import Packed
from ferro.core.tangents import tangents_of


def pack_saved(node: Node, hooks: Any) -> None:
    """Hands the tensors a node has saved to the pack hook.  A hook with a method `saving` is told the node first.

    With an attribute `keeps_guards` that is true it gets no arrays of the node itself, its result for example, whose changes
    are found as without hooks.
    """
    pack, unpack = hooks
    guarded = getattr(pack, "keeps_guards", False)
    saving = getattr(pack, "saving", None)
    if saving is not None:
        saving(node)
    found: list = []
    for value, kind in zip(node.saved, node.plan.kinds, strict=True):
        if type(value) is tuple and kind in ("tensors", "arrays"):
            found.append(tuple([packed(v, pack, unpack) for v in value]))
        elif kind == "tensor" or (
            kind != "plain" and not guarded and (isinstance(value, HOST) or type(value) in DEVICES)
        ):
            found.append(packed(value, pack, unpack))
        else:
            found.append(value)
    node.saved = tuple(found)
    meta = node_meta(node)
    meta.packed = True
    if not guarded:
        meta.guards = None  # what hooks keep is theirs: no version is checked


def packed(value: Any, pack: Any, unpack: Any) -> Any:
    """A saved tensor or array in the hands of the pack hook.  (An array belongs to the node: no way back is kept.)"""
    if value is None or (value.ndim == 0 and is_constant(value)):
        return value
    t = value if isinstance(value, TensorBase) else wrap(value)
    before = 0 if t._counter is None else t._counter.n
    with switched(grad=False, pack=()):
        kept = pack(t)
    if (0 if t._counter is None else t._counter.n) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
            "pack hook can not be modified by in-place operations."
        )
    return Packed(kept, unpack, address(t) if t is value else None, tangents_of(t) if t._meta is not None else None)


def address(t: Any) -> Any:
    """A history for another tensor in the place of `t`: its node, or for a leaf a node that leads to it."""
    if t._node is not LEAF:
        return t._node
    return record(CLONE.plan(1), (t,), (t,), (t._data,), (t._data,), ())
