"""segment_reduce: sums, means, extrema and products of the pieces of a dimension, whose lengths or limits are given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.dtypes import type_name
from ferro.ops.choices import where
from ferro.ops.creation import full, zeros
from ferro.ops.index_reduce import index_reduce
from ferro.ops.indexing import index_add
from ferro.ops.joining import cat
from ferro.ops.ranges import arange
from ferro.ops.searching import searchsorted

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["segment_reduce"]

# What a piece without elements gives, unless `initial` says it.
_EMPTY = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The sum, mean, max, min or product of each piece of the dimension `axis`.

    - `data` (Tensor): floating point, of shape (\\*batch, m, \\*rest) where `axis` is the number of dimensions of `batch`
    - `reduce` (str): "sum", "mean", "max", "min" or "prod"
    - `lengths` (Tensor, default None): integers of shape (\\*batch, n), the lengths of the pieces, which add up to m
    - `indices` (Tensor, default None): refused, as in PyTorch
    - `offsets` (Tensor, default None): instead of `lengths`, integers of shape (\\*batch, n + 1), where the pieces begin and end
    - `axis` (int, default 0): the dimension, the last one of `lengths`
    - `unsafe` (bool, default False): does not ask whether lengths are negative or add up to m; elements of no piece are left out
    - `initial` (number, default None): where each piece begins; what a piece without elements gives

    The result has the shape (\\*batch, n, \\*rest).  Equal extrema share a gradient.  RuntimeError for lengths that do not fit,
    NotImplementedError for other dtypes.

    Example::

        >>> import ferro
        >>> ferro.segment_reduce(ferro.tensor([1.0, 2.0, 3.0]), "sum", lengths=ferro.tensor([2, 0, 1]))
        tensor([3., 0., 3.])
    """
    need_tensor("segment_reduce", "data", data)
    if reduce not in _EMPTY:
        raise RuntimeError(f"segment_reduce(): unknown reduction {reduce!r}; one of {', '.join(_EMPTY)} is needed")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    limits = lengths if offsets is None else offsets
    if limits is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    axis = axis % data.dim() if -data.dim() <= axis < data.dim() else axis
    _check(data, limits, axis)
    batch, m, rest = data.shape[:axis], data.shape[axis], data.shape[axis + 1 :]
    rows = math.prod(batch)
    if offsets is None:
        limits = _begins(limits, m, unsafe)
    n = limits.shape[-1] - 1
    limits = limits.reshape(rows, n + 1).long()
    piece = searchsorted(limits, arange(m, device=data.device).expand(rows, m).contiguous(), right=True) - 1
    inside = (piece >= 0) & (piece < n)  # what is in no piece goes to one more, which is dropped
    index = where(inside, piece + n * arange(rows, device=data.device).unsqueeze(1), rows * n).reshape(-1)
    counts = (limits[:, 1:] - limits[:, :-1]).reshape(-1, *[1] * len(rest)).to(data.dtype)
    found = _reduced(reduce, data.reshape(rows * m, *rest), index, rows * n, initial, counts)
    return found.reshape(*batch, n, *rest)


def _check(data: Tensor, limits: Tensor, axis: int) -> None:
    if not data.is_floating_point():
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{type_name(data.dtype)}'")
    if limits.is_floating_point() or limits.is_complex():
        raise NotImplementedError(
            f"\"_segment_reduce_lengths_cpu_kernel1\" not implemented for '{type_name(limits.dtype)}'"
        )
    if data.dim() < limits.dim():
        raise RuntimeError(
            f"segment_reduce(): Expected data.dim() >= lengths_value.dim() to be true, but got false: {data.dim()} and "
            f"{limits.dim()} dimensions"
        )
    if axis != limits.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if data.shape[:axis] != limits.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): data of shape {list(data.shape)} and lengths of shape {list(limits.shape)} differ before "
            f"the dimension {axis}"
        )


def _begins(lengths: Tensor, m: int, unsafe: bool) -> Tensor:
    """Where the pieces begin, and where the last one ends."""
    if not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if bool((lengths.sum(-1) != m).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe. "
                f"That is {m}, and the sums are {lengths.sum(-1).tolist()}"
            )
    ends = lengths.long().cumsum(-1)
    return cat([zeros(*ends.shape[:-1], 1, dtype=ends.dtype, device=ends.device), ends], -1)


def _reduced(reduce: str, rows: Tensor, index: Tensor, n: int, initial: Any, counts: Tensor) -> Tensor:
    """The rows of each number in `index` reduced; those of number n are left out."""
    shape = (n + 1, *rows.shape[1:])
    if reduce in ("sum", "mean"):
        total = index_add(zeros(*shape, dtype=rows.dtype, device=rows.device), 0, index, rows)[:-1] + (initial or 0.0)
        if reduce == "sum":
            return total
        return where(counts == 0, math.nan if initial is None else initial, total / where(counts == 0, 1.0, counts))
    begin = full(shape, _EMPTY[reduce], dtype=rows.dtype, device=rows.device)
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    found = index_reduce(begin, 0, index, rows, kind, include_self=False)[:-1]
    if initial is None:
        return found
    if reduce == "prod":
        return found * initial
    return where(found < initial if reduce == "max" else found > initial, initial, found)
