"""swap_tensors: two tensors exchange all that they are, except their identity."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ferro.core.base import TensorBase, View
from ferro.core.node import Node


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchanges data, history, gradient, class and attributes of two tensors: all who refer to one now see the other.

    RuntimeError where that would mislead somebody: a weak reference to one of the tensors, a view of it, or a graph
    that leads to it or has saved it (PyTorch notices the last only when the graph runs backward).

    Example::

        >>> import ferro
        >>> a, b = ferro.zeros(2), ferro.ones(3)
        >>> ferro.utils.swap_tensors(a, b)
        >>> a
        tensor([1., 1., 1.])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, TensorBase):
            raise TypeError(f"swap_tensors: expected {name} to be a Tensor, got {type(t).__name__}")
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        user = _user(t)
        if user is not None:
            raise RuntimeError(f"Cannot swap {name} because {user}; let go of that first")
    if t1 is t2:
        return
    attributes = [dict(vars(t)) if hasattr(t, "__dict__") else None for t in (t1, t2)]
    try:
        kind = type(t1)
        t1.__class__ = type(t2)
        t2.__class__ = kind
    except TypeError:
        raise RuntimeError(
            f"Cannot swap a {type(t1).__name__} with a {type(t2).__name__}: objects of these classes are built differently"
        ) from None
    for slot in ("_data", "_node", "_counter", "_meta"):
        first, second = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, second)
        setattr(t2, slot, first)
    for t, found in ((t1, attributes[1]), (t2, attributes[0])):
        if found is not None:
            vars(t).clear()
            vars(t).update(found)


def _user(t: Any) -> str | None:
    """Which part of autograd refers to the tensor itself, if one does."""
    for holder in gc.get_referrers(t):
        if isinstance(holder, View) and holder.base is t:
            return f"a view of it (shape {list(t._data.shape)}) is in use"
        if type(holder) is tuple:
            for node in gc.get_referrers(holder):
                if isinstance(node, Node):
                    return f"a graph that leads to it is in use (by {node.name()})"
        elif type(holder) is dict and any(isinstance(owner, View) for owner in gc.get_referrers(holder)):
            return "a view of it is in use"
    return None
