"""In-place operations: compute out of place, write, count the change, and give the tensor (or its base) a new history.

Note [In-place].  ``x.f_(y)`` is recorded as ``x' = f(x, y)`` followed by a write into the memory of x.  If f saved its
input, the old content is kept for it in a copy.  If x is a view of a base b, the history of b becomes
``b' = copy_slices(b, x')`` and every view of b takes the same view of b' as its history when it is next asked for
(base.history), recognised by the version counter that base and views share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ferro.batched.array import SERVING, plain
from ferro.batched.levels import ALIVE
from ferro.core import backend, dtypes
from ferro.core import mode as _mode
from ferro.core.backend import HOST
from ferro.core.base import LEAF, Meta, TensorBase, bump, meta_of, root, view_of, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.history import derived, history, hooked, retain
from ferro.core.node import Node, OutputRef
from ferro.core.notices import warn_once
from ferro.core.op import OPS
from ferro.core.operands import of_array, together
from ferro.core.outputs import cannot_cast
from ferro.core.owners import is_shared
from ferro.core.primitives import CAST, COPY_SLICES, VIEW_PUT, one_step, write
from ferro.core.recording import edges_of, needs_gradient, record
from ferro.core.refusals import refusal
from ferro.core.signatures import name_in_place
from ferro.core.tangents import tangents_of, write_tangents
from ferro.core.transforms import INSIDE, refuse_captured
from ferro.core.writes import computed_into, has_no_history, may_be_written, written

if TYPE_CHECKING:
    from ferro.tensor import Tensor

# For type checkers: an in-place method takes what its function takes, and returns the tensor that it changed.
P = ParamSpec("P")
T = TypeVar("T", bound="Tensor")

MANY_STEPS = 16  # from a base to a view whose shape is changed in place: then one step is looked for that does the same


def in_place(
    function: Callable[Concatenate[Any, P], Any],
    elementwise: bool = True,
    itself: bool = False,
    expanded: bool = False,
    op: Any = None,
    applied: Callable | None = None,
) -> Callable[Concatenate[T, P], T]:
    """The in-place method of an out-of-place function: ``Tensor.add_ = in_place(add)``.

    An elementwise one refuses operands that lie partly in the memory that is written, as PyTorch does, and with `itself`
    the tensor itself as an operand, too. expanded: expanded tensors may be written, where nothing is recorded. op: what the
    function applies to its arguments, one or two tensors, as they are; that of one tensor and no parameters is found by
    the function's name. applied(self, *args, **kwargs): the operation that the function applies to floats, its inputs and
    parameters; None for arguments that take more.
    """
    name = f"{function.__name__}_"

    def method(self: T, *args: P.args, **kwargs: P.kwargs) -> T:
        if kwargs and "out" in kwargs:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out': it writes into the tensor itself")
        if itself or (elementwise and self._counter is not None):
            refuse_overlap(name, self, args, itself)
        return change(self, name, lambda x: function(x, *args, **kwargs), expanded)

    if op is None:
        found = OPS.get(function.__name__)
        op = found if found is not None and found.short and not found.params else None
    if op is None and applied is None:
        return name_in_place(method, function)
    count = -1 if op is None else len(op.inputs) - 1

    def short(self: T, *args: P.args, **kwargs: P.kwargs) -> T:
        done = None
        if len(args) == count and not kwargs:
            done = written(op, self, self, args[0] if count else None, name)
        elif applied is not None and self._data.dtype.char in "fd":
            try:
                call = applied(self, *args, **kwargs)
            except TypeError:  # arguments that the function does not take: it has the words
                call = None
            if call is not None:
                done = computed_into(call[0], self, call[1], call[2], name)
        return method(self, *args, **kwargs) if done is None else done

    return name_in_place(short, function)


def refuse_overlap(name: str, written: Any, others: tuple, itself: bool = False) -> None:
    """RuntimeError if another view of the same memory shows some of the elements that are written, in other places.

    itself: or in the same places, as where an index says which elements are read when.
    """
    counter = written._counter
    for other in others:
        if isinstance(other, TensorBase) and (other is written or other._counter is counter is not None):
            a, b = written._data, other._data
            # (batched: every slice is written by a copy; and a backend may tell no addresses)
            if type(a) is not type(b) or not (type(a) is HOST or hasattr(SERVING.get(type(a)), "address")):
                continue
            same = backend.address(a) == backend.address(b) and a.strides == b.strides and a.shape == b.shape
            if itself if same else a.flags.forc and b.flags.forc and backend.xp_of(a).may_share_memory(a, b):
                raise RuntimeError(
                    f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                    "memory location. Please clone() the tensor before performing the operation."
                )


def augmented(method: Callable) -> Callable[[T, Any], T]:
    """The augmented assignment (``Tensor.__iadd__``) of an in-place method: strangers get NotImplemented, and may know better."""

    def assigned(self: Any, other: Any) -> Any:
        if isinstance(other, HOST):
            other = of_array(method.__name__, other)
        return method(self, other) if isinstance(other, OPERANDS) else NotImplemented

    assigned.__doc__ = f"The operator form of :meth:`{method.__name__}`."
    return assigned


OPERANDS = (TensorBase, int, float, complex, HOST, np.generic)


def change(self: Any, name: str, compute: Callable, expanded: bool = False) -> Any:
    """Replaces the content of `self` by ``compute(self)`` and records it; returns `self`.

    expanded: several elements of `self` may be one place in memory, if nothing is recorded.
    """
    node = check(self, name, expanded=expanded and history(self) is None)
    alias = wrap(self._data, None if node is LEAF else node)
    if _mode.current().level:
        alias._data = self._data.copy()  # tangents are computed from, and save, other tensors with the same content
        if self._meta is not None:
            meta_of(alias).tangents = dict(tangents_of(self)) or None
    out = compute(alias)
    data = self._data
    if out._data.shape != data.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(data.shape)} doesn't match the broadcast shape {list(out._data.shape)}; "
            "an in-place operation cannot grow its tensor"
        )
    have, want = dtypes.FROM_NUMPY[out._data.dtype], dtypes.FROM_NUMPY[data.dtype]
    if have is not want and not dtypes.can_cast(have, want):
        raise cannot_cast(name, have, want)
    if out is not alias:
        if out._node is not None:
            _refuse_view(self, name)
        if out._node is not None and is_shared(alias):
            alias._data = data.copy()
        if alias._counter is not None:
            bump(alias, name)
        write(data, out._data)
    bump(self, name)
    if (
        out._node is None
        and alias._node is not None
        and out is not alias
        and data.dtype in INEXACT
        and _mode.is_grad_enabled()
    ):
        out = backend.apply(
            VIEW_PUT, (alias, wrap(data)), ((),)
        )  # a comparison, say: nothing of the old content remains
    if out._node is not None and out is not alias and data.dtype in INEXACT:
        if have is not want:
            out = backend.apply(CAST, (out,), (data.dtype,))
        rebase(self, out)
    if _mode.current().level:
        tangents = out._meta.tangents if out._meta is not None else None
        if tangents or (self._meta is not None and self._meta.tangents):
            meta_of(self).tangents = tangents
            write_tangents(self)
    return self


def restride(function: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[T, P], T]:
    """The in-place method of a view function: the tensor itself becomes the view (``Tensor.t_ = restride(t)``).

    No element changes, so the base of a view keeps its history and the view gains a step.  A tensor that others may
    view becomes a view itself, of a stand-in that keeps its old shape: the steps of the others begin there.
    """
    name = f"{function.__name__}_"

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = check(self, name, writes=False)
        recorded = isinstance(node, (Node, OutputRef))
        alias = wrap(self._data, node if recorded else None)
        if self._meta is not None and _mode.current().level:
            meta_of(alias).tangents = dict(tangents_of(self)) or None
        with _mode.switched(grad=True, inference=False):
            out = function(alias, *args, **kwargs)
        steps = out._meta.view.steps
        view = self._meta.view if self._meta is not None else None
        if view is not None:
            steps = (*view.steps, *steps)
            if len(steps) > MANY_STEPS and view.dual is None:  # (tangents count the steps)
                steps = one_step(view.base._data, out._data) or steps
            view.steps = steps
        elif self._counter is not None and node is not LEAF and not self._counter.inference:
            stand_in = wrap(self._data, self._node)
            stand_in._counter = self._counter
            view = meta_of(self).view = view_of(stand_in, steps, 0, None)
        self._data = out._data
        bump(self, name)
        if view is not None:
            view.stamp = view.tangent_stamp = self._counter.n
        if recorded:
            self._node = out._node
            if self._meta is not None and self._meta.retains:
                retain(self, node)
        if out._meta.tangents or (self._meta is not None and self._meta.tangents):
            meta_of(self).tangents = out._meta.tangents
        return self

    return name_in_place(method, function, ": the tensor itself becomes the view")


def record_write(
    self: Any, name: str, op: Any, others: tuple, params: tuple, write: Callable, expanded: str | None = None
) -> Any:
    """Records ``self = op(self, *others)`` where ``write(xp, array, *arrays of others, *params)`` changes only what differs.

    For operations whose formulas read neither their first input nor their result; no copy of `self` is made.
    expanded: what is said, once, of writing so to expanded tensors; None: it is refused, as it is where it is recorded.
    """
    mode = _mode.MODE.get() if _mode.ACTIVE else None
    if may_be_written(self, mode) and not [t for t in others if t is not None and not has_no_history(t, mode)]:
        write(backend.xp_of(self._data), self._data, *[None if t is None else t._data for t in others], *params)
        bump(self, name)
        return self
    if expanded is not None and is_expanded(self._data) and not any(t._node is not None for t in (self, *others)):
        warn_once(expanded, stacklevel=4)
        node = check(self, name, expanded=True)
    else:
        node = check(self, name)
    if _mode.current().special or (ALIVE and any(type(t._data) is not HOST for t in (self, *others) if t is not None)):
        return change(self, name, lambda x: backend.apply(op, (x, *others), params))
    data = self._data
    tensors = (wrap(data, None if node is LEAF else node), *others)
    arrays: Any = [x._data for x in tensors]
    if backend.DEVICES:
        tensors, arrays = together(op, backend.xp_of(data), tensors, arrays)
    arrays = tuple(arrays)
    mask = needs_gradient(op, tensors) if _mode.is_grad_enabled() and data.dtype in INEXACT else 0
    out = wrap(data)
    if mask:
        _refuse_view(self, name)
        plan = op.plan(mask)
        out._node = record(plan, edges_of(plan, tensors), tensors, arrays, (data,), params)
    write(backend.xp_of(data), *arrays, *params)
    bump(self, name)
    if mask:
        rebase(self, out)
    return self


def overwrite(self: Any, name: str, op: Any, value: Any, constant: bool = False) -> Any:
    """Records ``self = op(self, value)``, where the result is `value` broadcast and cast: nothing of `self` remains.

    constant: every element gets the same number; then expanded tensors may be written, where nothing is recorded.
    """
    refuse_overlap(name, self, (value,))
    node = check(self, name, expanded=constant and history(self) is None and value._node is None)
    if _mode.current().special:
        return change(self, name, lambda x: backend.apply(op, (x, value)))
    data = self._data
    if not _mode.is_grad_enabled() or data.dtype not in INEXACT or (node is None and history(value) is None):
        write(data, value._data)
        bump(self, name)
        return self
    # the history of a base forgets the place of a view anyway: there the old content need not take part
    view = self._meta.view if self._meta is not None else None
    before = wrap(data, node if view is None and node is not LEAF else None)
    _refuse_view(self, name)
    out = backend.apply(op, (before, value))
    write(data, out._data)
    bump(self, name)
    rebase(self, out)
    return self


def _refuse_view(self: Any, name: str) -> None:
    """The error for a view whose history cannot be rebased, if `self` is one; and for what a transform's function captures."""
    if self._node is None and INSIDE.get():
        refuse_captured(self, name)
    view = self._meta.view if self._meta is not None else None
    if view is not None and view.creation is not None:
        raise refusal(name, view, self._node)


