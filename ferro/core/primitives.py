"""The operations that the core itself needs: cast, clone, moves between devices, and writes through views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.batched.array import batch, expanded, levels_of, pulled
from ferro.batched.levels import ALIVE, Level
from ferro.core import backend
from ferro.core.backend import HOST
from ferro.core.base import TensorBase
from ferro.core.layout import FIRST, geometry
from ferro.core.op import LINEAR, OPS, Op

CAST = Op("to_copy", lambda xp, x, /, dtype: xp.cast(x, dtype), kind=LINEAR, x=lambda xp, g: g)

# A cast to integers records nothing: only the general form of apply, which machine code has too, looks at the dtype of the result.
CAST.short, CAST.applied = False, True

CLONE = Op("clone", lambda xp, x: xp.copy(x), kind=LINEAR, x=lambda xp, g: g, layout=FIRST)

TO_DEVICE = Op(
    "to_device",
    lambda xp, x, /, to, back, waits: backend.moved(x, to, waits),
    kind=LINEAR,
    x=lambda xp, g, to, back, waits: move(g, back, to),
)

TO_DEVICE.short, TO_DEVICE.backward_name = False, CAST.backward_name

PIN = Op("pin_memory", lambda xp, x, /, module: module.pinned(x), kind=LINEAR, x=lambda xp, g, module: g)
PIN.short = False

VIEW_ZERO = Op(
    "view_zero",
    lambda xp, x, /, steps: write_view(x, 0, steps),
    kind=LINEAR,
    x=lambda xp, g, steps: zero_through(g, steps),
)

COPY_SLICES = Op(
    "copy_slices",
    lambda xp, base, value, /, steps: base,
    kind=LINEAR,
    base=lambda xp, g, steps: zero_through(g, steps),
    value=lambda xp, g, steps: replay(g, steps),
)

COPY_SLICES.backward_name = "CopySlices"  # as in PyTorch

VIEW_PUT = Op(
    "view_put",
    lambda xp, base, value, /, steps: write_view(base, value, steps),
    kind=LINEAR,
    base=lambda xp, g, steps: zero_through(g, steps),
    value=lambda xp, g, steps: replay(g, steps),
)


def zero_through(g: Any, steps: tuple) -> Any:
    """`g` with zeros where the view described by `steps` lies."""
    return backend.apply(VIEW_ZERO, (g,), (steps,)) if isinstance(g, TensorBase) else write_view(g, 0, steps)


def move(x: Any, to: Any, back: Any) -> Any:
    """A tensor or an array on the device `to`, from the device `back`."""
    return backend.apply(TO_DEVICE, (x,), (to, back, True)) if isinstance(x, TensorBase) else backend.moved(x, to)


def write(data: Any, value: Any) -> None:
    """Writes an array, broadcast and cast, into another."""
    backend.xp_of(data).write_(data, value)


def replay(x: Any, steps: tuple) -> Any:
    """The view that `steps` describe, of an array or of a Tensor."""
    recorded = isinstance(x, TensorBase)
    for op, params, index in steps:
        x = backend.apply(op, (x,), params) if recorded else op.forward(backend.xp_of(x), x, *params)
        if index is not None:
            x = x[index]
    return x


def write_view(base: Any, value: Any, steps: tuple) -> Any:
    """A copy of the array `base` in which the view that `steps` describe holds `value`."""
    if ALIVE:
        base = with_levels(base, levels_of(value), levels_of(replay(base, steps)))
    xp = backend.xp_of(base)
    fresh = np.array(base, order="C", copy=True) if type(base) is HOST else xp.contiguous(base)
    view = replay(fresh, steps)
    if xp.may_share_memory(view, fresh):
        write(_writable(view), value)
        return fresh
    where = replay(np.arange(base.size).reshape(base.shape), steps)  # a reshape that copied: write by flat index
    fresh.reshape(-1)[backend.beside(base, where)] = value
    return fresh


def _writable(view: Any) -> Any:
    if not backend.is_writable(view):
        view.flags.writeable = True
    return view


def one_step(base: Any, view: Any) -> tuple | None:
    """The way from a base to a view as one step, whatever steps led there, unless places overlap, strides are negative or dtypes differ."""
    source, (shape, strides, offset) = geometry(base), geometry(view)
    if base.dtype is not view.dtype or any(s <= 0 for s in (*source[1], *strides)):
        return None
    return ((OPS["as_strided"], (shape, strides, offset, source), None),)


# -- levels of vmap: see Note [Levels and the tape] in batching.py ------------------------------------------------------


def _summed(x: Any, level: Level) -> Any:
    return backend.xp_of(p := pulled(x, level)).sum(p, (0,), False)


SUM = Op("vmap_sum", lambda xp, x, /, level: _summed(x, level), kind=LINEAR, x=lambda xp, g: g)


def leave_levels(run: Any, target: Any, gx: Any) -> Any:
    """A gradient for a node or leaf `target`, summed over the slices of those levels that `target` lies outside of."""
    born = 0 if isinstance(target, TensorBase) else target.seq
    for level in levels_of(gx._data if run.record else gx):
        if born < level.begin and level not in run.levels:
            gx = backend.apply(SUM, (gx,), (level,)) if run.record else _summed(gx, level)
    return gx


def with_levels(base: Any, wanted: list, have: list) -> Any:
    """An array once for every slice of the levels that it lacks."""
    for level in wanted:
        if level not in have:
            base = batch(expanded(base, level), level)
    return base
