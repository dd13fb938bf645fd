"""Embedding: rows of a table looked up by index, sums of such rows, and one-hot vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import bump, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.inplace import announce
from ferro.core.looped import by_slices
from ferro.core.op import MULTILINEAR, Op
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["embedding", "embedding_bag", "embedding_renorm_", "one_hot"]


_INT64 = np.dtype(np.int64)


def _indices(name: str, input: Tensor) -> Any:
    indices = need_tensor(name, "input", input)._data
    if indices.dtype is not _INT64 and indices.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            f"{name}: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {input.type()} instead (while checking arguments for {name}); use .long()"
        )
    return indices


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of a table: weight[input]. The derivative adds each row's cotangent to its row of the table.

    - `input` (Tensor): indices of rows, int64 or int32, any shape (...)
    - `weight` (Tensor): the table, (rows, D)
    - `padding_idx` (int, default None): the row with this index gets no gradient
    - `max_norm` (float, default None): looked-up rows that are longer are first shortened to it, in place
    - `norm_type` (float, default 2.0): the p of that norm
    - `scale_grad_by_freq` (bool, default False): divides gradients by the number of times an index occurs
    - `sparse` (bool, default False): makes the gradient of `weight` a sparse tensor with the rows of these indices (for
      SparseAdam, SGD and Adagrad)

    The result is (..., D). RuntimeError for indices of another dtype and a table that is not 2-D, IndexError for an
    index out of range, AssertionError for such a `padding_idx`.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> table = ferro.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
        >>> F.embedding(ferro.tensor([2, 0]), table)
        tensor([[ 2., 20.],
                [ 0.,  0.]])
    """
    if input._data.dtype.kind not in "biu" and weight._data.dtype not in INEXACT:  # torch.embedding(weight, indices)
        input, weight = weight, input
    indices = _indices("embedding", input)
    shape = weight._data.shape
    if len(shape) != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(shape)}")
    padding = None if padding_idx is None else _padding("embedding", padding_idx, shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    op = SPARSE_EMBEDDING if sparse else EMBEDDING
    return apply(op, (weight, wrap(indices)), (padding, bool(scale_grad_by_freq)))


def _padding(name: str, padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"{name}: Padding_idx must be within num_embeddings, got padding_idx={padding_idx} for a table of {rows} rows"
        )
    return padding_idx % rows


_ids: Any = {"dtype": "int64", "low": 0, "high": 5}
EMBEDDING = Op(
    "embedding",
    lambda xp, table, indices, /, padding, by_frequency: xp.take_rows(table, indices),
    kind=MULTILINEAR,
    table=lambda xp, g, indices, table_shape, padding, by_frequency: xp.add_rows(
        g, indices, table_shape[0], padding, by_frequency
    ),
)
# The gradient stays the rows that it consists of.  A recorded backward gets it dense.
SPARSE_EMBEDDING = Op(
    "sparse_embedding",
    lambda xp, table, indices, /, padding, by_frequency: xp.take_rows(table, indices),
    kind=MULTILINEAR,
    table=lambda xp, g, indices, table_shape, padding, by_frequency: xp.table_rows(
        g, indices, table_shape[0], padding, by_frequency
    ),
)
SPARSE_EMBEDDING.backward_name = EMBEDDING.backward_name
declare(
    "nn.functional.embedding",
    [
        Sample(Arg(2, 3, **_ids), Arg(5, 4)),
        Sample(Arg(**_ids), Arg(5, 2)),
        Sample(Arg(0, **_ids), Arg(5, 2)),
        Sample(Arg(values=[1, 0, 1, 4], dtype="int64"), Arg(5, 3)),
    ],
)


def take_rows(table: Tensor, indices: Tensor) -> Tensor:
    """embedding with normalised arguments."""
    return apply(EMBEDDING, (table, indices), (None, False))


def add_rows(g: Tensor, indices: Tensor, count: int, padding: int | None, by_frequency: bool) -> Tensor:
    """The transpose of embedding: a table of `count` rows, row i the sum of the rows of g with index i."""
    return apply(ADD_ROWS, (g, indices), (count, padding, by_frequency))


def _add_rows_g(xp: Any, g: Any, indices: Any, padding: int | None, by_frequency: bool) -> Any:
    rows = xp.take_rows(g, indices)
    scale = xp.row_scale(indices, padding, by_frequency, rows)
    return rows if scale is None else rows * scale


def row_scale(indices: Tensor, padding: int | None, by_frequency: bool, like: Tensor) -> Tensor | None:
    """The factor of each index's row, without history; None if all are 1."""
    scale = xp_of(indices._data).row_scale(indices._data, padding, by_frequency, like._data)
    return None if scale is None else wrap(scale)


ADD_ROWS = Op(
    "embedding_backward",
    kind=MULTILINEAR,
    g=_add_rows_g,
    forward=lambda xp, g, indices, /, count, padding, by_frequency: xp.add_rows(
        g, indices, count, padding, by_frequency
    ),
)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Shortens, in place and without history, the rows of `weight` named in `indices` whose p-norm is above `max_norm`.

    - `weight` (Tensor): the table, (rows, D)
    - `indices` (Tensor): indices of rows
    - `max_norm` (float): the length that is allowed
    - `norm_type` (float, default 2.0): p

    Returns `weight`.

    Example::

        >>> import ferro
        >>> ferro.embedding_renorm_(ferro.tensor([[3.0, 4.0], [3.0, 4.0]]), ferro.tensor([0]), 1.0)
        tensor([[0.6000, 0.8000],
                [3.0000, 4.0000]])
    """
    table = weight._data
    xp = xp_of(table)
    found = xp.long_rows(table, indices._data, max_norm, norm_type)
    if found is not None:
        announce(table)
        xp.index_copy_(table, 0, *found)
        bump(weight, "embedding_renorm_")
    return weight


@by_slices
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of a table in each bag of indices.

    - `input` (Tensor): indices, (bags, n), or (n) with `offsets`
    - `weight` (Tensor): the table, (rows, D)
    - `offsets` (Tensor, default None): (bags): where each bag starts in an `input` of one dimension
    - `max_norm` (float, default None): looked-up rows that are longer are first shortened to it, in place
    - `norm_type` (float, default 2.0): the p of that norm
    - `scale_grad_by_freq` (bool, default False): divides gradients by the number of times an index occurs; not for
      "max"
    - `mode` (str, default "mean"): "sum", "mean" or "max"
    - `sparse` (bool, default False): makes the gradient of `weight` a sparse tensor, as in `embedding`; not for "max"
    - `per_sample_weights` (Tensor, default None): a factor for each index, in the shape of `input`, for "sum" only
    - `include_last_offset` (bool, default False): whether `offsets` has the end of the last bag, too
    - `padding_idx` (int, default None): indices equal to it are left out

    The result is (bags, D). An empty bag gives zeros; of equal maxima the first gets the gradient. ValueError for
    shapes, modes and options that do not fit together, NotImplementedError for weights with "mean" or "max",
    RuntimeError for an index or offset out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> table = ferro.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
        >>> F.embedding_bag(ferro.tensor([2, 1, 0]), table, ferro.tensor([0, 2]), mode="sum")
        tensor([[ 3., 30.],
                [ 0.,  0.]])
    """
    name = "embedding_bag"
    if need_tensor(name, "input", input)._data.dtype in INEXACT and weight._data.dtype not in INEXACT:
        input, weight = weight, input
    indices, bags, count = _bags(name, input, offsets, include_last_offset)
    _check_bag_options(name, input, weight, mode, scale_grad_by_freq or sparse, per_sample_weights)
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights.reshape(-1).narrow(0, 0, indices.size)
    _check_rows(name, indices, weight._data.shape[0], padding_idx)
    padding = _padding(name, padding_idx, weight._data.shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, wrap(indices), max_norm, norm_type)
    if padding is not None:
        kept = np.flatnonzero(indices != padding)
        indices, bags = indices[kept], bags[kept]
        if per_sample_weights is not None:
            per_sample_weights = take_rows(per_sample_weights.unsqueeze(1), wrap(kept)).squeeze(1)
    op = SPARSE_EMBEDDING if sparse else EMBEDDING
    rows = apply(op, (weight, wrap(indices)), (None, bool(scale_grad_by_freq)))
    if mode == "max":
        return _bag_max(rows, bags, count)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    total = add_rows(rows, wrap(backend.beside(rows._data, bags)), count, None, False)
    if mode == "sum":
        return total
    sizes = np.maximum(np.diff(_edges(bags, count)), 1)
    return total / wrap(sizes[:, None].astype(total._data.dtype))


def _check_bag_options(name: str, input: Any, weight: Any, mode: str, rowwise: bool, per_sample_weights: Any) -> None:
    """Refuses a table, a mode and weights that do not fit together; rowwise: gradients of rows are wanted in another form."""
    if weight._data.ndim != 2:
        raise ValueError(f"{name}: weight has to be a 2D Tensor, but got Tensor of dimension {weight._data.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and rowwise:
        raise ValueError(f"{name}: max mode does not support scale_grad_by_freq and sparse")
    if per_sample_weights is not None:
        if per_sample_weights._data.shape != input._data.shape:
            raise ValueError(
                f"{name}: If per_sample_weights ({list(per_sample_weights._data.shape)}) "
                "is not None, then it must have the same shape as the input "
                f"({list(input._data.shape)})"
            )
        if mode != "sum":
            raise NotImplementedError(
                f"{name}: per_sample_weights was not None. per_sample_weights is "
                f"only supported for mode='sum' (got mode={mode!r})."
            )
        if per_sample_weights._data.dtype != weight._data.dtype:
            raise RuntimeError(
                f"{name}: Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                f"'per_sample_weights'; but type {weight.dtype} does not equal {per_sample_weights.dtype}"
            )


def _check_rows(name: str, indices: Any, table: int, padding_idx: int | None) -> None:
    """Refuses indices and a padding that a table of so many rows does not have."""
    if padding_idx is not None and not -table <= padding_idx < table:
        raise RuntimeError(
            f"{name}: padding_idx must be within the number of embeddings, {-table} through {table - 1}, but got {padding_idx}"
        )
    wrong = indices[(indices < 0) | (indices >= table)]
    if wrong.size:
        raise RuntimeError(
            f"{name}: Expected idx >= 0 && idx < num_embeddings but found idx to be {wrong[0]} (num_embeddings is {table})"
        )


def _bags(name: str, input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple:
    """The indices in a row, the number of the bag of each, and the number of bags."""
    indices = _indices(name, input)
    if indices.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{name}: if input is 2D, then offsets has to be None, as input is "
                "treated is a mini-batch of fixed length sequences. However, found "
                f"offsets of type {type(offsets)}"
            )
        return indices.reshape(-1), np.repeat(np.arange(indices.shape[0]), indices.shape[1]), indices.shape[0]
    if indices.ndim != 1:
        raise ValueError(f"{name}: input has to be 1D or 2D Tensor, but got Tensor of dimension {indices.ndim}")
    if offsets is None or offsets._data.ndim != 1:
        raise ValueError(
            f"{name}: offsets has to be a 1D Tensor but got {None if offsets is None else list(offsets._data.shape)}"
        )
    starts = offsets._data
    first = f"{name}: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
    require(starts[:1] == 0, RuntimeError, first, lambda: f" However, got {starts[0]}")
    last = f"{name}: offsets[-1] can not be greater than input's length {indices.size}"
    require(starts[-1:] <= indices.size, RuntimeError, last, lambda: f" but got offsets[-1] of {starts[-1]}")
    if include_last:
        if not starts.size:
            raise RuntimeError(f"{name}: include_last_offset: number of offsets should be at least 1")
        indices, starts = indices[: starts[-1]], starts[:-1]
    return indices, np.searchsorted(starts, np.arange(indices.size), side="right") - 1, starts.size


def _edges(bags: Any, count: int) -> Any:
    """Where each bag begins among the numbers of bags, which ascend; behind the last one, their end."""
    return np.searchsorted(bags, np.arange(count + 1))


def _bag_max(rows: Tensor, bags: Any, count: int) -> Tensor:
    """The maximum over the rows of each bag."""
    data = rows._data
    first = np.zeros((count, data.shape[1]), np.int64)
    empty = np.ones((count, 1), bool)
    edges = _edges(bags, count)
    for b in range(count):
        part = data[edges[b] : edges[b + 1]]
        if len(part):
            first[b] = edges[b] + part.argmax(axis=0)
            empty[b] = False
    if not len(data):
        return add_rows(rows, wrap(bags), count, None, False)  # zeros that lead to the table
    return backend.functional.where(wrap(empty), 0, backend.functional.gather(rows, 0, wrap(first)))


_offsets: Any = {"values": [0, 2, 2, 5], "dtype": "int64"}
declare(
    "nn.functional.embedding_bag",
    [
        Sample(Arg(2, 3, **_ids), Arg(5, 4)),
        Sample(Arg(6, **_ids), Arg(5, 4), Arg(**_offsets), mode="sum"),
        Sample(Arg(6, **_ids), Arg(5, 4, low=-9, high=9), Arg(**_offsets), mode="max"),
        Sample(Arg(6, **_ids), Arg(5, 4), Arg(**_offsets), mode="sum", per_sample_weights=Arg(6), padding_idx=1),
        Sample(Arg(6, **_ids), Arg(5, 4), Arg(values=[0, 2, 2, 6], dtype="int64"), include_last_offset=True),
    ],
)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors with 1 at the index and 0 elsewhere, in a new last dimension of size `num_classes` (-1: the largest index
    + 1).

    Example::

        >>> import ferro
        >>> ferro.nn.functional.one_hot(ferro.tensor([2, 0]), num_classes=3)
        tensor([[0, 0, 1],
                [1, 0, 0]])
    """
    x = need_tensor("one_hot", "input", tensor)._data
    if x.dtype != np.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if x.size == 0:
        if num_classes <= 0:
            raise RuntimeError("one_hot: Can not infer total number of classes from empty tensor; give num_classes")
        return wrap(np.zeros((*x.shape, num_classes), np.int64))
    numbers = plain(x)
    require(x >= 0, RuntimeError, "one_hot: Class values must be non-negative", lambda: f", got {numbers.min()}.")
    if num_classes == -1:
        if numbers is not x:
            raise RuntimeError(
                "one_hot: When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
            )
        num_classes = int(x.max()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"one_hot: num_classes should be positive, got {num_classes}")
    less = f"one_hot: Class values must be smaller than num_classes={num_classes}"
    require(x < num_classes, RuntimeError, less, lambda: f", got {numbers.max()}.")
    return wrap((x[..., None] == backend.beside(x, np.arange(num_classes))).astype(np.int64))


declare(
    "nn.functional.one_hot",
    [Sample(Arg(3, dtype="int64", low=0, high=4)), Sample(Arg(2, 3, dtype="int64", low=0, high=4), 5)],
    differentiable=False,
)
