"""The positions of what is not zero, and flat positions as indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend
from ferro.core.arguments import need_tensor, sizes
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.looped import by_slices
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.index_arguments import bools, in_bounds

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["argwhere", "nonzero", "nonzero_static", "unravel_index"]


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor: ...


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not 0: a row for each, or (as_tuple) a tensor for each dimension.

    Example::

        >>> import ferro
        >>> ferro.nonzero(ferro.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    x = need_tensor("nonzero", "input", input)._data
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return tuple([wrap(i.astype(np.int64, copy=False)) for i in (x.reshape(1) if not x.ndim else x).nonzero()])
    return into("nonzero", out, wrap(backend.xp_of(x).nonzero(x)))


@by_slices
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of nonzero(), filled up with rows of `fill_value`.

    - `input` (Tensor): any shape
    - `size` (int): how many rows
    - `fill_value` (int, default -1): what stands in rows to spare
    - `out` (Tensor, default None): where to write the result

    The result is (size, dimensions of `input`), int64. RuntimeError for a negative size.

    Example::

        >>> import ferro
        >>> ferro.nonzero_static(ferro.tensor([0, 5, 0, 6]), size=3)
        tensor([[ 1],
                [ 3],
                [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = backend.on_host(backend.xp_of(input._data).nonzero(input._data)[:size])
    result = np.full((size, input._data.ndim), fill_value, np.int64)
    result[: len(found)] = found
    return into("nonzero_static", out, wrap(backend.beside(input._data, result)))


def argwhere(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0, a row for each."""
    return wrap(backend.xp_of(input._data).nonzero(input._data))


for _function in (nonzero, argwhere):
    declare(
        _function.__name__,
        [
            Sample(Arg(values=[[1.0, 0.0], [0.0, 2.0]])),
            Sample(Arg(values=3.0)),
            Sample(Arg(0, 2)),
            Sample(bools([True, False])),
        ],
        differentiable=False,
        complex=True,
    )


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The positions in a tensor of elements counted in C order: a tuple with one tensor per dimension.

    - `indices` (Tensor): integers
    - `shape` (ints): of the tensor

    ValueError for a position out of range.

    Example::

        >>> import ferro
        >>> ferro.unravel_index(ferro.tensor([1, 5]), (2, 3))
        (tensor([0, 1]), tensor([1, 2]))
    """
    data = need_tensor("unravel_index", "indices", indices)._data
    if data.dtype.kind not in "iu":
        raise TypeError(f"unravel_index(): expected 'indices' to be integer dtype, but got {indices.dtype}")
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not isinstance(shape, (tuple, list)) and (isinstance(shape, TensorBase) or not hasattr(shape, "__index__")):
        raise TypeError(f"unravel_index(): expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    for s in given:
        if not hasattr(s, "__index__"):
            raise TypeError(f"unravel_index(): expected 'shape' sequence to only contain ints, but got {type(s)}")
    dims = sizes("unravel_index", given)
    if any(s < 0 for s in dims):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {dims}")
    in_bounds("unravel_index()", data, int(np.prod(dims)), 0, negative=True, error=ValueError)
    found = []
    rest = data
    for s in reversed(dims):
        found.append(wrap(as_array(rest % max(s, 1), data.dtype)))
        rest = rest // max(s, 1)
    return tuple(found[::-1])


class NonzeroMethods:
    """Methods of Tensor."""

    __slots__ = ()
    argwhere = argwhere
    nonzero, nonzero_static = nonzero, nonzero_static
