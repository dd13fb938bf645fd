"""Views: applying an operation whose result shares memory with its input, and what the result knows of its base."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.backend import HOST
from ferro.core.base import LEAF, View, not_a_tensor, version_of, wrap
from ferro.core.history import history
from ferro.core.mode import ACTIVE, MODE, current
from ferro.core.node import MultiNode, next_sequence
from ferro.core.op import Op
from ferro.core.provenance import caller
from ferro.core.recording import mark_detached, output_of, record
from ferro.cpu.shape import may_be_viewed
from ferro.native.recorder import accelerated
from ferro.native.thresholds import SMALL


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
    base = out.base
    if (base is not None and (base is a or base is a.base)) or shares(out, a):
        v = t._counter = v or version_of(x)
        if v.inference:  # what shares the memory of an inference tensor is one, and no view
            return t
        start = (x, None, None, 0) if x._meta is None else origin(x)
        t._meta = _view(start, op, params, None, v.n, mode)
    if n is not None and mode is None:
        plan: Any = op.table[1] or op.plan(1)
        t._node = record(plan, (x if n is LEAF else n,), (x,), (a,), (out,), params)
    elif n is not None or x._meta is not None:
        mark_detached(t, None if mode is None else mode.detached, op, (x,))
    return t


def looks_for_copies(a: Any) -> bool:
    """Whether `is_copied` pays for itself: of large arrays of NumPy's that are not in C order."""
    return type(a) is HOST and a.size >= SMALL and not a.flags.c_contiguous


def is_copied(a: Any, shape: tuple) -> bool:
    """Whether such an array has another shape only as a copy."""
    return not may_be_viewed(a, shape)


@accelerated
def parted(op: Op, x: Any, params: tuple) -> tuple:
    """Applies an operation whose results are several views of its one input: a short form of `apply`."""
    a = x._data
    mode = None
    if (ACTIVE and (mode := MODE.get()) is not None and not mode.silent) or type(a) is not HOST:
        return backend.apply(op, (x,), params)
    arrays = op.viewing(a, *params)  # type: ignore[misc]
    v = x._counter or version_of(x)
    if v.inference:
        return backend.apply(op, (x,), params)
    n = history(x) if v.n else x._node
    start = origin(x)
    location = caller(3)
    node: Any = None
    if n is not None and mode is None:
        plan: Any = op.table[1] or op.plan(1)
        node = record(plan, (x if n is LEAF else n,), (x,), (a,), (), params, cls=MultiNode)
        node.outputs = tuple([(out.shape, a.dtype) for out in arrays])
    found = []
    for i, out in enumerate(arrays):
        t = wrap(out)
        t._counter = v
        t._meta = _view(start, op, params, i, v.n, mode, location)
        if node is not None:
            t._node = output_of(node, i, out.shape, a.dtype)
        elif n is not None or x._meta is not None:
            mark_detached(t, None if mode is None else mode.detached, op, (x,))
        found.append(t)
    return tuple(found)


def origin(x: Any) -> tuple:
    """Base, path, creation and born (see View) that a view of `x` starts from."""
    parent = None if x._meta is None else x._meta.view
    return (x, None, None, 0) if parent is None else (parent.base, parent.path, parent.creation, parent.born)


def _view(start: tuple, op: Op, params: tuple, index: int | None, stamp: int, mode: Any, location: Any = None) -> View:
    """What a view knows of its base. start: the `origin` of its input; index: which of several; mode: what keeps it from being recorded."""
    view = View()
    view.base, path, creation, view.born = start
    view.path = (path, op, params, index)
    view.stamp = view.tangent_stamp = stamp
    view.dual = view.under = view.detached = None
    view.location = location
    view.creation = creation or ("no_grad" if mode is not None else None if index is None else "multi")
    if mode is not None:
        view.under = mode.detached
        view.born = next_sequence()
    return view


def mark_view(t: Any, x: Any, op: Op, params: tuple, index: int | None, recording: bool, location: Any = None) -> None:
    """Makes `t` a view of the base of `x` if it shares memory with it."""
    if t._data.base is not x._data and not shares(t._data, x._data):
        return
    v = t._counter = version_of(x)
    if not v.inference:  # (what shares the memory of an inference tensor is one, and no view)
        t._meta = _view(origin(x), op, params, index, v.n, None if recording else current(), location)


def shares(a: Any, b: Any) -> bool:
    """Whether a result is a view of its input (of NumPy's, an own copy has no base, or a base of its own)."""
    if a is b:
        return True
    if isinstance(a, HOST):
        base = a.base
        return base is not None and (base is b or base is b.base or np.may_share_memory(a, b))
    a, b = plain(a), plain(b)
    if not a.size:  # (nothing tells a view without elements from a copy)
        return True
    return backend.xp_of(a).may_share_memory(a, b)
