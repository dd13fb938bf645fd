"""Diagonals, and tensors in which one is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.layout import FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["diagonal", "diagonal_scatter"]


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of the matrices in two dimensions as the last dimension of a view.

    - `input` (Tensor): of two or more dimensions
    - `offset` (int, default 0): places to the right of the main diagonal; negative ones lie below it
    - `dim1`, `dim2` (int, default 0 and 1): the dimensions

    RuntimeError for equal dimensions, IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.diagonal(ferro.tensor([[1, 2], [3, 4]])), ferro.diagonal(ferro.tensor([[1, 2], [3, 4]]), offset=1)
        (tensor([1, 4]), tensor([2]))
    """
    d1, d2 = _two_dims("diagonal", input, dim1, dim2)
    return viewed(DIAGONAL, input, (int(offset), d1, d2))


def matrix_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the matrices in the last two dimensions, or others, as the last dimension of a view.

    - `A` (Tensor): (..., n, m)
    - `offset` (int, default 0): places to the right of the main diagonal; negative ones lie below it
    - `dim1`, `dim2` (int, default -2 and -1): the dimensions

    RuntimeError for equal dimensions, IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.linalg.diagonal(ferro.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return diagonal(A, offset, dim1, dim2)


declare(
    "linalg.diagonal",
    [Sample(Arg(3, 3)), Sample(Arg(2, 3, 4), offset=1), Sample(Arg(2, 3, 4), dim1=0, dim2=1)],
    complex=True,
)


def _two_dims(name: str, x: Any, dim1: int, dim2: int) -> tuple[int, int]:
    n = x._data.ndim
    if not n:
        raise IndexError(f"{name}: Dimension specified as {dim1} but tensor has no dimensions")
    d1, d2 = one_dim(name, n, dim1, "dim1"), one_dim(name, n, dim2, "dim2")
    if d1 == d2:
        raise RuntimeError(f"{name}: diagonal dimensions cannot be identical {dim1}, {dim2}")
    return d1, d2


DIAGONAL = Op(
    "diagonal",
    lambda xp, x, /, offset, dim1, dim2: xp.diagonal(x, offset, dim1, dim2),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape, offset, dim1, dim2: xp.diagonal_put(xp.new_zeros(g, x_shape), g, offset, dim1, dim2),
    samples=[
        Sample(Arg(3, 3)),
        Sample(Arg(3, 4), 1),
        Sample(Arg(3, 4), -2),
        Sample(Arg(2, 3, 4), 0, -1, 0),
        Sample(Arg(2, 3), 5),
    ],
    complex=True,
)

DIAGONAL_PUT = Op(
    "diagonal_put",
    lambda xp, x, src, /, offset, dim1, dim2: xp.diagonal_put(x, src, offset, dim1, dim2),
    kind=LINEAR,
    x=lambda xp, g, src_shape, offset, dim1, dim2: xp.diagonal_put(g, xp.new_zeros(g, src_shape), offset, dim1, dim2),
    src=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2),
    layout=FIRST,
)


def diagonal_put(x: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """x with src on a diagonal; arguments in normal form."""
    return apply(DIAGONAL_PUT, (x, src), (offset, dim1, dim2))


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor with `src` as its diagonal.

    - `input` (Tensor): of two or more dimensions
    - `src` (Tensor): in the shape that :func:`diagonal` gives
    - `offset` (int, default 0): places to the right of the main diagonal
    - `dim1`, `dim2` (int, default 0 and 1): the dimensions of the matrices

    RuntimeError for another shape, IndexError for a dimension out of range.

    Example::

        >>> import ferro
        >>> ferro.diagonal_scatter(ferro.zeros(2, 2), ferro.tensor([5.0, 6.0]))
        tensor([[5., 0.],
                [0., 6.]])
    """
    d1, d2 = _two_dims("diagonal_scatter", input, dim1, dim2)
    place = diagonal(input.detach(), offset, d1, d2)._data.shape
    if need_tensor("diagonal_scatter", "src", src)._data.shape != place:
        raise RuntimeError(
            f"diagonal_scatter: expected src to have a size equal to the slice of self. src size = {list(src._data.shape)}, "
            f"slice size = {list(place)}"
        )
    return diagonal_put(input, src, int(offset), d1, d2)


declare(
    "diagonal_scatter",
    [Sample(Arg(3, 3), Arg(3)), Sample(Arg(3, 4), Arg(3), -1, 1, 0), Sample(Arg(2, 3, 3), Arg(2, 2), 1, 1, 2)],
    complex=True,
)


class DiagonalMethods:
    """Methods of Tensor."""

    __slots__ = ()
    diagonal, diagonal_scatter = diagonal, diagonal_scatter
