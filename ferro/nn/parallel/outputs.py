"""What a model has returned: its tensors, the parameters that they lead to, and outputs through which backward is noticed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from ferro.autograd.function import Function
from ferro.core.base import TensorBase
from ferro.core.history import position
from ferro.core.node import Node, OutputRef
from ferro.core.trees import flatten, map_tensors
from ferro.ops.creation import ones


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in lists, tuples, dictionaries and data classes."""
    for leaf in flatten(value)[0]:
        if isinstance(leaf, TensorBase):
            yield leaf
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for field in dataclasses.fields(leaf):
                yield from tensors(getattr(leaf, field.name))


def leads_to(outputs: list[Any]) -> set[int]:
    """The ids of the leaves whose gradients a backward from these outputs computes."""
    found: set[int] = set()
    seen: set[Any] = set()
    stack = [position(t) for t in outputs if t.requires_grad]
    while stack:
        at = stack.pop()
        at = at.node if type(at) is OutputRef else at
        if isinstance(at, TensorBase):
            found.add(id(at))
        elif at not in seen:
            seen.add(at)
            stack.extend(at.edges if isinstance(at, Node) else ())
    return found


def watched(value: Any, notice: Callable[[], None]) -> Any:
    """The value; `notice` is called when backward has the gradient of one of its tensors.

    If none of them requires a gradient, the floats among them do from now on: backward may begin there, and ends there.
    """
    found = [t for t in tensors(value) if t.requires_grad and not t.is_leaf]
    if not found:
        value, found = _recorded(value)

    def hook(grad: Any) -> None:
        notice()

    for t in found:
        t.register_hook(hook)
    return value


def _recorded(value: Any) -> tuple[Any, list[Any]]:
    """The value with floating-point tensors that require a gradient, and these."""
    found: list[Any] = []

    def changed(t: Any) -> Any:
        if t.is_floating_point() or t.is_complex():
            found.append(_Through.apply(ones(1, requires_grad=True, device="cpu"), t))
            return found[-1]
        return t

    return map_tensors(changed, value), found


class _Through(Function):
    """A tensor, as a result that requires a gradient."""

    @staticmethod
    def forward(ctx: Any, key: Any, x: Any) -> Any:
        ctx.needs = x.requires_grad
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad if ctx.needs else None
