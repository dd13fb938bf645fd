"""Embedding: rows of a table looked up by index, and one-hot vectors."""

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
from ferro.core.op import MULTILINEAR, Op
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["embedding", "embedding_renorm_", "one_hot"]


_INT64 = np.dtype(np.int64)


def row_indices(name: str, input: Tensor) -> Any:
    """The array of the indices of rows; RuntimeError for another dtype than int64 and int32."""
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
    indices = row_indices("embedding", input)
    shape = weight._data.shape
    if len(shape) != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(shape)}")
    padding = None if padding_idx is None else padding_row("embedding", padding_idx, shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    op = SPARSE_EMBEDDING if sparse else EMBEDDING
    return apply(op, (weight, wrap(indices)), (padding, bool(scale_grad_by_freq)))


def padding_row(name: str, padding_idx: int | None, rows: int) -> int | None:
    """The number of the row that is padding, counted from the first one; AssertionError if a table of so many rows has none there."""
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


def _ones_at(places: Any, classes: int) -> Any:
    """A row for each place, with 1 there; -1 classes: as many as there must be."""
    classes = int(places.max()) + 1 if classes == -1 else classes
    found = np.zeros((places.size, classes), np.int64)
    found.reshape(-1)[places + np.arange(0, found.size, classes)] = 1
    return found


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
    if backend.is_numpy(x) and x.min() >= 0 and (num_classes == -1 or x.max() < num_classes > 0):
        return wrap(_ones_at(x.reshape(-1), num_classes).reshape(*x.shape, -1))
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
