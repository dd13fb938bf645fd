"""Slices of one dimension, and tensors in which one is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import TensorBase
from ferro.core.layout import FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["narrow", "select", "select_scatter", "slice_scatter"]


ALL = slice(None)


def slice_op(name: str, **options: Any) -> Op:
    """The declaration of a view x[key], where the key is a tuple of integers, slices and None with one Ellipsis."""
    return Op(
        name,
        lambda xp, x, /, key: xp.slice_get(x, key),
        kind=LINEAR,
        view=True,
        x=lambda xp, g, x_shape, key: xp.slice_place(g, x_shape, key),
        **options,
    )


SLICE = slice_op("slice")
SELECT = slice_op(
    "select", samples=[Sample(Arg(2, 3), 0, 1), Sample(Arg(2, 3), -1, -1), Sample(Arg(4), 0, 2)], complex=True
)
NARROW = slice_op(
    "narrow", samples=[Sample(Arg(2, 5), 1, 1, 3), Sample(Arg(4, 2), 0, -2, 1), Sample(Arg(3), 0, 3, 0)], complex=True
)

SLICE_PLACE = Op(
    "slice_place",
    lambda xp, x, /, shape, key: xp.slice_place(x, shape, key),
    kind=LINEAR,
    x=lambda xp, g, key: xp.slice_get(g, key),
)

SLICE_PUT = Op(
    "slice_put",
    lambda xp, x, src, /, key: xp.slice_put(x, src, key),
    kind=LINEAR,
    x=lambda xp, g, src_shape, key: xp.slice_put(g, xp.new_zeros(g, src_shape), key),
    src=lambda xp, g, key: xp.slice_get(g, key),
    layout=FIRST,
)


def slice_get(x: Tensor, key: tuple) -> Tensor:
    """The view x[key] for a key in normal form."""
    return viewed(SLICE, x, (key,))


def slice_place(g: Tensor, shape: tuple, key: tuple) -> Tensor:
    """Zeros of `shape` with g at [key]."""
    return unary(SLICE_PLACE, g, (shape, key))


def slice_put(x: Tensor, src: Tensor, key: tuple) -> Tensor:
    """x with src at x[key]."""
    return apply(SLICE_PUT, (x, src), (key,))


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension: a view.

    - `input` (Tensor): of one or more dimensions
    - `dim`, `index` (int): negative ones count from the end

    IndexError for either out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]]).select(1, 0)
        tensor([1, 3])
    """
    return viewed(SELECT, input, (_select_key("select", input, dim, index),))


def _select_key(name: str, x: Any, dim: int, index: int) -> tuple:
    shape = x._data.shape
    if not shape:
        raise IndexError(f"{name}() cannot be applied to a 0-dim tensor.")
    d, i = one_dim(name, len(shape), dim), int(index)
    if not -shape[d] <= i < shape[d]:
        raise IndexError(f"{name}(): index {i} out of range for tensor of size {list(shape)} at dimension {d}")
    return (ALL,) * d + (i % shape[d], ...)


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements along `dim` from `start` on: a view.

    - `input` (Tensor): of one or more dimensions
    - `dim` (int): the dimension
    - `start` (int or 0-d Tensor): negative ones count from the end
    - `length` (int): how many

    RuntimeError for a length out of range, IndexError for a `dim` or start out of range.

    Example::

        >>> import ferro
        >>> ferro.narrow(ferro.tensor([1, 2, 3, 4]), 0, 1, 2)
        tensor([2, 3])
    """
    shape = input._data.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = one_dim("narrow", len(shape), dim)
    if isinstance(start, TensorBase) and (start._data.ndim or start._data.dtype.kind not in "iu"):
        raise RuntimeError("narrow: start must be an 0-dim integral Tensor.")
    begin: Any = start
    i, length = int(begin), int(length)
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative. Got {length}")
    if not -shape[d] <= i <= shape[d]:
        raise IndexError(
            f"narrow(): start out of range (expected to be in range of [{-shape[d]}, {shape[d]}], but got {i}) for "
            f"dimension {d} of the shape {list(shape)}"
        )
    i = i + shape[d] if i < 0 else i
    if i + length > shape[d]:
        raise RuntimeError(f"narrow(): start ({i}) + length ({length}) exceeds dimension size ({shape[d]}).")
    return viewed(NARROW, input, ((ALL,) * d + (slice(i, i + length), ...),))


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor with `src` as its slice at `index` along `dim`.

    - `input` (Tensor): of one or more dimensions
    - `src` (Tensor): in the shape of the slice
    - `dim`, `index` (int): which slice

    RuntimeError for another shape, IndexError for a `dim` or index out of range.

    Example::

        >>> import ferro
        >>> ferro.select_scatter(ferro.zeros(2, 2), ferro.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    key = _select_key("select_scatter", input, dim, index)
    return _put("select_scatter", input, src, key)


declare("select_scatter", [Sample(Arg(3, 4), Arg(4), 0, 1), Sample(Arg(3, 4), Arg(3), -1, -2)])


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of the tensor with `src` as its slice start:end:step along `dim`.

    - `input` (Tensor): of one or more dimensions
    - `src` (Tensor): in the shape of the slice
    - `dim` (int, default 0): the dimension
    - `start`, `end` (int, default None): as between brackets
    - `step` (int, default 1): positive

    RuntimeError for another shape and a step that is not positive, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.slice_scatter(ferro.zeros(4), ferro.ones(2), start=0, end=4, step=2)
        tensor([1., 0., 1., 0.])
    """
    if step <= 0:
        raise RuntimeError(f"slice_scatter: slice step must be positive, got {step}")
    d = one_dim("slice_scatter", input._data.ndim, dim)
    return _put("slice_scatter", input, src, (ALL,) * d + (slice(start, end, step), ...))


declare(
    "slice_scatter",
    [Sample(Arg(4, 3), Arg(2, 3), 0, 1, 3), Sample(Arg(3, 5), Arg(3, 2), 1, 0, 4, 2), Sample(Arg(3), Arg(3))],
)


def _put(name: str, x: Any, src: Any, key: tuple) -> Tensor:
    place = x._data[key].shape
    if need_tensor(name, "src", src)._data.shape != place:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src._data.shape)}, "
            f"slice size = {list(place)}"
        )
    return slice_put(x, src, key)


class SliceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    narrow = narrow
    select, select_scatter, slice_scatter = select, select_scatter, slice_scatter