def announce(data: Any) -> None:
    """Tells the pack hooks that ask for it (by a method `writing`) that an array is about to be changed."""
    for pack, _ in _mode.current().pack:
        writing = getattr(pack, "writing", None)
        if writing is not None:
            writing(data)


def is_expanded(data: Any) -> bool:
    """Whether several elements of an array (of all slices of a batched one) are one place in memory."""
    if type(data) is not HOST:
        data = plain(data)
    return (
        0 in data.strides
        and data.size > 1
        and any(t == 0 and n > 1 for t, n in zip(data.strides, data.shape, strict=True))
    )


def check(self: Any, name: str, writes: bool = True, expanded: bool = False) -> Any:
    """Refuses an in-place change that would make gradients wrong or ambiguous; returns the tensor's history.

    writes: whether elements change; expanded: whether several of them may be one place in memory.
    """
    node = history(self)
    data = self._data
    meta: Meta | None = self._meta
    mode = _mode.MODE.get()
    if self._counter is not None and self._counter.inference and not (mode is not None and mode.inference):
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed. "
            "You can make a clone to get a normal tensor before doing inplace update."
        )
    if writes and not expanded and is_expanded(data):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
    if writes and not backend.is_writable(data):
        raise RuntimeError(f"{name}: the tensor shares the memory of a read-only NumPy array; clone() it first")
    if writes and mode is not None and mode.observers:
        mode.observers[-1].writing(self)
        data = self._data
    if writes and mode is not None and mode.pack:
        announce(data)
    if not _mode.is_grad_enabled():
        return node
    view = meta.view if meta is not None else None
    if view is not None:
        base_node = root(view)._node
        if view.creation is not None and (node is not None or base_node is not None):
            raise refusal(name, view, node)
        if base_node is LEAF:
            raise RuntimeError(
                f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation. "
                "Change it under no_grad(), or work on a clone() of the leaf."
            )
    if node is LEAF:
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation. Change it under "
            "no_grad(), or work on a clone()."
        )
    return before_write(self, node) if writes else node


def before_write(self: Any, node: Any) -> Any:
    """The history `node` of a tensor as its next content's: that of a view without hooks, which, as in PyTorch, see no write."""
    view = self._meta.view if self._meta is not None else None
    return derived(view) if view is not None and hooked(node) else node


def rebase(self: Any, out: Any) -> None:
    """Makes the history of `out`, whose content `self` now holds, that of `self`."""
    meta = self._meta
    view = meta.view if meta is not None else None
    before = self._node
    if view is None:
        self._node = out._node
        if meta is not None and meta.retains:
            retain(self, before)
        return
    if view.creation is not None:
        raise refusal(self._counter.culprit, view, before)
    base = root(view)
    stand_in = wrap(base._data, base._node)
    base._node = backend.apply(COPY_SLICES, (stand_in, out), (view.steps,))._node
    if base._meta is not None and base._meta.retains:
        retain(base, stand_in._node)
    if meta.retains:
        retain(self, before)
