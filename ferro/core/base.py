"""What the tape knows of a tensor: its array, its version, its place among views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import mode as _mode
from ferro.core.backend import HOST
from ferro.core.node import OutputRef, node_meta
from ferro.core.provenance import CodeLocation, at, caller
from ferro.native import locks
from ferro.native.recorder import accelerated

new = object.__new__


class Leaf:
    """The history of a leaf that requires grad (the tape's edges point at the tensor itself)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<leaf>"


LEAF = Leaf()


class Version:
    """Counts the in-place changes of a storage; shared by all tensors that view it, made when first needed."""

    __slots__ = ("__dict__", "last", "n")  # (the count is read at every turn, the rest in errors)

    n: int
    last: tuple[str, CodeLocation, tuple]  # the last change, once there is one; see `change`
    detached: Any = None  # of an inference tensor: the mode that made it
    inference = False
    unclaimed = False  # made for a saved result whose tensor has no counter yet

    @property
    def change(self) -> tuple[str, CodeLocation | None, tuple]:
        """The last operation that changed the storage, where, and through which view operations."""
        try:
            return self.last
        except AttributeError:
            return "", None, ()

    @property
    def culprit(self) -> str:
        """The last operation that changed the storage."""
        return self.change[0]


class InferenceVersion(Version):
    """The counter of inference tensors, which must not be saved (its n is not 0, so that `guard` looks) and have no views.

    (A class of its own, so that machine code, which knows the other one, leaves such tensors to Python.)
    """

    __slots__ = ()

    inference = True


class Meta:
    """The rare belongings of a tensor.  (No slots: most of the fields stay at the default of the class.)"""

    grad: Any = None
    hooks: dict | None = None  # of a leaf; those of other tensors hang on their node
    post: dict | None = None  # post-accumulate-grad hooks
    turn: Any = None  # the lock that they and the accumulation before them hold
    end: Any = None  # a NodeMeta: what hangs on the AccumulateGrad of a leaf
    retains = False
    view: View | None = None
    tangents: dict | None = None  # forward-mode level -> tangent
    name: str | None = None
    moves: tuple = ()  # of a leaf: the sequence numbers of its set_(): older nodes do not lead to what it is now
    detached: Any = None  # how the history was lost: a DetachedMark


class View(Meta):
    """How a tensor views its base; and its `_meta` itself, since making an object is what a view costs.

    path: how to get there from the base, (path before, op, parameters, output number) or None, which `steps` shows as a
    tuple of replayable (op, parameters, output number); stamp and tangent_stamp: the version at which the history and the
    tangents were made; creation: None, or why the history cannot follow a write ("no_grad", "inference", "multi", "function").
    """

    __slots__ = ("base", "born", "creation", "detached", "dual", "location", "path", "stamp", "tangent_stamp", "under")

    base: Any  # None if the tensor has ceased to be a view
    path: tuple | None
    stamp: int
    tangent_stamp: int
    creation: str | None
    dual: Any  # where tangents begin, if not at the base: (dual tensor, number of steps to it), or OWN: at the view itself
    born: int  # of a view made under no_grad: a sequence number of that time; else 0
    outdated = False  # whether it was made under no_grad and its memory has been changed since
    location: CodeLocation | None  # where such a view was made, and
    under: Any  # under which mode: a DetachedMark

    @property
    def view(self) -> View | None:  # type: ignore[override]
        """What Meta.view is: this, unless the tensor has ceased to be a view."""
        return self if self.base is not None else None

    @view.setter
    def view(self, other: View | None) -> None:
        for name in View.__slots__:
            if name != "detached":
                setattr(self, name, getattr(other, name, None))

    @property
    def steps(self) -> tuple:
        """The way from the base to the view."""
        found: list = []
        path = self.path
        while path is not None:
            path, *step = path
            found.append(tuple(step))
        return tuple(found[::-1])

    @steps.setter
    def steps(self, steps: tuple) -> None:
        path = None
        for step in steps:
            path = (path, *step)
        self.path = path


class DetachedMark(Meta):
    """What is left of a history that ends: why, where, and of which tensor; the `_meta` of a tensor with no other.

    Results computed from such a tensor alone inherit the mark, so an error can tell where a loss lost its history.
    """

    __slots__ = ("dtype", "location", "op", "shape", "why")

    def __init__(self, why: str, location: Any, source: TensorBase | None = None, dtype: Any = None) -> None:
        # dtype: of the result, if `why` is the operation that has no gradient
        self.why, self.location, self.dtype = why, location, dtype
        self.shape = self.op = None
        if source is not None:
            self.shape = source._data.shape
            node: Any = source._node.node if type(source._node) is OutputRef else source._node
            self.op = None if node is None or node is LEAF else node.plan.op  # that made the tensor; None for a leaf

    def __str__(self) -> str:
        why = (
            self.why
            if self.dtype is None
            else (f"{self.why}(), whose {dtypes.FROM_NUMPY[self.dtype].name} result has no gradient,")
        )
        source = "" if self.op is None else f", a result of '{self.op.name}'"
        source = (
            f" (shape {list(self.shape)}{source or ', a leaf that requires grad'})" if self.shape is not None else ""
        )
        return f"{why}{source}{at(self.location)}"

    @property
    def detached(self) -> DetachedMark:  # type: ignore[override]
        """The mark that a result inherits."""
        return self


class TensorBase:
    """The slots of a tensor.  `_node` is None (no grad), LEAF, a Node, or the OutputRef of a node with several outputs."""

    __slots__ = ("__dict__", "__weakref__", "_counter", "_data", "_meta", "_node")

    _data: Any
    _node: Any
    _counter: Version | None
    _meta: Meta | None

    def _recording(self) -> tuple:
        """The tensors that are recorded for it: itself; of a sparse one two (see sparse/tensor.py)."""
        return (self,)


@accelerated
def wrap(data: Any, node: Any = None, cls: Any = None) -> Any:
    """A tensor around an array, with the given history.

    Behind machine code, other threads never see a tensor that lacks a slot; without it they may, for a moment.
    """
    if type(data) is not HOST and isinstance(data, np.generic):
        data = np.asarray(data)
    t = new(backend.tensor_class if cls is None else cls)
    t._data = data
    t._node = node
    t._counter = None
    t._meta = None
    return t


def not_a_tensor(name: str, x: Any) -> Exception:
    """The error for the input of an operation that has no array: something else, or a tensor that nobody initialized."""
    kind = type(x).__name__
    if isinstance(x, TensorBase):
        return RuntimeError(
            f"{name}(): argument 'input' is a {kind} that is not initialized (made by {kind}.__new__() alone, or its data was "
            "deleted). Make tensors with tensor() or as results of operations."
        )
    return TypeError(f"{name}(): argument 'input' must be Tensor, not {kind}")


def meta_of(t: TensorBase) -> Meta:
    """The tensor's rare belongings, made at first use."""
    m: Any = t._meta
    if m is None or type(m) is DetachedMark:  # (a mark is shared by many tensors)
        before, fresh = m, Meta()
        if before is not None:
            fresh.detached = before
        m = t._meta  # see Note [Made once] in node.py
        if m is before:
            m = t._meta = fresh if not locks.GUARDED else locks.once(t, "_meta", m, fresh)
    return m


def version_of(t: TensorBase) -> Version:
    """The tensor's version counter, made at first use; a node that saved the tensor as its result starts to watch it."""
    v = t._counter
    if v is None:
        fresh = Version()
        fresh.n = 0
        if t._node is not None and t._node is not LEAF:
            fresh = watch(t, fresh)
        v = t._counter  # see Note [Made once] in node.py
        if v is None:
            v = t._counter = fresh if not locks.GUARDED else locks.once(t, "_counter", v, fresh)
    return v


def view_of(base: Any, steps: tuple, stamp: int, creation: str | None) -> View:
    """A new View."""
    view: Any = View()
    view.base, view.stamp, view.tangent_stamp, view.creation = base, stamp, stamp, creation
    view.dual = view.location = view.under = view.detached = None
    view.born, view.steps = 0, steps
    return view


def root(view: View) -> TensorBase:
    """Where the steps of a view begin: at its base, or at what stands for it since the base changed its own shape."""
    m = view.base._meta
    return view.base if m is None or m.view is None else m.view.base


def _is_packed(saved: Any) -> bool:
    """Whether a hook has what a node saved (`Packed`), or some of it."""
    return any(hasattr(one, "unpack") for one in (saved if type(saved) is tuple else (saved,)))


def watch(t: TensorBase, v: Version) -> Version:
    """Lets the node that made `t`, if it saved its result, check `v` before using it; returns the version that it checks."""
    node: Any = t._node
    kept: tuple = ("array",)
    index = 0
    if type(node) is OutputRef:
        index = node.index
        kept = (f"array{index}", "arrays") if node.node.plan.keeps_out else ()
        node = node.node
    if node.plan.keeps_out and any(k in kept for k in node.plan.kinds):
        meta = node_meta(node)
        if meta.packed and (
            type(node.saved) is not tuple
            or any(k in kept and _is_packed(s) for s, k in zip(node.saved, node.plan.kinds, strict=True))
        ):
            return v  # the result is freed, or in the hands of a saved-tensor hook
        if meta.guards is None:
            meta.guards = []
        for held, _, which in meta.guards:
            if which == index and held.unclaimed:
                held.unclaimed = False
                return held
        meta.guards.append((v, v.n, index))
    return v


def result_version(node: Any, index: int) -> Version:
    """The version counter of the result number `index`, which the node saved.

    If its tensor has none yet, `watch` will give it this one: whoever looks at what was saved sees every change of it.
    """
    meta = node_meta(node)
    for held, _, which in meta.guards or ():
        if which == index:
            return held
    fresh = Version()
    fresh.n, fresh.unclaimed = 0, True
    meta.guards = [*(meta.guards or ()), (fresh, 0, index)]
    return fresh


def watch_result(t: TensorBase, node: Any, index: int) -> None:
    """Lets `node` check the version of a result without history (indices, say) that it saved; the result has just been made."""
    fresh = t._counter = Version()
    fresh.n = 0
    meta = node_meta(node)
    meta.guards = [*(meta.guards or ()), (fresh, 0, index)]


def bump(t: TensorBase, culprit: str, location: CodeLocation | None = None) -> None:
    """Counts an in-place change by the operation `culprit`, called at `location` of the user's program (default: here)."""
    v = t._counter or version_of(t)
    if locks.GUARDED:
        with locks.MAKING:
            v.n += 1
    else:
        v.n += 1
    through: tuple = ()
    meta = t._meta
    if meta is not None:
        if meta.view is not None:
            through = tuple([op.name for op, _, _ in meta.view.steps])
            meta = meta.view.base._meta
        if meta is not None and meta.detached is not None and meta.detached.why == "detach()":
            through = ("detach", *through)
    v.last = culprit, location or caller(), through


def lose(t: TensorBase, source: Any, why: str) -> None:
    """Marks `t` as what is left of `source` after `why` ended its history."""
    mark = DetachedMark(why, caller(), source)
    if t._meta is None:
        t._meta = mark
    else:
        meta_of(t).detached = mark


def without_gradient(name: str, data: Any, source: Any) -> Any:
    """The result of an operation `name` of `source` that has no derivative: positions, counts, truth values."""
    t = wrap(data)
    if source._node is not None:
        t._meta = DetachedMark(name, caller(), source, data.dtype)
    return t


def mark_inference(t: TensorBase) -> None:
    """Makes `t` an inference tensor."""
    v = t._counter = InferenceVersion()
    v.n, v.detached = 1, _mode.current().detached


def is_inference(t: TensorBase) -> bool:
    """Whether `t` was made in inference mode, or is a view of such a tensor."""
    v = t._counter
    return v is not None and v.inference
