"""Reduction of slices into the places of one dimension: index_reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferro.core.apply import apply, unary
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.expanding import EXPAND
from ferro.ops.index_arguments import ints
from ferro.ops.indexing import source_arguments
from ferro.ops.scattering import _scatter_reduce
from ferro.ops.shape import RESHAPE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["index_reduce"]


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy in which each slice along `dim` holds the product, mean, maximum or minimum of the slices of `source` sent
    to it.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): where the slices are sent, (n), int64
    - `source` (Tensor): the slices, n along `dim`, in the dtype of `input`
    - `reduce` (str): "prod", "mean", "amax" or "amin"
    - `include_self` (bool, default True): whether the slice of `input` that was there counts
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`; slices to which nothing is sent stay. RuntimeError for another reduction,
    shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.index_reduce(ferro.ones(2), 0, ferro.tensor([1, 1]), ferro.tensor([3.0, 5.0]), "prod")
        tensor([ 1., 15.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    (index, source), d = source_arguments("index_reduce", input, dim, index, source)
    shape = source._data.shape
    wide = apply(EXPAND, (unary(RESHAPE, index, ((-1,) + (1,) * (len(shape) - d - 1),)),), (shape,))
    result = _scatter_reduce("index_reduce", input, wide, source, d, reduce, include_self)
    return result if out is None else into("index_reduce", out, result)


declare(
    "index_reduce",
    [Sample(Arg(3, 2), 0, ints([2, 0, 2]), Arg(3, 2), r) for r in ("prod", "mean", "amax", "amin")],
)


class IndexReduceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    index_reduce = index_reduce
    index_reduce_ = in_place(index_reduce, itself=True)
