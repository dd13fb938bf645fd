"""Order: sorting, and the k largest.

nan counts as larger than every number.  Gradients go to the elements that were picked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import return_types
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import without_gradient
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, permuted
from ferro.ops.extrema import INDEXED, pair_into
from ferro.ops.reductions import need_real, spread

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["argsort", "msort", "sort", "topk"]


NAN = float("nan")
TIED = Arg(values=[[2.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 3.0]])


def distinct(*shape: int) -> Arg:
    """A sample argument without ties."""
    return Arg(*shape, make=permuted())


def _all(xp: Any, g: Any, x: Any, out: Any) -> Any:
    """The gradient of a value picked among all elements: shared evenly by those equal to it."""
    dims = tuple(range(len(x.shape)))
    return spread(xp, g, x.shape, dims, False) * xp.tie_weights(x, out, dims, False)


# -- sorting -----------------------------------------------------------------------------------------------------------


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> return_types.sort:
    """The elements in ascending order along `dim`: (values, indices).

    - `input` (Tensor): any shape, real; nan is last
    - `dim` (int, default -1): the dimension
    - `descending` (bool, default False): the largest first
    - `stable` (bool, default False): no effect: equal elements always keep their order
    - `out` (tuple of two Tensors, default None): where to write values and indices

    Values and indices (int64) have the shape of `input`; the gradient of each value goes to its element. IndexError for
    a `dim` out of range.

    Example::

        >>> import ferro
        >>> values, indices = ferro.tensor([3, 1, 2]).sort(descending=True)
        >>> values, indices
        (tensor([3, 2, 1]), tensor([0, 2, 1]))
    """
    need_tensor("sort", "input", input)
    need_real("sort", input)
    pair = apply(SORT, (input,), (one_dim("sort", input._data.ndim, dim), descending))
    return return_types.sort(pair if out is None else pair_into("sort", out, pair))


def _ordered_x(xp: Any, g: Any, x_shape: tuple, indices: Any, dim: int) -> Any:
    return xp.value_scatter(g, x_shape, dim, indices, True)


_SORTED = [
    Sample(Arg()),
    Sample(distinct(5)),
    Sample(distinct(3, 4), 0),
    Sample(distinct(3, 4), 1, True),
    Sample(distinct(2, 3, 2), -2),
    Sample(Arg(0, 2), 0),
    Sample(TIED, smooth=False),
    Sample(TIED, 1, True, smooth=False),
    Sample(Arg(4, 3, dtype="int64"), 0),
]

SORT = Op(
    "sort",
    lambda xp, x, /, dim, descending: xp.sort(x, dim, descending),
    **INDEXED,
    x=_ordered_x,
    samples=[*_SORTED, Sample(distinct(4), stable=True), Sample(distinct(70))],
)


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The indices that sort along `dim`; equal elements keep their order.

    - `input` (Tensor): any shape, real; nan is last
    - `dim` (int, default -1): the dimension
    - `descending` (bool, default False): the largest first
    - `stable` (bool, default False): no effect: equal elements always keep their order
    - `out` (Tensor, default None): where to write the result

    The result is int64, in the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.argsort(ferro.tensor([3.0, 1.0, 2.0]))
        tensor([1, 2, 0])
    """
    a = need_tensor("argsort", "input", input)._data
    need_real("argsort", input)
    order = xp_of(a).argsort(a, one_dim("argsort", a.ndim, dim), descending)
    return into("argsort", out, without_gradient("argsort", order, input))


declare(
    "argsort",
    [
        *_SORTED,
        Sample(Arg(values=[1.0, NAN, 0.0])),
        Sample(Arg(values=[1.0, NAN, 0.0]), 0, True),
        Sample(Arg(100, dtype="int64"), stable=True),
    ],
    differentiable=False,
)


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in ascending order along the first dimension."""
    result = sort(input, 0)[0]
    return result if out is None else into("msort", out, result)


declare("msort", [Sample(Arg()), Sample(distinct(5)), Sample(distinct(3, 4))])


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> return_types.topk:
    """The k largest (or smallest) elements along `dim`: (values, indices), in order.

    - `input` (Tensor): any shape, real; nan counts as the largest
    - `k` (int): how many
    - `dim` (int, default -1): the dimension
    - `largest` (bool, default True): False takes the smallest
    - `sorted` (bool, default True): no effect: the elements are always in order
    - `out` (tuple of two Tensors, default None): where to write values and indices

    Values and indices (int64) have the shape of `input` with k in the place of its size along `dim`. RuntimeError if k
    is larger than that size, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> values, indices = ferro.tensor([3, 1, 4, 1, 5]).topk(2)
        >>> values, indices
        (tensor([5, 4]), tensor([4, 2]))
    """
    a = need_tensor("topk", "input", input)._data
    need_real("topk", input)
    if a.dtype.kind == "b":
        raise RuntimeError("topk: bool tensors are not supported; convert the input, e.g. with .int()")
    d = one_dim("topk", a.ndim, dim)
    n = a.shape[d] if a.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(
            f"topk: selected index k out of range: k is {k}, but dimension {d} has {n} elements (shape {list(a.shape)})"
        )
    pair = apply(TOPK, (input,), (int(k), d, largest))
    return return_types.topk(pair if out is None else pair_into("topk", out, pair))


TOPK = Op(
    "topk",
    lambda xp, x, /, k, dim, largest: xp.topk(x, k, dim, largest),
    **INDEXED,
    x=_ordered_x,
    samples=[
        Sample(Arg(), 1),
        Sample(distinct(5), 2),
        Sample(distinct(3, 4), 3, 0),
        Sample(distinct(3, 4), 2, 1, False),
        Sample(distinct(4), 0),
        Sample(distinct(2, 3), 3, -1, True, True),
        Sample(distinct(1100), 3),
    ],
)


class OrderMethods:
    """Methods of Tensor."""

    __slots__ = ()
    argsort = argsort
    msort = msort
    sort = sort
    topk = topk
