"""Matrices by their diagonals and triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import one_dim
from ferro.core.casting import in_full_precision
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.ops.creation import finish
from ferro.ops.diagonals import DIAGONAL
from ferro.ops.reductions import SUM, summable
from ferro.ops.shape import reshape
from ferro.ops.strided_views import as_strided
from ferro.ops.strides import CONTIGUOUS, storage_offset, stride

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["diag", "diag_embed", "diagflat", "trace", "tril", "tril_indices", "triu", "triu_indices"]


def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy of the matrices (..., n, m) with zeros above a diagonal; `diagonal` counts from the main one, upwards.

    Example::

        >>> import ferro
        >>> ferro.ones(3, 3).tril()
        tensor([[1., 0., 0.],
                [1., 1., 0.],
                [1., 1., 1.]])
    """
    result = apply(TRIL, (_matrix("tril", input),), (int(diagonal),))
    return result if out is None else into("tril", out, result)


def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy of the matrices (..., n, m) with zeros below a diagonal; `diagonal` counts from the main one, upwards.

    Example::

        >>> import ferro
        >>> ferro.ones(3, 3).triu(1)
        tensor([[0., 1., 1.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    result = apply(TRIU, (_matrix("triu", input),), (int(diagonal),))
    return result if out is None else into("triu", out, result)


def _matrix(name: str, x: Any) -> Any:
    if x._data.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got shape {list(x._data.shape)}")
    return x


_TRIANGLES = [
    Sample(Arg(3, 3)),
    Sample(Arg(3, 4), 1),
    Sample(Arg(4, 3), -1),
    Sample(Arg(2, 2, 3), 0),
    Sample(Arg(0, 2)),
    Sample(Arg(2, 3), 5),
]

TRIL = Op(
    "tril",
    lambda xp, x, /, diagonal: xp.tril(x, diagonal),
    kind=LINEAR,
    x=lambda xp, g, diagonal: xp.tril(g, diagonal),
    samples=_TRIANGLES,
    complex=True,
)

TRIU = Op(
    "triu",
    lambda xp, x, /, diagonal: xp.triu(x, diagonal),
    kind=LINEAR,
    x=lambda xp, g, diagonal: xp.triu(g, diagonal),
    samples=_TRIANGLES,
    complex=True,
)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and the columns of the elements on and below a diagonal of a matrix.

    - `row`, `col` (int): the sizes of the matrix
    - `offset` (int, default 0): places of the diagonal to the right of the main one
    - `dtype` (dtype, default None): None: int64
    - `device` (device, default None): where it lies; None: the default one
    - `layout` (layout, default None): only ferro.strided

    The result is (2, elements), in the order of rows. RuntimeError for negative sizes.

    Example::

        >>> import ferro
        >>> ferro.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    return _indices("tril_indices", row, col, dtype, device, lambda rows: (0, rows + (offset + 1)))


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and the columns of the elements on and above a diagonal of a matrix.

    - `row`, `col` (int): the sizes of the matrix
    - `offset` (int, default 0): places of the diagonal to the right of the main one
    - `dtype` (dtype, default None): None: int64
    - `device` (device, default None): where it lies; None: the default one
    - `layout` (layout, default None): only ferro.strided

    The result is (2, elements), in the order of rows. RuntimeError for negative sizes.

    Example::

        >>> import ferro
        >>> ferro.triu_indices(2, 2)
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    return _indices("triu_indices", row, col, dtype, device, lambda rows: (rows + offset, col))


_SLICES = 512  # columns from which on a row is written by two slices


def _indices(name: str, row: int, col: int, dtype: Any, device: Any, span: Any) -> Tensor:
    """The places of the columns from where to where `span` says of the number of a row, or of all."""
    for argument, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name}: {argument} must be non-negative, got{n}")
    wanted = np.int64 if dtype is None else dtypes.to_numpy(dtype)
    if np.dtype(wanted).kind not in "iu":
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{dtypes.type_name(dtypes.from_numpy(np.dtype(wanted)))}': choose an integer dtype"
        )
    return finish(name, _filled(row, col, span, wanted), False, device)


def _filled(row: int, col: int, span: Any, dtype: Any) -> Any:
    rows = np.arange(row)
    begin, end = [np.broadcast_to(np.clip(x, 0, col), row) for x in span(rows)]
    count = np.maximum(end - begin, 0)
    behind = count.cumsum()
    n = int(behind[-1]) if row else 0
    found = np.empty((2, n), dtype)
    if col < _SLICES:
        found[0] = rows.repeat(count)
        np.subtract(np.arange(n), (behind - count - begin).repeat(count), out=found[1], casting="unsafe")
    else:
        names, columns, p = rows.astype(dtype), np.arange(col).astype(dtype), 0
        for i, (first, wide) in enumerate(zip(begin.tolist(), count.tolist(), strict=True)):
            found[0, p : p + wide] = names[i]
            found[1, p : p + wide] = columns[first : first + wide]
            p += wide
    return found


def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with the elements of a vector on a diagonal, or a copy of a diagonal of a matrix.

    Example::

        >>> import ferro
        >>> ferro.diag(ferro.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    n = input._data.ndim
    if n not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {n}D")
    result = (
        diag_embed(input, diagonal) if n == 1 else unary(CONTIGUOUS, viewed(DIAGONAL, input, (int(diagonal), 0, 1)))
    )
    return result if out is None else into("diag", out, result)


declare(
    "diag", [Sample(Arg(3)), Sample(Arg(2), -1), Sample(Arg(3, 3)), Sample(Arg(2, 3), 1), Sample(Arg(0))], complex=True
)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of the input on a diagonal, zero elsewhere.

    - `input` (Tensor): (..., n)
    - `offset` (int, default 0): places to the right of the main diagonal; negative ones lie below it
    - `dim1`, `dim2` (int, default -2 and -1): the dimensions of the matrices in the result

    The result has one dimension more, and matrices of n + |offset| rows. RuntimeError for equal dimensions, IndexError
    for one out of range.

    Example::

        >>> import ferro
        >>> ferro.diag_embed(ferro.tensor([1, 2]), offset=1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    n = input._data.ndim
    if not n:
        raise IndexError("diag_embed: expected a tensor of at least one dimension, got a 0-d tensor")
    d1, d2 = one_dim("diag_embed", n + 1, dim1, "dim1"), one_dim("diag_embed", n + 1, dim2, "dim2")
    if d1 == d2:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    return unary(DIAG_EMBED, input, (int(offset), d1, d2))


DIAG_EMBED = Op(
    "diag_embed",
    lambda xp, x, /, offset, dim1, dim2: xp.diag_embed(x, offset, dim1, dim2),
    kind=LINEAR,
    x=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2),
    complex=True,
    samples=[Sample(Arg(3)), Sample(Arg(2, 3), 1), Sample(Arg(2, 3), -1, 0, 2), Sample(Arg(2), 0, -1, -2)],
)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of the input on a diagonal.

    - `input` (Tensor): any shape
    - `offset` (int, default 0): places of the diagonal to the right of the main one

    Example::

        >>> import ferro
        >>> ferro.diagflat(ferro.tensor([1, 2]), 1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    return diag_embed(reshape(input, (input._data.size,)), offset)


declare("diagflat", [Sample(Arg(2, 2)), Sample(Arg(3), 1), Sample(Arg(), -1)], complex=True)


@in_full_precision
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input._data.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input._data.ndim}")
    numbers = viewed(DIAGONAL, input, (0, 0, 1))
    return unary(SUM, numbers if numbers._data.dtype.kind in "fcV" else summable(numbers, None), ((0,), False))


declare("trace", [Sample(Arg(3, 3)), Sample(Arg(2, 4)), Sample(Arg(0, 2))], complex=True)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Gives the elements whose indices are all equal one value; wrap: of a tall matrix, again after each `width` rows."""
    shape, n = self._data.shape, self._data.ndim
    if n < 2:
        raise RuntimeError(f"fill_diagonal_: dimensions must larger than 1, got shape {list(shape)}")
    if n > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"fill_diagonal_: all dimensions of input must be of equal length, got shape {list(shape)}")
    strides = stride(self)
    step, size = sum(strides), min(shape)
    as_strided(self, (size,), (step,)).fill_(fill_value)
    if wrap and n == 2 and shape[0] > shape[1] + 1:
        count = -(-self._data.size // (shape[1] + 1)) - size
        as_strided(self, (count,), (step,), storage_offset(self) + strides[0] * (shape[1] + 1)).fill_(fill_value)
    return self


class MatrixMethods:
    """Methods of Tensor."""

    __slots__ = ()
    diag, diag_embed, diagflat, trace, tril, triu = diag, diag_embed, diagflat, trace, tril, triu
    fill_diagonal_ = fill_diagonal_
    tril_, triu_ = in_place(tril), in_place(triu)
