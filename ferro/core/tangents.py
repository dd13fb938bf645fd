"""The tangents that a tensor carries at each level of forward mode, and how views and their bases share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase, View, meta_of, root, version_of, wrap
from ferro.core.primitives import VIEW_PUT, replay


def tangents_of(x: TensorBase | None) -> dict:
    """The tangents of a tensor by level; those of a view follow a change of its base."""
    if x is None or x._meta is None:
        return {}
    view = x._meta.view
    if view is not None and view.dual is not OWN and x._counter is not None and view.tangent_stamp != x._counter.n:
        base, steps = tangent_root(view)
        x._meta.tangents = {level: replay(t, steps) for level, t in tangents_of(base).items()}
        view.tangent_stamp = x._counter.n
    return x._meta.tangents or {}


OWN = "own"  # what View.dual says of the result of make_dual: a view whose tangents its base does not share


def tangent_root(view: View) -> tuple:
    """Where the tangents of a view come from and go to, and the steps from there to the view."""
    if view.dual is None:
        return root(view), view.steps
    dual, skip = view.dual
    return dual, view.steps[skip:]


def set_tangent(x: TensorBase, level: int, tangent: Any) -> None:
    """Gives a tensor its tangent at a level (None: none)."""
    have = dict(tangents_of(x))
    have.pop(level, None)
    if tangent is not None:
        have[level] = tangent
    meta_of(x).tangents = have or None
    view = x._meta.view if x._meta is not None else None
    if view is not None:
        view.tangent_stamp = version_of(x).n


def or_zero(t: Any, x: Any) -> Any:
    """The tangent, or zeros of the shape of x where there is none."""
    if t is not None or x is None:
        return t
    return wrap(backend.beside(x._data, np.zeros(x._data.shape, x._data.dtype)))


def write_tangents(x: TensorBase) -> None:
    """After an in-place change of `x` that gave it new tangents: the base of a view takes them too."""
    meta = meta_of(x)
    view = meta.view
    if view is None:
        return
    view.tangent_stamp = version_of(x).n
    if view.dual is OWN:
        return
    base, steps = tangent_root(view)
    mine = meta.tangents or {}
    have = dict(tangents_of(base))
    for level in {*mine, *have}:
        t = mine.get(level)
        value = t if t is not None else wrap(backend.beside(x._data, np.zeros(x._data.shape, x._data.dtype)))
        have[level] = backend.apply(VIEW_PUT, (or_zero(have.get(level), base), value), (steps,))
    meta_of(base).tangents = have or None
    if base._meta is not None and base._meta.view is not None:
        base._meta.view.tangent_stamp = version_of(base).n
