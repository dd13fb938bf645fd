"""The arrays of one step, where a kernel may change them in place of a chain of operations on Tensors."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

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
    if mode is None or not mode.silent or dtype.char not in "fd" or type(data) is not ndarray:
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
