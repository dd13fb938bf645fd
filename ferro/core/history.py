"""The history of a tensor: of a view after its base has changed; hooks and retained gradients that hang on it."""

from __future__ import annotations

import weakref
from typing import Any

from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, Version, View, root
from ferro.core.node import Node, OutputRef, node_meta, table
from ferro.core.refusals import refusal
from ferro.native import locks


def history(t: TensorBase) -> Any:
    """The tensor's `_node`, after bringing that of a view up to date with an in-place change of its base."""
    v = t._counter
    if v is not None:
        m = t._meta
        if m is not None and m.view is not None and m.view.stamp != v.n:
            _refresh(t, m.view, v)
    return t._node


_refreshing = locks.new()  # threads that ask for the history of one view get the same node


def _refresh(t: TensorBase, view: View, v: Version) -> None:
    """Gives a view of a changed base the history that the same view of the base has now."""
    with _refreshing:
        if view.stamp != v.n:
            now = v.n
            if _rederive(t, view):
                view.stamp = now  # last: until then other threads wait


def _rederive(t: TensorBase, view: View) -> bool:
    """The same; False if there is no such history and, as nothing is being recorded, none is needed yet."""
    base = root(view)
    base_node = base._node
    if base_node is None or (base_node is LEAF and t._node is not None and view.creation is not None):
        return True
    made = base_node.node if isinstance(base_node, OutputRef) else base_node
    recorded = not view.born or (base_node is not LEAF and made.seq > view.born)  # what has been written since
    if view.creation == "inference" or (view.creation == "function" and recorded):
        if not _mode.is_grad_enabled():
            return False
        raise refusal(t._counter.culprit, view, t._node, indirect=True)
    if not recorded:  # made under no_grad
        view.outdated = True
        return True
    node = derived(view)
    if t._meta.retains and node is not None:
        retain(t, t._node, node)
    t._node = node
    return True


def derived(view: View) -> Any:
    """A history of its own for a view: that of the same steps on its base."""
    with _mode.switched(grad=True, inference=False, level=0, pack=(), observers=()):
        fresh: Any = root(view)
        for op, params, index in view.steps:
            fresh = backend.apply(op, (fresh,), params)
            if index is not None:
                fresh = fresh[index]
    return fresh._node


def hooked(node: Any) -> bool:
    """Whether hooks of the user hang on a history."""
    index = 0
    if type(node) is OutputRef:
        node, index = node.node, node.index
    meta = node.meta if isinstance(node, Node) else None
    return meta is not None and bool((meta.pre and meta.pre.get(index)) or meta.prehooks or meta.post)


def retain(t: TensorBase, before: Any = None, node: Any = None) -> None:
    """Lets the history of `t` (or `node`) write into ``t.grad`` (retain_grad), and no longer the one `before`."""
    if before is not None and before is not LEAF:
        forget(before)
    node = history(t) if node is None else node
    index = 0
    if isinstance(node, OutputRef):
        node, index = node.node, node.index
    assert isinstance(node, Node)
    meta = node_meta(node)
    table(meta, "retained")[index] = weakref.ref(t)


def forget(position: Any) -> None:
    """Ends what `retain` began."""
    node, index = (position.node, position.index) if isinstance(position, OutputRef) else (position, 0)
    if node.meta is not None and node.meta.retained:
        node.meta.retained.pop(index, None)


def requires_grad(t: TensorBase) -> bool:
    """Whether gradients flow to the tensor."""
    return history(t) is not None


def position(t: TensorBase) -> Any:
    """Where a gradient for `t` goes: its node, its OutputRef, or the tensor itself if it is a leaf; None without grad."""
    node = history(t)
    return t if node is LEAF else node
