"""What the tape knows of a tensor: its array, its history, its version, its place among views, and saved values."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import mode as _mode
from ferro.core.backend import HOST
from ferro.core.dtypes import INEXACT
from ferro.core.node import Freed, MultiNode, Node, OutputRef, node_meta, table
from ferro.core.provenance import CodeLocation, at, caller
from ferro.core.refusals import refusal
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

    __slots__ = ("__dict__", "n")  # (the count is read at every turn, the rest in errors)

    n: int
    culprit = ""  # the last operation that changed the storage, where, and through which view operations
    location: CodeLocation | None = None
    through: tuple = ()
    detached: Any = None  # of an inference tensor: the mode that made it
    inference = False
    unclaimed = False  # made for a saved result whose tensor has no counter yet


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
            or any(k in kept and not isinstance(s, HOST) for s, k in zip(node.saved, node.plan.kinds, strict=True))
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
    v.culprit = culprit
    v.location = location or caller()
    if v.through:
        v.through = ()
    meta = t._meta
    if meta is not None:
        if meta.view is not None:
            v.through = tuple([op.name for op, _, _ in meta.view.steps])
            meta = meta.view.base._meta
        if meta is not None and meta.detached is not None and meta.detached.why == "detach()":
            v.through = ("detach", *v.through)


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


def mark_inference(t: TensorBase) -> None:
    """Makes `t` an inference tensor."""
    v = t._counter = InferenceVersion()
    v.n, v.detached = 1, _mode.current().detached


def is_inference(t: TensorBase) -> bool:
    """Whether `t` was made in inference mode, or is a view of such a tensor."""
    v = t._counter
    return v is not None and v.inference


def requires_grad(t: TensorBase) -> bool:
    """Whether gradients flow to the tensor."""
    return history(t) is not None


def position(t: TensorBase) -> Any:
    """Where a gradient for `t` goes: its node, its OutputRef, or the tensor itself if it is a leaf; None without grad."""
    node = history(t)
    return t if node is LEAF else node


# -- saved values ------------------------------------------------------------------------------------------------------


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
    cure = (
        "Use the out-of-place form (x = x + 1 instead of x += 1), "
        if v.culprit.endswith("_")
        else "If it must be changed, "
    )
    change = "It was changed" if v.n == expected + 1 else f"It was changed {v.n - expected} times, the last time"
    through = f", through another tensor of the same memory ({' of '.join(reversed(v.through))})" if v.through else ""
    raise RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {which} "
        f"is at version {v.n}; expected version {expected} instead. {change} by '{v.culprit}'{at(v.location)}{through}. "
        f"{cure}call backward() before it, or give '{op}' a clone() of the tensor."
    )
