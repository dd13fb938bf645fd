"""Tensors and elements repeated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import unary
from ferro.core.arguments import one_dim, sizes
from ferro.core.base import TensorBase, wrap
from ferro.core.device import CPU
from ferro.core.looped import by_slices
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.index_arguments import ints
from ferro.ops.shape import reshape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["repeat_interleave", "tile"]


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """A copy of the tensor repeated along its dimensions; extra numbers add leading dimensions.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2]).repeat(2, 3)
        tensor([[1, 2, 1, 2, 1, 2],
                [1, 2, 1, 2, 1, 2]])
    """
    times = sizes("repeat", repeats)
    if len(times) < self._data.ndim:
        raise RuntimeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{list(times)} for {self._data.ndim} dimensions"
        )
    if any(t < 0 for t in times):
        lead = (1,) * (len(times) - self._data.ndim)
        shape = [n * t for n, t in zip((*lead, *self._data.shape), times, strict=True)]
        wrong = min(shape) if min(shape) < 0 else min(times)
        raise RuntimeError(
            f"repeat: Trying to create tensor with negative dimension {wrong}: {shape}, by repeats {list(times)}"
        )
    return unary(REPEAT, self, (times,))


def _repeat_x(xp: Any, g: Any, x_shape: tuple, times: tuple) -> Any:
    shape = (1,) * (len(times) - len(x_shape)) + x_shape
    pairs = tuple([n for pair in zip(times, shape, strict=True) for n in pair])
    return xp.reshape(xp.sum(xp.reshape(g, pairs), tuple(range(0, len(pairs), 2)), False) if pairs else g, x_shape)


REPEAT = Op(
    "repeat",
    lambda xp, x, /, times: xp.repeat(x, times),
    kind=LINEAR,
    x=_repeat_x,
    path="Tensor.repeat",
    complex=True,
    samples=[Sample(Arg(2, 3), 2, 1), Sample(Arg(3), (2, 2)), Sample(Arg(), 3), Sample(Arg(2), 0)],
)


def tile(input: Tensor, *given: Any, dims: Any = None) -> Tensor:
    """A copy of the tensor, repeated along its dimensions.

    - `input` (Tensor): any shape
    - `*given` (ints): how often along each dimension, or one tuple of them; missing numbers in front count as 1
    - `dims` (ints, default None): the same by name

    Example::

        >>> import ferro
        >>> ferro.tile(ferro.tensor([1, 2]), (2, 2))
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = sizes("tile", given or (dims,))
    return repeat(input, (1,) * (input._data.ndim - len(times)) + times)


declare(
    "tile",
    [Sample(Arg(2, 3), (2,)), Sample(Arg(3), (2, 2)), Sample(Arg(2, 1), (1, 3)), Sample(Arg(), ())],
    complex=True,
)


@by_slices
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every slice along `dim` (every element, if None) repeated in its place, one number of times or one for each.

    Of a tensor of numbers alone: each position repeated that many times.

    - `input` (Tensor): any shape
    - `repeats` (int or Tensor, default None): how often, a number or (n), not negative
    - `dim` (int, default None): the dimension; None: the flattened tensor
    - `output_size` (int, default None): the size of the result along `dim`, if it is known

    RuntimeError for negative repeats and numbers that do not fit, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2, 3]).repeat_interleave(2)
        tensor([1, 1, 2, 2, 3, 3])
    """
    if repeats is None:
        if input._data.ndim != 1 or input._data.dtype.kind not in "iu":
            raise RuntimeError(
                f"repeat_interleave only accepts 1D int vectors as repeat, got shape {list(input._data.shape)}, dtype {input.dtype}"
            )
        return wrap(np.repeat(np.arange(input._data.size), _counts(input._data)))
    x = reshape(input, (input._data.size,)) if dim is None or not input._data.ndim else input
    d = one_dim("repeat_interleave", x._data.ndim, 0 if dim is None else dim)
    shape = x._data.shape
    if type(repeats) is int and repeats > 1 and shape[d] > 1 and output_size in (None, repeats * shape[d]):
        return unary(INTERLEAVE, x, (repeats, d))
    times: Any = repeats._data if isinstance(repeats, TensorBase) else np.asarray(repeats)
    times = backend.moved(times, CPU)
    if times.dtype.kind not in "iu":
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{dtypes.type_name(dtypes.from_numpy(times.dtype))}': repeats must be integers"
        )
    if times.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must be 0-dim or 1-dim tensor, got {times.ndim} dimensions")
    times = _counts(times.reshape(-1))
    if times.size not in (1, shape[d]):
        raise RuntimeError(
            f"repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {times.size} "
            f"and input.size({d}) = {shape[d]}"
        )
    total = int(times.sum()) * (shape[d] if times.size == 1 else 1)
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"repeat_interleave: allocated size does not match required size: output_size {output_size}, required {total}"
        )
    if times.size == 1 and times[0] > 1 and shape[d] > 1:  # (else the expanded array would be a view of the input)
        return unary(INTERLEAVE, x, (int(times[0]), d))
    return x.index_select(d, wrap(backend.beside(x._data, np.repeat(np.arange(shape[d]), times))))


FEW = 4  # slices of single numbers, or nearly so, are added one after the other: a sum would go along so short a dimension


def _interleaved_x(xp: Any, g: Any, x_shape: tuple, times: int, dim: int) -> Any:
    g = xp.reshape(g, (*x_shape[: dim + 1], times, *x_shape[dim + 1 :]))
    if times > FEW or math.prod(x_shape[dim + 1 :]) > FEW:
        return xp.sum(g, (dim + 1,), False)
    total = xp.select(g, dim + 1, 0)
    for k in range(1, times):
        total = total + xp.select(g, dim + 1, k)
    return total


INTERLEAVE = Op(
    "repeat_interleave",
    lambda xp, x, /, times, dim: xp.repeat_interleave(x, times, dim),
    kind=LINEAR,
    x=_interleaved_x,
)


def _counts(times: Any) -> Any:
    if times.size and times.min() < 0:
        raise RuntimeError("repeat_interleave: repeats can not be negative")
    return times


declare(
    "repeat_interleave",
    [
        Sample(Arg(2, 3), 2),
        Sample(Arg(2, 3), 2, 1),
        Sample(Arg(3, 2), 6, 0),
        Sample(Arg(3), ints([1, 0, 2]), 0),
        Sample(Arg(), 2),
        Sample(Arg(2, 2), ints([2]), dim=0),
    ],
    complex=True,
)


class RepeatingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    repeat, repeat_interleave = repeat, repeat_interleave
    tile = tile
