"""Bags of embeddings: sums, means and maxima of rows of a table that are looked up by index."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.dtypes import INEXACT
from ferro.core.looped import by_slices
from ferro.core.requirements import fixed, require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.embedding import (
    EMBEDDING,
    SPARSE_EMBEDDING,
    add_rows,
    embedding_renorm_,
    padding_row,
    row_indices,
    take_rows,
)

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["embedding_bag"]


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
    padding = padding_row(name, padding_idx, weight._data.shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, wrap(indices), max_norm, norm_type)
    inside = None if padding is None else indices != padding
    if inside is not None and (mode == "max" or isinstance(inside, np.ndarray)):
        indices, bags, per_sample_weights = _kept(inside, indices, bags, per_sample_weights)
        inside = None
    op = SPARSE_EMBEDDING if sparse else EMBEDDING
    rows = apply(op, (weight, wrap(indices)), (None, bool(scale_grad_by_freq)))
    if inside is not None:
        rows, per_sample_weights = _without_padding(inside, rows, per_sample_weights)
    if mode == "max":
        return _bag_max(rows, bags, count)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    total = add_rows(rows, wrap(backend.beside(rows._data, bags)), count, None, False)
    if mode == "sum":
        return total
    return total / wrap(_bag_sizes(bags, count, inside, total))


def _kept(inside: Any, indices: Any, bags: Any, weights: Any) -> tuple:
    """The indices where a mask is true, their bags and their factors."""
    kept = np.flatnonzero(backend.on_host(inside))
    if weights is not None:
        weights = take_rows(weights.unsqueeze(1), wrap(backend.beside(indices, kept))).squeeze(1)
    return indices[backend.beside(indices, kept)], bags[kept], weights


def _without_padding(inside: Any, rows: Tensor, weights: Tensor | None) -> tuple:
    """Rows and factors with zeros for indices that are padding: in a captured graph, which is for any indices, all have their places."""
    where = backend.functional.where
    return where(wrap(inside[:, None]), rows, 0), None if weights is None else where(wrap(inside), weights, 0)


def _bag_sizes(bags: Any, count: int, inside: Any, like: Tensor) -> Any:
    """How many indices each bag has, but at least 1, as a column."""
    dtype = like._data.dtype
    if inside is None:
        sizes = np.diff(_edges(bags, count))[:, None]
    else:
        sizes = xp_of(inside).add_rows(inside[:, None].astype(dtype), bags, count, None, False)
    return backend.beside(like._data, xp_of(sizes).clamp(sizes, 1, None).astype(dtype))


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
    fits = (indices >= 0) & (indices < table)
    message = f"{name}: Expected idx >= 0 && idx < num_embeddings"
    more = f"(num_embeddings is {table})"
    require(fits, RuntimeError, message, lambda: f" but found idx to be {indices[~fits][0].item()} {more}")


def _bags(name: str, input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple:
    """The indices in a row, the number of the bag of each, and the number of bags."""
    indices = row_indices(name, input)
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
    if not isinstance(starts, np.ndarray):
        starts = np.asarray(fixed(starts), starts.dtype)
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
    if not len(data):
        return add_rows(rows, wrap(backend.beside(data, bags)), count, None, False)  # zeros that lead to the table
    edges = _edges(backend.on_host(bags), count)
    none = backend.beside(data, np.zeros(data.shape[1], np.int64))
    first = [data[i:j].argmax(axis=0) + i if j > i else none for i, j in pairwise(edges.tolist())]
    empty = np.diff(edges)[:, None] == 0
    places = xp_of(data).stack(first, 0)
    return backend.functional.where(
        wrap(backend.beside(data, empty)), 0, backend.functional.gather(rows, 0, wrap(places))
    )


_ids: Any = {"dtype": "int64", "low": 0, "high": 5}
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
