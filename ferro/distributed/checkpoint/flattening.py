"""A state as a flat dictionary of names, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.base import TensorBase


def _is_data(value: Any) -> bool:
    return isinstance(value, (TensorBase, np.ndarray))


def _has_data(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_data, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_data, value))
    return _is_data(value)


def _inner(value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a dictionary, or of a list or tuple that has tensors; None for what is saved as one."""
    if isinstance(value, dict) and value and all(isinstance(k, (str, int)) for k in value):
        return list(value.items())
    if isinstance(value, (list, tuple)) and _has_data(value):
        return list(enumerate(value))
    return None


def flattened(state: dict[str, Any]) -> dict[str, Any]:
    """Tensors, arrays and plain values by name: keys and places joined by dots. ValueError if two have one name.

    >>> flattened({"a": {"b": 1}, "c": [2, 3]})
    {'a.b': 1, 'c': [2, 3]}
    """
    found: dict[str, Any] = {}

    def walk(name: str, value: Any) -> None:
        inner = _inner(value)
        if inner is None:
            if name in found:
                raise ValueError(f"checkpoint: two values have the name {name!r}")
            found[name] = value
            return
        for key, part in inner:
            walk(f"{name}.{key}", part)

    for key, value in state.items():
        walk(str(key), value)
    return found


def restored(name: str, value: Any, of: Callable[[str, Any], Any]) -> Any:
    """The value with ``of(name, leaf)`` in place of each leaf; dictionaries and lists are changed, tuples made anew.

    >>> state = {"b": 1}
    >>> restored("a", state, lambda name, leaf: (name, leaf)) is state, state
    (True, {'b': ('a.b', 1)})
    """
    inner = _inner(value)
    if inner is None:
        return of(name, value)
    fresh = {key: restored(f"{name}.{key}", part, of) for key, part in inner}
    if isinstance(value, tuple):
        return type(value)(fresh.values()) if type(value) is tuple else type(value)(*fresh.values())
    for key, part in fresh.items():
        value[key] = part
    return value
