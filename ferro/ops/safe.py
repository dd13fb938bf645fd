"""safe_where: a choice between functions in which the one that is not chosen is never computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.operands import promote
from ferro.core.origins import on_one_device
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.choices import both_operands
from ferro.ops.expanding import broadcast_shapes, expand
from ferro.ops.masks import masked_scatter, masked_select

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["safe_where"]


def safe_where(condition: Tensor, function: Callable, input: Any, otherwise: Any = 0.0) -> Tensor:
    """``function(input)`` where the condition holds, else ``otherwise``; no inf or nan comes from where it does not
    hold. ``where(condition, function(input), otherwise)`` computes the function everywhere. Where it is not chosen its
    cotangent is 0, but 0 * inf and 0 * nan are nan, and that nan reaches the input and, summed up, everything that was
    broadcast or captured. Here the function sees only the elements that are chosen, and so do its derivatives of every
    order, in reverse and forward mode.

    - `condition` (Tensor): bool
    - `function` (callable): elementwise: it gets 1-d tensors, one per input, with the chosen elements, and must return
      a tensor of that shape, or a 0-d one; it may capture 0-d tensors and numbers, other tensors belong in `input`
    - `input` (Tensor or tuple of Tensors): what the function takes
    - `otherwise` (number, Tensor or callable, default 0.0): what stands elsewhere, or a function of the elements there

    The condition, the inputs and a tensor `otherwise` are broadcast together, and the two results are promoted to one
    dtype. Raises RuntimeError if shapes do not fit or the condition is not boolean.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([0.0, 4.0], requires_grad=True)
        >>> ferro.safe_where(x > 0, ferro.sqrt, x).sum().backward()
        >>> x.grad
        tensor([0.0000, 0.2500])
        >>> ferro.where(x > 0, x.sqrt(), 0.0).sum().backward()
        >>> x.grad
        tensor([   nan, 0.5000])
    """
    if need_tensor("safe_where", "condition", condition)._data.dtype.kind != "b":
        raise RuntimeError(f"safe_where: expected condition to be a boolean tensor, got {condition.dtype}")
    inputs = input if isinstance(input, tuple) else (input,)
    on_one_device("safe_where", condition, *inputs, *([] if callable(otherwise) else [otherwise]))
    for x in inputs:
        need_tensor("safe_where", "input", x)
    tensors = [condition, *inputs, *([otherwise] if isinstance(otherwise, TensorBase) else [])]
    try:
        shape = tuple(broadcast_shapes(*[t._data.shape for t in tensors]))
    except RuntimeError:
        shapes = ", ".join(str(list(t._data.shape)) for t in tensors)
        raise RuntimeError(
            f"safe_where: the shapes {shapes} of condition, input and otherwise cannot be broadcast together"
        ) from None
    mask = wrap(backend.xp_of(condition._data).expand(condition._data, shape).copy())
    full = tuple([expand(x, shape) for x in inputs])
    chosen = _elements(function, full, mask)
    if callable(otherwise) and not isinstance(otherwise, TensorBase):
        rest = wrap(~mask._data)
        other = _elements(otherwise, full, rest)
        chosen, other = promote(chosen, other)
        base = masked_scatter(wrap(backend.beside(other._data, np.zeros(shape, other._data.dtype))), rest, other)
    else:
        chosen, other = both_operands("safe_where", chosen, otherwise)
        other = other.to(condition.device)
        base = expand(other, shape)
    return masked_scatter(base, mask, chosen)


def _elements(function: Callable, inputs: tuple, mask: Any) -> Any:
    """The function of the elements of its inputs where the mask is true."""
    picked = [masked_select(x, mask) for x in inputs]
    result = function(*picked)
    shape = picked[0]._data.shape
    if not isinstance(result, TensorBase) or result._data.shape not in (shape, ()):
        got = f"shape {list(result._data.shape)}" if isinstance(result, TensorBase) else type(result).__name__
        raise RuntimeError(
            f"safe_where: the function must be elementwise: for {shape[0]} elements it must return a tensor of "
            f"shape {list(shape)}, got {got}"
        )
    return backend.functional.expand(result, shape)


def _root(x: Any) -> Any:
    return x.sqrt()


def _ratio(x: Any, y: Any) -> Any:
    return x / y


def _reference(mask: Any, *arrays: Any) -> Any:
    """The values of the samples, told apart by the number of their arrays."""
    if len(arrays) == 1:
        return np.where(mask, np.sqrt(arrays[0]), np.asarray(1.5, arrays[0].dtype))
    return np.where(mask, arrays[0] / arrays[1], arrays[2])


_HALF = Arg(values=[[True, False, True], [False, False, True]], dtype="bool")

declare(
    "safe_where",
    [
        Sample(_HALF, _root, Arg(2, 3, low=0.5, high=2.0), 1.5),
        Sample(_HALF, _ratio, (Arg(2, 3), Arg(3, low=0.5, high=2.0)), Arg(2, 1)),
        Sample(Arg(values=True, dtype="bool"), _root, Arg(low=0.5, high=2.0), 1.5),
        Sample(Arg(2, 1, dtype="bool"), _root, Arg(3, low=0.5, high=2.0), 1.5),
        Sample(Arg(0, dtype="bool"), _root, Arg(0, low=0.5, high=2.0), 1.5),
    ],
    reference=_reference,
    complex=True,
)
