"""Forward mode through custom Functions: the tangents of the outputs by the user's jvp, and what jvp must not do."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase, version_of, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.forward_mode import OWN, follow_dual, note_saved, plain, set_tangent, tangents_of, without

_INPLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an input inplace, then the "
    "jvp function must modify the corresponding gradient inplace."
)
_AS_IS = (
    "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is modifying an input inplace, then the jvp "
    "function must modify the gradient inplace and return it as-is."
)


def push(cls: Any, ctx: Any, args: tuple, outs: list, dirty: tuple, nondiff: tuple, level: int) -> None:
    """Gives the outputs `outs` of a Function the tangents that its jvp returns.

    dirty and nondiff: the outputs that are inputs changed in place, and those without a derivative.
    """
    given = [tangents_of(a).get(level) if isinstance(a, TensorBase) else None for a in args]
    tangents: list[Any] = list(given)
    if ctx.materialize_grads:
        for i, a in enumerate(args):
            if tangents[i] is None and isinstance(a, TensorBase) and a._data.dtype in INEXACT:
                tangents[i] = wrap(backend.beside(a._data, np.zeros(a._data.shape, a._data.dtype)))
    versions = [None if t is None else version_of(t).n for t in tangents]
    # what saved_tensors gives in jvp: without the tangents of this level, lest outputs hold themselves
    saved, ctx.saved = ctx.saved, None
    ctx._to_save = tuple([plain(t) if _contains(outs, t) else without(t, level) for t in ctx._for_forward])
    ctx._for_forward = ()
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        ctx.saved, ctx._to_save = saved, ()
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(outs):
        raise RuntimeError(
            f"{cls.__name__}.jvp returned {len(found)} tangents for {len(outs)} outputs: Function's jvp returned an invalid number "
            f"of forward gradients (expected {len(outs)} but got {len(found)})"
        )
    for i, (out, t) in enumerate(zip(outs, found, strict=True)):
        if t is None:
            continue
        _check(cls, i, out, t, nondiff)
        source = next((k for k, a in enumerate(args) if a is out), None) if _contains(dirty, out) else None
        if source is not None:
            changed = tangents[source] is None or version_of(tangents[source]).n != versions[source]
            if not changed or t is not tangents[source]:
                raise RuntimeError(f"{cls.__name__}: {_AS_IS if changed else _INPLACE}")
        else:
            _check_view(cls, out, t, args, given)
        set_tangent(out, level, t)
        note_saved(out)


def _contains(group: Any, t: Any) -> bool:
    return any(t is g for g in group)


def _check(cls: Any, i: int, out: Any, t: Any, nondiff: tuple) -> None:
    """Raises unless `t` may be the tangent of output i."""
    if not isinstance(out, TensorBase) or out._data.dtype not in INEXACT or _contains(nondiff, out):
        raise RuntimeError(
            f"{cls.__name__}: Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
            "differentiable Tensor. You should return None at that position instead."
        )
    if not isinstance(t, TensorBase):
        raise RuntimeError(
            f"{cls.__name__}.jvp: expected Tensor or None as the tangent of each output, got {type(t).__name__}"
        )
    if t._data.shape != out._data.shape:
        raise RuntimeError(
            f"{cls.__name__}.jvp returned a tangent of shape {list(t._data.shape)} for an output of shape "
            f"{list(out._data.shape)}"
        )


def _view(t: Any) -> Any:
    return None if t is None or t._meta is None else t._meta.view


def _check_view(cls: Any, out: Any, t: Any, args: tuple, given: list) -> None:
    """Raises if an output is a view of an input and the tangent no view of the input's: a write to one would miss the other."""
    view = _view(out)
    if view is None:
        return
    for a, tangent in zip(args, given, strict=True):
        if tangent is None:
            continue
        parent = _view(a)
        if view.base is not a and (parent is None or parent.base is not view.base):
            continue
        mine = _view(t)
        if mine is None:
            raise RuntimeError(
                f"{cls.__name__}: A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
            )
        above = _view(tangent)
        if parent is None or parent.dual is OWN:
            if mine.base is not tangent and (above is None or mine.base is not above.base):
                raise RuntimeError(
                    f"{cls.__name__}: A custom Function is returning a view but the jvp is not returning a view of the given grad input."
                )
        elif above is None or mine.base is not above.base:
            raise RuntimeError(
                f"{cls.__name__}: A custom Function is returning a view but the jvp is not returning a view of the same base as the "
                "given grad input."
            )
        if parent is not None and parent.dual is not None:
            follow_dual(a, (out,))
        return
