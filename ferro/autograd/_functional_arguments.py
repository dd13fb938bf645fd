"""What the functions of autograd.functional are given and what functions return to them: tensors, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.core.history import history


def _tuple(name: str, what: str, given: Any) -> tuple[tuple, bool]:
    single = not isinstance(given, tuple)
    found = (given,) if single else given
    for i, t in enumerate(found):
        if not isinstance(t, TensorBase):
            which = f"given {what}" if single else f"value at index {i}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type {type(t)}."
            )
    return found, single


def _inputs(name: str, inputs: Any, create_graph: bool) -> tuple[tuple, bool]:
    """Tensors to differentiate by: connected to the given ones if the result is to be differentiated again."""
    xs, single = _tuple(name, "inputs", inputs)
    return tuple(
        [x.view_as(x) if create_graph and history(x) is not None else x.detach().requires_grad_() for x in xs]
    ), single


def _run(name: str, func: Callable, xs: tuple, strict: bool) -> tuple[tuple, bool]:
    outputs, single = _tuple(name, "outputs of the user-provided function", func(*xs))
    if strict:
        for i, o in enumerate(outputs):
            if history(o) is None:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be computed "
                    "in a differentiable manner from the input when running in strict mode."
                )
    return outputs, single


def _scalar(name: str, outputs: tuple, single: bool) -> None:
    """Raises unless a function gave one tensor with one element."""
    if not single or len(outputs) != 1:
        raise RuntimeError(f"The function given to {name} should return a single Tensor, not a tuple of {len(outputs)}")
    if outputs[0]._data.size != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, got shape "
            f"{list(outputs[0]._data.shape)}"
        )


def _vectors(name: str, v: Any, like: tuple, single: bool, whose: str) -> tuple:
    """The vector v, checked against the tensors that it weights; `whose` says in the error what these are."""
    if v is None:
        if len(like) != 1 or like[0]._data.size != 1:
            raise RuntimeError(f"The vector v can only be None if {whose} a single Tensor with a single element.")
        return (wrap(backend.beside(like[0]._data, np.ones(like[0]._data.shape, like[0]._data.dtype))),)
    vs, _ = _tuple(name, "v", v)
    if len(vs) != len(like):
        raise RuntimeError(
            f"{name}: The given v should contain a single Tensor."
            if single
            else f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}."
        )
    for i, (a, b) in enumerate(zip(vs, like, strict=True)):
        if a._data.shape != b._data.shape:
            entry = "" if single else f"Entry {i} in "
            raise RuntimeError(
                f"{entry}v has invalid size: should be torch.Size({list(b._data.shape)}) but got "
                f"torch.Size({list(a._data.shape)})."
            )
    return vs


_RETURNS = "the user-provided function returns"
_TAKES = "the input to the user-provided function is"
_STRICT = " This is not allowed in strict mode"
