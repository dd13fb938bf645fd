"""Views: applying an operation whose result shares memory with its input, and what the result knows of its base."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.backend import HOST
from ferro.core.base import LEAF, View, new, not_a_tensor, version_of, wrap
from ferro.core.history import history
from ferro.core.mode import ACTIVE, MODE, current
from ferro.core.node import MultiNode, Node, OutputRef, next_sequence
from ferro.core.op import Op
from ferro.core.provenance import caller
from ferro.native.recorder import accelerated


@accelerated
def viewed(op: Op, x: Any, params: tuple = ()) -> Any:
    """Applies an operation of one input whose result is a view (or a copy where no view is possible): a short form of `apply`."""
    try:
        a = x._data
    except AttributeError:
        raise not_a_tensor(op.name, x) from None
    mode = None
    if (ACTIVE and (mode := MODE.get()) is not None and not mode.silent) or type(a) is not HOST:
        return backend.apply(op, (x,), params)
    viewing: Any = op.viewing
    out = viewing(a, params[0]) if len(params) == 1 else viewing(a, *params)  # (a star costs half as much as a view)
    t = wrap(out)
    v = x._counter
    n = x._node if v is None or not v.n else history(x)
    m = x._meta
    base = out.base
    if (base is not None and (base is a or base is a.base)) or shares(out, a):
        v = t._counter = v or version_of(x)
        if v.inference:  # what shares the memory of an inference tensor is one, and no view
            return t
        view = t._meta = View()
        if m is None or (parent := m if type(m) is View else m.view) is None or parent.base is None:
            view.base = x
            view.path = (None, op, params, None)
            view.creation = None
            view.born = 0
        else:
            view.base = parent.base
            view.path = (parent.path, op, params, None)
            view.creation = parent.creation
            view.born = parent.born
        view.stamp = view.tangent_stamp = v.n
        view.dual = view.location = view.under = view.detached = None
        if mode is not None:
            view.creation = view.creation or "no_grad"
            view.under = mode.detached
            view.born = next_sequence()
    if n is None or mode is not None:
        mark = mode.detached if n is not None and mode is not None else None if m is None else m.detached
        if mark is not None:
            if t._meta is None:
                t._meta = mark
            else:
                t._meta.detached = mark
        return t
    node = t._node = Node()
    plan: Any = op.table[1] or op.plan(1)
    node.plan = plan
    node.edges = (x if n is LEAF else n,)
    short = plan.short
    if short == 20:
        node.saved = (a.shape,)
    elif short == 22:
        node.saved = (*params, a.shape)
    else:
        node.saved = params if short == 21 else ()
    node.shape = out.shape
    node.dtype = out.dtype
    node.seq = next_sequence()
    node.meta = None
    return t


@accelerated
def parted(op: Op, x: Any, params: tuple) -> tuple:
    """Applies an operation whose results are several views of its one input: a short form of `apply`."""
    a = x._data
    mode = None
    if (ACTIVE and (mode := MODE.get()) is not None and not mode.silent) or type(a) is not HOST:
        return backend.apply(op, (x,), params)
    arrays = op.viewing(a, *params)  # type: ignore[misc]
    v = x._counter or version_of(x)
    stamp = v.n
    if v.inference:
        return backend.apply(op, (x,), params)
    n = x._node if not stamp else history(x)
    base, path, creation, born = origin(x)
    creation = creation or ("multi" if mode is None else "no_grad")
    location = caller(3)
    under = mark = node = None
    if mode is not None:
        under, born = mode.detached, next_sequence()
    if n is None or mode is not None:
        mark = under if n is not None else None if x._meta is None else x._meta.detached
    else:
        node = MultiNode()
        plan: Any = op.table[1] or op.plan(1)
        node.plan = plan
        node.edges = (x if n is LEAF else n,)
        node.saved = (*params, a.shape)
        node.dtype = node.meta = None
        node.shape = None  # type: ignore[assignment]  (each output has its own)
        node.seq = next_sequence()
    dtype = a.dtype
    found = []
    outputs = []
    for i, out in enumerate(arrays):
        t = wrap(out)
        t._counter = v
        view = t._meta = View()
        view.base = base
        view.path = (path, op, params, i)
        view.creation = creation
        view.born = born
        view.stamp = view.tangent_stamp = stamp
        view.location = location
        view.under = under
        view.detached = mark
        view.dual = None
        if node is not None:
            pick = t._node = new(OutputRef)
            pick.node = node
            pick.index = i
            pick.shape = shape = out.shape
            pick.dtype = dtype
            outputs.append((shape, dtype))
        found.append(t)
    if node is not None:
        node.outputs = tuple(outputs)
    return tuple(found)


def origin(x: Any) -> tuple:
    """Base, path, creation and born (see View) that a view of `x` starts from."""
    parent = None if x._meta is None else x._meta.view
    return (x, None, None, 0) if parent is None else (parent.base, parent.path, parent.creation, parent.born)


def mark_view(t: Any, x: Any, op: Op, params: tuple, index: int | None, recording: bool, location: Any = None) -> None:
    """Makes `t` a view of the base of `x` if it shares memory with it: the general form of what is above."""
    if t._data.base is not x._data and not shares(t._data, x._data):
        return
    v = t._counter = version_of(x)
    if v.inference:  # what shares the memory of an inference tensor is one, and no view
        return
    view = t._meta = View()
    view.base, path, view.creation, view.born = origin(x)
    view.path = (path, op, params, index)
    view.stamp = view.tangent_stamp = v.n
    view.dual = view.location = view.under = view.detached = None
    if not recording:
        view.creation, view.born, view.under = view.creation or "no_grad", next_sequence(), current().detached
    if index is not None:
        view.creation, view.location = view.creation or "multi", location


def shares(a: Any, b: Any) -> bool:
    """Whether a result is a view of its input (of NumPy's, an own copy has no base, or a base of its own)."""
    if a is b:
        return True
    if isinstance(a, HOST):
        base = a.base
        return base is not None and (base is b or base is b.base or np.may_share_memory(a, b))
    return backend.xp_of(a).may_share_memory(a, b)
