"""Helpers of the layers: one number or one per dimension, and names of a state without their prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that spreads one number over n dimensions and takes a sequence as it is."""

    def spread(value: Any) -> tuple[Any, ...]:
        if isinstance(value, Iterable):
            return tuple(value)
        return (value,) * n

    spread.__name__ = name
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
_sextuple = _ntuple(6, "_sextuple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take `prefix` off the keys that begin with it, in place, keeping their order, the metadata's too.

    >>> state = {"module.weight": 1, "other": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'other': 2}
    """
    for key in list(state_dict):
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key:  # '' is the module itself; 'module' is the owner of 'module.weight'
            metadata[(f"{key}." if f"{key}." == prefix else key).removeprefix(prefix)] = metadata.pop(key)
