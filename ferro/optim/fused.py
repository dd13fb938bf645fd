"""The arrays of one step, where a kernel may change them in place of a chain of operations on Tensors.

A backend that has steps of whole lists of parameters (`adam_steps`, `sgd_steps`) gets all those of a group at once: `later` keeps them
until `finish`, which an optimiser calls behind its last parameter.
"""

from __future__ import annotations

from threading import local
from typing import Any

from numpy import ndarray

from ferro.core import backend
from ferro.core.base import TensorBase, bump
from ferro.core.inplace import check
from ferro.core.mode import MODE


def arrays_to_change(name: str, grad: TensorBase, param: TensorBase, *state: TensorBase | None) -> list[Any] | None:
    """The arrays of param and state, counted as changed by `name`; None if operations on Tensors have to do the step.

    Kernels know NumPy arrays of one shape, all float32 or all float64. An observer (of a profiler, or looking for nan)
    is to see operations, so any mode but that of no_grad keeps them too. Whatever refuses an in-place operation, such
    as memory that is read-only, refuses here, before anything has changed.
    """
    mode = MODE.get()
    data = param._data
    dtype, shape = data.dtype, data.shape
    if mode is None or not mode.silent:
        return None
    if type(data) is not ndarray:
        return _of_backend(name, grad, param, state)
    if dtype.char not in "fd":
        return None
    arrays: list[Any] = [data]
    for t in (grad, *state):
        a = None if t is None else t._data
        if a is not None and (
            a.shape != shape or (a.dtype is not dtype and a.dtype != dtype) or type(a) is not ndarray
        ):
            return None
        arrays.append(a)
    location = (
        None if mode.detached is None else mode.detached.location
    )  # where the step was called: it has switched recording off
    for t in (param, *state):
        if t is not None:
            if t._counter is None or t._counter.inference or not t._data.flags.carray:  # else nothing can be amiss
                check(t, name)
            bump(t, name, location)
    del arrays[1]
    return arrays


def _of_backend(name: str, grad: TensorBase, param: TensorBase, state: tuple) -> list[Any] | None:
    takes = getattr(backend.module_of(type(param._data)), "takes_steps", None)
    arrays = [None if t is None else t._data for t in (param, grad, *state)]
    if takes is None or not takes(*arrays):
        return None
    for t in (param, *state):
        if t is not None:
            check(t, name)
            bump(t, name)
    del arrays[1]
    return arrays


class _Waiting(local):
    """The steps of this thread that wait: lists of arrays by the name of the step and its numbers."""

    def __init__(self) -> None:
        self.steps: dict[tuple, list[tuple]] = {}


_WAITING = _Waiting()


def later(name: str, arrays: tuple, *numbers: Any) -> None:
    """A step of arrays (param, grad, state...) of a backend: with all others of these numbers, when `finish` is called."""
    _WAITING.steps.setdefault((type(arrays[0]), name, numbers), []).append(arrays)


def finish() -> None:
    """Does the steps that wait."""
    steps = _WAITING.steps
    if steps:
        _WAITING.steps = {}
        for (kind, name, numbers), lists in steps.items():
            getattr(backend.module_of(kind), name)(lists, *numbers)
