"""Reading elements at positions that an index names: gather and take_along_dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import backend
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import wrap
from ferro.core.layout import DENSE
from ferro.core.op import LINEAR, Op
from ferro.core.requirements import perhaps
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.expanding import EXPAND, broadcast_shapes
from ferro.ops.index_arguments import INT32, INT64, in_bounds, ints, written
from ferro.ops.likes import new_zeros
from ferro.ops.shape import flatten

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gather", "take_along_dim"]


TWO = ints([[0, 2, 1], [2, 2, 0]])


def index_dim(name: str, x: Any, dim: int, index: Any, src_shape: tuple | None = None, later: bool = False) -> int:
    """The dimension, after checking an index against the shapes it must fit, src's too if given; empty indices fit everything.

    later: whether it is out of bounds may be found out by the operation itself, see `_applied`.
    """
    d = one_dim(name, x._data.ndim, dim)
    data = need_tensor(name, "index", index)._data
    if not data.size:
        return d
    shape = x._data.shape
    if not (data.dtype is INT64 and data.shape == shape and src_shape in (None, shape) and shape):
        _check_index(name, x, d, index, src_shape)
    if not (later and backend.is_numpy(data) and backend.xp_of(x._data).finds_wrong_places(x._data, d, data)):
        in_bounds(f"{name}()", data, shape[d] if shape else 1, d, error=RuntimeError)
    return d


def _check_index(name: str, x: Any, d: int, index: Any, src_shape: tuple | None) -> None:
    """RuntimeError for an index that does not fit."""
    data = index._data
    if data.dtype not in (INT32, INT64):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    shape, have = x._data.shape or (1,), data.shape or (1,)
    if len(have) != len(shape):
        words = "input tensor" if name == "gather" else "self tensor"
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as {words}, got {list(data.shape)} for "
            f"{list(x._data.shape)}"
        )
    for k, (a, b) in enumerate(zip(have, shape, strict=True)):
        if k != d and a > b:
            sizes = f"{list(data.shape)} to be no larger than self {list(x._data.shape)} apart from dimension {d}"
            if src_shape is not None:
                raise RuntimeError(
                    f"{name}(): Expected index {sizes} and to be no larger size than src {list(src_shape)}"
                )
            raise RuntimeError(f"{name}(): Size does not match at dimension {k} expected index {sizes}")
    if src_shape is not None:
        src_shape = src_shape or (1,)
        if len(src_shape) != len(have):
            raise RuntimeError(
                f"{name}(): Index tensor must have the same number of dimensions as src tensor, got {list(have)} and {list(src_shape)}"
            )
        if any(a > b for a, b in zip(have, src_shape, strict=True)):
            raise RuntimeError(
                f"{name}(): Expected index {list(have)} to be no larger than self {list(x._data.shape)} apart from dimension {d} "
                f"and to be no larger size than src {list(src_shape)}"
            )


def apply_at(name: str, op: Op, x: Any, others: tuple, d: int) -> Tensor:
    """The operation on x, an index and what comes behind it."""
    try:
        return apply(op, (x, *others), (d,))
    except IndexError:
        in_bounds(f"{name}()", others[0]._data, x._data.shape[d], d, error=RuntimeError)
        raise


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Reads elements along `dim` at the positions in `index`: out[i][j] = input[index[i][j]][j] for dim 0, and so on.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): int64, with as many dimensions as the input; no larger than it in the other dimensions
    - `sparse_grad` (bool, default False): makes the gradient of `input` a sparse tensor
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `index`. RuntimeError if an index is out of range or the shapes do not fit, IndexError
    for a `dim` out of range.

    Example::

        >>> import ferro
        >>> scores = ferro.tensor([[0.1, 0.9], [0.8, 0.2]])
        >>> ferro.gather(scores, 1, ferro.tensor([[1], [0]]))
        tensor([[0.9000],
                [0.8000]])
    """
    d = index_dim("gather", input, dim, index, later=True)
    if index._data.ndim != input._data.ndim and not index._data.size:  # reads nothing, whatever its shape
        return written("gather", out, new_zeros(input, index._data.shape), input, index)
    return written("gather", out, apply_at("gather", GATHER, input, (index,), d), input, index)


GATHER = Op(
    "gather",
    lambda xp, x, index, /, dim: xp.gather(x, dim, index),
    kind=LINEAR,
    x=lambda xp, g, x_shape, index, dim: xp.gather_spread(g, x_shape, dim, index),
    complex=True,
    samples=[
        Sample(Arg(3, 4), 0, TWO),
        Sample(Arg(2, 4), 1, TWO),
        Sample(Arg(4), -1, ints([3, 3, 0, 1, 2])),
        Sample(Arg(), 0, ints([0, 0])),
        Sample(Arg(), 0, ints(0)),
        Sample(Arg(2, 3), 0, Arg(0, 3, dtype="int64")),
    ],
    layout=DENSE,
)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """`gather` with the other dimensions broadcast.

    - `input` (Tensor): any shape
    - `indices` (Tensor): positions, int64, with as many dimensions
    - `dim` (int, default None): the dimension; None: elements counted in C order
    - `out` (Tensor, default None): where to write the result

    IndexError for positions out of range, RuntimeError for numbers of dimensions that differ.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[3, 1, 2], [6, 5, 4]])
        >>> ferro.take_along_dim(x, x.argsort(dim=1), dim=1)
        tensor([[1, 2, 3],
                [4, 5, 6]])
    """
    data = need_tensor("take_along_dim", "indices", indices)._data
    if data.dtype != INT64:
        raise RuntimeError(f"take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    if dim is None:
        return gather(flatten(input), 0, flatten(indices), out=out)
    n = input._data.ndim
    if data.ndim != n:
        raise RuntimeError(
            f"take_along_dim(): input and indices should have the same number of dimensions, but got {n} dimensions for "
            f"input, and {data.ndim} dimensions for indices"
        )
    d = one_dim("take_along_dim", n, dim)
    a, b = input._data.shape, data.shape
    if n and b == a and backend.is_numpy(data) and backend.is_numpy(input._data):
        try:
            return gather(input, d, indices, out=out)
        except RuntimeError:  # (a number below 0, perhaps)
            pass
    in_bounds("take_along_dim()", data, a[d] if n else 1, d, negative=True)
    if perhaps(data < 0):
        indices = wrap(backend.xp_of(data).where(data < 0, data + a[d], data))
    common = broadcast_shapes((*a[:d], 1, *a[d + 1 :]), (*b[:d], 1, *b[d + 1 :]))
    x = unary(EXPAND, input, ((*common[:d], a[d], *common[d + 1 :]),))
    return gather(x, d, unary(EXPAND, indices, ((*common[:d], b[d], *common[d + 1 :]),)), out=out)


declare(
    "take_along_dim",
    [
        Sample(Arg(2, 4), TWO, 1),
        Sample(Arg(1, 3), TWO, 1),
        Sample(Arg(2, 4), ints([[1, 3, 0]]), 1),
        Sample(Arg(2, 2), ints([[3], [0]])),
    ],
    complex=True,
)


class GatherMethods:
    """Methods of Tensor."""

    __slots__ = ()
    gather, take_along_dim = gather, take_along_dim
