"""swap_tensors: two tensors exchange all that they are, except their identity."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ferro.core.base import TensorBase, View
from ferro.core.node import Node
from ferro.core.storage import forget


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
        forget(t)
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        user = _user(t)
        if user is not None:
            raise RuntimeError(f"Cannot swap {name} because {user}; let go of that first")
    slots = _slots(type(t1))
    if slots != _slots(type(t2)):
        raise RuntimeError(
            f"Cannot swap t1 and t2 if they have different slots: {type(t1).__name__} has {sorted(slots)}, "
            f"{type(t2).__name__} has {sorted(_slots(type(t2)))}"
        )
    if t1 is t2:
        return
    t1.__class__, t2.__class__ = type(t2), type(t1)
    for slot in ("_data", "_node", "_counter", "_meta", "__dict__", *slots):
        first, second = getattr(t1, slot, _NOTHING), getattr(t2, slot, _NOTHING)
        for t, value in ((t1, second), (t2, first)):
            if value is not _NOTHING:
                setattr(t, slot, value)
            elif hasattr(t, slot):
                delattr(t, slot)


_NOTHING = object()


def _slots(cls: type) -> set[str]:
    """The names of the slots that a class and those between it and Tensor's have of their own."""
    found: set[str] = set()
    for c in cls.__mro__[: cls.__mro__.index(TensorBase)]:
        names = c.__dict__.get("__slots__", ())
        found.update((names,) if isinstance(names, str) else names)
    return found - {"__dict__", "__weakref__"}


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
