"""The recorded formula of an operation that takes many steps at once: the gradients of the same steps taken one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferro.core import backend, engine
from ferro.core import mode as _mode
from ferro.core.base import LEAF, meta_of, wrap
from ferro.core.graph_task import key_of
from ferro.core.history import position
from ferro.core.primitives import CLONE
from ferro.core.tangents import tangents_of


def vjp_of(function: Callable[..., tuple], inputs: Sequence, g: Sequence, needs: Sequence[bool]) -> tuple:
    """The gradients of function(*inputs), a tuple of tensors with the cotangents `g`, by the inputs that `needs` asks for.

    The results have a history that leads to the inputs and to `g`.  Absent inputs, cotangents and gradients are None.
    """
    recording = _mode.is_grad_enabled()
    with _mode.switched(grad=True):
        given = [_begun(x) if need and x is not None else x for x, need in zip(inputs, needs, strict=True)]
        pairs = [
            (out, u) for out, u in zip(function(*given), g, strict=True) if u is not None and position(out) is not None
        ]
        keys = [key_of(position(x)) if need and x is not None else None for x, need in zip(given, needs, strict=True)]
        wanted = dict.fromkeys([key for key in keys if key is not None])
        roots, seeds = [list(part) for part in zip(*pairs, strict=True)] if pairs else ([], [])
        found = engine.backward(roots, seeds, keep=True, record=True, capture=wanted) if pairs else {}
    result = [None if key is None else found.get(key) for key in keys]
    return tuple(result if recording else [None if t is None else _without_history(t) for t in result])


def _begun(x: Any) -> Any:
    """A copy of x at which a gradient by x stops: behind it, x may depend on another input."""
    fresh = backend.apply(CLONE, (x,))
    if fresh._node is None:  # x itself needs no gradient: forward mode asks for one
        fresh._node = LEAF
    return fresh


def _without_history(t: Any) -> Any:
    plain = wrap(t._data)
    have = tangents_of(t)
    if have:
        meta_of(plain).tangents = {level: _without_history(tangent) for level, tangent in have.items()}
    return plain
