"""Elements by flat positions, counted in C order: take and put."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.batched.array import plain
from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.layout import FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.ops.index_arguments import INT64, in_bounds, ints, written
from ferro.ops.indexing import _written

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["put", "take"]


def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements, counted in C order, that `index` names, in the shape of the index."""
    if need_tensor("take", "index", index)._data.dtype != INT64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {dtypes.type_name(index.dtype)}")
    _reached("take()", index, input)
    return written("take", out, apply(TAKE, (input, index)), input, index)


TAKE = Op(
    "take",
    lambda xp, x, index: xp.take(x, index),
    kind=LINEAR,
    x=lambda xp, g, x_shape, index: xp.put(xp.new_zeros(g, x_shape), index, g, True),
    complex=True,
    samples=[Sample(Arg(2, 3), ints([4, 0, -1, 4])), Sample(Arg(3), ints([[1], [2]])), Sample(Arg(2), ints(1))],
)


def _reached(name: str, index: Any, x: Any) -> None:
    """IndexError unless all of `index` counts elements of x, from either end."""
    try:
        in_bounds(name, index._data, x._data.size, 0, negative=True)
    except IndexError as e:
        data = plain(index._data)
        bad = int(data[(data >= x._data.size) | (data < -x._data.size)].reshape(-1)[0])
        raise IndexError(
            f"{e}: out of range: tried to access index {bad} on a tensor of {x._data.size} elements."
        ) from None


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `source` written to the elements, counted in C order, that `index` names.

    - `input` (Tensor): any shape
    - `index` (Tensor): positions of elements, int64
    - `source` (Tensor): as many elements, in the dtype of `input`
    - `accumulate` (bool, default False): adds, in order, instead of writing

    The result has the shape of `input`. IndexError for numbers of elements that differ and a position out of range,
    RuntimeError for dtypes that differ.

    Example::

        >>> import ferro
        >>> ferro.put(ferro.zeros(2, 2), ferro.tensor([0, 3]), ferro.tensor([5.0, 6.0]))
        tensor([[5., 0.],
                [0., 6.]])
    """
    return apply(PUT, (input, *_put_arguments("put", input, index, source)), (bool(accumulate),))


def _put_arguments(name: str, x: Any, index: Any, source: Any) -> tuple:
    if need_tensor(name, "index", index)._data.dtype != INT64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {dtypes.type_name(index.dtype)}")
    if need_tensor(name, "source", source)._data.dtype is not x._data.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got self.dtype = {dtypes.type_name(x.dtype)} and source.dtype = "
            f"{dtypes.type_name(source.dtype)}"
        )
    if source._data.size != index._data.size:
        raise IndexError(
            f"{name}(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._data.size}, index.numel() = {index._data.size}"
        )
    _reached(f"{name}()", index, x)
    return index, source


PUT = Op(
    "put",
    lambda xp, x, index, source, /, accumulate: xp.put(x, index, source, accumulate),
    kind=LINEAR,
    x=lambda xp, g, index, accumulate: g if accumulate else xp.put(g, index, xp.new_zeros(g, index.shape), False),
    source=lambda xp, g, index, source_shape: xp.reshape(xp.take(g, index), source_shape),
    complex=True,
    samples=[Sample(Arg(2, 3), ints([4, 0, -1]), Arg(3)), Sample(Arg(3), ints([[1], [1]]), Arg(2), True)],
    layout=FIRST,
)


def _place_arguments(name: str, x: Any, index: Any, source: Any, accumulate: bool = False) -> tuple:
    return _put_arguments(name, x, index, source), (bool(accumulate),)


class FlatPositionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    put, take = put, take
    put_ = _written(put, PUT, _place_arguments, lambda xp, *args: xp.put_(*args))
