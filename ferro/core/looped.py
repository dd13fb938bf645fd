"""by_slices: functions of tensors that run as a loop under vmap, because they compute outside of what can be batched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from ferro.batched.array import levels_of
from ferro.batched.levels import ALIVE, running_outside
from ferro.core import backend
from ferro.core.base import TensorBase
from ferro.core.history import history
from ferro.core.tangents import tangents_of

F = TypeVar("F", bound=Callable)
BY_SLICES: list[str] = []  # their names, for docs/internals/operations.md


def by_slices(function: F) -> F:
    """Decorator: with a batched argument, the function is called once for every slice, and its results are stacked.

    Slices and results are recorded, so derivatives are those of the calls.
    """
    BY_SLICES.append(function.__name__)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if ALIVE:
            level = _top((args, kwargs))
            if level is not None:
                return _loop(function, level, args, kwargs)
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def _top(value: Any) -> Any:
    """The outermost level among the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, TensorBase):
        return next(iter(levels_of(value._data)), None)
    found = None
    if isinstance(value, (tuple, list, dict)):
        for v in value.values() if isinstance(value, dict) else value:
            level = _top(v)
            if level is not None and (found is None or level.number > found.number):
                found = level
    return found


def _loop(function: Callable, level: Any, args: tuple, kwargs: dict) -> Any:
    from ferro.batched.rules import say_loop
    from ferro.core.batching import leave
    from ferro.core.random import all_states, restore

    def each(value: Any) -> Any:
        """The value with a batched tensor replaced by that of all slices, marked."""
        if isinstance(value, TensorBase):
            # what is differentiated has another gradient for every slice, also if it is the same for all
            own = level in levels_of(value._data) or history(value) is not None or tangents_of(value)
            return _Slices(leave(value, level, 0)) if own else value
        if isinstance(value, dict):
            return {k: each(v) for k, v in value.items()}
        return (
            [each(v) for v in value]
            if type(value) is list
            else tuple(map(each, value))
            if type(value) is tuple
            else value
        )

    def one(value: Any, i: int) -> Any:
        if type(value) is _Slices:
            return backend.functional.select(value.tensor, 0, i)
        if type(value) is dict:
            return {k: one(v, i) for k, v in value.items()}
        return type(value)([one(v, i) for v in value]) if type(value) in (list, tuple) else value

    name = function.__name__
    if not level.size:
        raise RuntimeError(f"{name}: The fallback path does not support vmap over dims of size 0.")
    say_loop(name)
    given, named = each(args), each(kwargs)
    results = []
    state = all_states() if level.randomness == "same" else None
    # (with randomness "error" random numbers are refused inside as well)
    with running_outside(level) if level.randomness != "error" else nullcontext():
        for i in range(level.size):
            if state is not None:
                restore(state)
            results.append(function(*one(given, i), **one(named, i)))
    return _stacked(name, results, level)


class _Slices:
    """A tensor whose first dimension lists slices."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _stacked(name: str, results: list, level: Any) -> Any:
    from ferro.batched.array import DYNAMIC
    from ferro.core.batching import enter

    first = results[0]
    if any(isinstance(r, TensorBase) and level in levels_of(r._data) for r in results):
        raise RuntimeError(
            f"{name}: under vmap it runs once for every slice, and this one reached for a tensor of all slices by itself"
        )
    if isinstance(first, TensorBase):
        if any(r._data.shape != first._data.shape for r in results):
            raise RuntimeError(
                DYNAMIC.format(f"{name} returned the shapes {sorted({tuple(r._data.shape) for r in results})}")
            )
        return enter(backend.functional.stack(results, 0), level, 0)
    if isinstance(first, (tuple, list)):
        parts = [_stacked(name, list(column), level) for column in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)  # type: ignore[call-arg]
    if any(r != first for r in results):
        raise RuntimeError(DYNAMIC.format(f"{name} returned {first!r} for one slice and something else for another"))
    return first
