"""Saved values: given to formulas, unpacked from the hands of hooks, refused if they were changed in place."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro.core import mode as _mode
from ferro.core.base import TensorBase, Version, meta_of, result_version, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.node import Freed, MultiNode, OutputRef
from ferro.core.provenance import at


class Packed:
    """A saved tensor in the hands of a saved-tensor hook: what pack returned, and unpack."""

    __slots__ = ("node", "tangents", "unpack", "value")

    def __init__(self, value: Any, unpack: Any, node: Any, tangents: dict | None = None) -> None:
        self.value, self.unpack, self.node, self.tangents = value, unpack, node, tangents

    def tensor(self) -> TensorBase:
        """The saved tensor again, with its history."""
        with _mode.switched(grad=False, pack=()):
            t = self.unpack(self.value)
        if not isinstance(t, TensorBase):
            raise TypeError(
                "saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(t).__name__}"
            )
        if self.node is None and t._node is None and not self.tangents:
            return t  # without history it may be the very tensor that was saved
        t = wrap(t._data, self.node)
        if self.tangents:
            meta_of(t).tangents = self.tangents
        return t


class Unpacked:
    """A node as its formulas see it while its saved values are in the hands of saved-tensor hooks: `saved` has them unpacked.

    One for each run of the node, which stays as it is: several threads may run backward through it at once.
    """

    __slots__ = ("node", "saved", "theirs")

    def __init__(self, node: Any) -> None:
        self.theirs: list[Version] = []  # counters of what hooks gave back, which is not checked
        self.node, self.saved = node, self._unpacked(node)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)

    def _unpacked(self, node: Any) -> tuple:
        """The saved values as formulas expect them."""
        found = []
        for value, kind in zip(node.saved, node.plan.kinds, strict=True):
            if type(value) is Packed:
                t = self._given_back(value)
                value = t if kind == "tensor" else t._data
            elif type(value) is tuple and kind in ("tensors", "arrays"):
                ts = [self._given_back(v) if type(v) is Packed else v for v in value]
                value = tuple(ts) if kind == "tensors" else tuple([None if t is None else t._data for t in ts])
            found.append(value)
        return tuple(found)

    def _given_back(self, packed: Packed) -> TensorBase:
        t = packed.tensor()
        if t._counter is not None:
            self.theirs.append(t._counter)
        return t


def saved_arrays(node: Any, entries: list, needs: tuple) -> list:
    """The values a formula names, as arrays, from ``node.saved``; entries are (kind, index)."""
    saved = node.saved
    found = []
    for kind, i in entries:
        if kind == "needs":
            found.append(needs)
            continue
        value = saved[i]
        if kind == "tensor":
            if value is not None:
                if value._counter is not None:
                    check_version(node, value)
                value = value._data
        elif kind == "tensors":
            for v in value:
                if v._counter is not None:
                    check_version(node, v)
            value = tuple([v._data for v in value])
        found.append(value)
    return found


def saved_tensors(node: Any, entries: list, needs: tuple) -> list:
    """The same as Tensors with their history, for a recorded backward."""
    saved, source = node.saved, node
    if type(node) is Unpacked:
        node = node.node
    found = []
    for kind, i in entries:
        if kind == "needs":
            found.append(needs)
            continue
        value = saved[i]
        if kind == "tensor":
            if value is not None and value._counter is not None:
                check_version(source, value)
            if value is not None and value._node is None:
                _check_attached(node, i, value)
        elif kind == "tensors":
            for v in value:
                if v._counter is not None:
                    check_version(source, v)
        elif kind == "array":
            value = _result(node, value, node, 0)
        elif kind == "arrays":
            value = tuple([_result(node, v, _pick(node, k), k) for k, v in enumerate(value)])
        elif kind.startswith("array"):
            index = int(kind[5:])
            value = _result(node, value, _pick(node, index), index)
        elif kind == "aux":
            value = None if value is None or value.dtype in INEXACT else wrap(value)
        found.append(value)
    return found


def _check_attached(node: Any, i: int, t: TensorBase) -> None:
    """Raises if the saved input `t` had a history when it was saved: detach_() has taken it away since."""
    plan = node.plan
    k = plan.op.inputs.index(plan.names[i]) if plan.names[i] in plan.op.inputs else None
    if k in plan.indices and node.edges[plan.indices.index(k)] is not t:
        raise RuntimeError(
            f"Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): input {k} of '{plan.op.name}' "
            f"({node.name()}), of shape {list(t._data.shape)}{at(node.location)}. A derivative of its gradient needs the history that "
            "is gone; use .detach() out of place instead."
        )


def _result(node: Any, data: Any, where: Any, index: int) -> TensorBase:
    """The result number `index` of a node that saved it, with its history and its tangents."""
    t = wrap(data, where)
    if node.meta is None or not node.meta.packed:  # (what hooks keep is theirs)
        t._counter = result_version(node, index)
    if node.meta is not None and node.meta.tangents is not None:
        meta_of(t).tangents = node.meta.tangents.get(index)
    return t


def _pick(node: MultiNode, index: int) -> OutputRef | None:
    out = node.outputs[index]
    return None if out is None else OutputRef(node, index, *out)


def check_version(node: Any, t: TensorBase) -> None:
    """Raises if the saved input `t` was changed in place since the node saved it."""
    v = t._counter
    assert v is not None
    if v.n:
        if type(node) is Unpacked and v in node.theirs:
            return
        for watched, _, _ in (node.meta.guards if node.meta is not None else None) or ():
            if watched is v:
                return
        modified(node, v, 0, t._data.shape)


def check_guards(node: Any) -> None:
    """Raises if a value that the node watches was changed in place."""
    if type(node.saved) is not Freed:
        for v, n, which in node.meta.guards or ():
            if v.n != n:
                modified(node, v, n, None if which is None else _result_shape(node, which))


def _result_shape(node: Any, index: int) -> Any:
    if not isinstance(node, MultiNode):
        return node.shape
    return node.outputs[index][0] if node.outputs[index] is not None else None


def modified(node: Any, v: Version, expected: int, shape: Any) -> NoReturn:
    """The error for a saved value that was changed in place."""
    op = node.plan.op.name
    if shape is None:
        shape = next((t._data.shape for t in node.saved if isinstance(t, TensorBase) and t._counter is v), None)
    which = f"a tensor{'' if shape is None else f' of shape {list(shape)}'} that '{op}' ({node.name()}) saved{at(node.location)}"
    culprit, location, through = v.change
    cure = (
        "Use the out-of-place form (x = x + 1 instead of x += 1), "
        if culprit.endswith("_")
        else "If it must be changed, "
    )
    change = "It was changed" if v.n == expected + 1 else f"It was changed {v.n - expected} times, the last time"
    way = f", through another tensor of the same memory ({' of '.join(reversed(through))})" if through else ""
    raise RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {which} "
        f"is at version {v.n}; expected version {expected} instead. {change} by '{culprit}'{at(location)}{way}. "
        f"{cure}call backward() before it, or give '{op}' a clone() of the tensor."
    )
