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
    data = param._data
    dtype, shape = data.dtype, data.shape
    mode = MODE.get()
    if mode is None or not mode.silent or dtype.char not in "fd":
        return None
    tensors = (param, *state)
    for t in (grad, *tensors):
        if t is not None:
            a = t._data
            if type(a) is not ndarray or (a.dtype is not dtype and a.dtype != dtype) or a.shape != shape:
                return None
    for t in tensors:
        if t is not None:
            check(t, name)
            bump(t, name)
    return [None if t is None else t._data for t in tensors]
