"""Exchanges of activations along one dimension of a mesh, with their backward.

Note [Gradients of activations].  An activation that all ranks have whole has its whole gradient in all ranks, and one in parts the gradient of the
part. Where a layer computes from the whole with its part of a weight, the gradient that comes back is a term: `spread` and `gathered(...,
terms=True)` add up the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.autograd.function import Function
from ferro.core.base import wrap
from ferro.core.graph_task import current_run
from ferro.native.threads import get_num_threads

from ...arrays import in_order, numpy_of
from ...process_group import ReduceOp
from ..placement_types import Placement, Replicate, Shard, share
from ..spec import finish, joined


def _check_order() -> None:
    run = current_run()
    if run is not None and run.threads != 1 and get_num_threads() > 1:
        raise RuntimeError(
            "tensor parallel: with several threads, each rank would begin the exchanges of backward in an order of its own: call "
            "backward(num_threads=1) or set_num_threads(1)"
        )


def added(group: Any, x: Any) -> Any:
    """The sum over the ranks, a new tensor."""
    total = wrap(in_order(x._data))
    finish(group.reduce(total, ReduceOp.SUM, None))
    return total


def _lengths(group: Any, length: int) -> list[int]:
    return [share(length, group.size(), i)[1] for i in range(group.size())]


def _joined(group: Any, x: Any, dim: int, lengths: Sequence[int]) -> Any:
    return wrap(joined(group, numpy_of(x._data).ascontiguousarray(x._data), dim, lengths))


def _own(group: Any, x: Any, dim: int) -> Any:
    start, count = share(x._data.shape[dim], group.size(), group.rank())
    return wrap(in_order(x._data[(slice(None),) * dim + (slice(start, start + count),)]))


class _Spread(Function):
    """The tensor itself; terms of its gradient are added up."""

    @staticmethod
    def forward(ctx: Any, group: Any, x: Any) -> Any:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _check_order()
        return None, added(ctx.group, grad)


class _Added(Function):
    """The sum of terms."""

    @staticmethod
    def forward(ctx: Any, group: Any, x: Any) -> Any:
        return added(group, x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad


class _Gathered(Function):
    """The whole of parts; its gradient comes whole, or as terms."""

    @staticmethod
    def forward(ctx: Any, group: Any, dim: int, lengths: Any, terms: bool, x: Any) -> Any:
        ctx.group, ctx.dim, ctx.terms = group, dim, terms
        return _joined(group, x, dim, lengths)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.terms:
            _check_order()
            grad = added(ctx.group, grad)
        return None, None, None, None, _own(ctx.group, grad, ctx.dim)


class _Part(Function):
    """The part of this rank of what all have, or (terms) of a sum."""

    @staticmethod
    def forward(ctx: Any, group: Any, dim: int, terms: bool, x: Any) -> Any:
        ctx.group, ctx.dim, ctx.lengths = group, dim, _lengths(group, x._data.shape[dim])
        return _own(group, added(group, x) if terms else x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _check_order()
        return None, None, None, _joined(ctx.group, grad, ctx.dim, ctx.lengths)


def spread(group: Any, x: Any) -> Any:
    """The tensor, which all ranks have, for layers whose gradients are terms."""
    return _Spread.apply(group, x)


def summed(group: Any, x: Any, wanted: Placement) -> Any:
    """The sum of terms, whole or in parts."""
    if isinstance(wanted, Replicate):
        return _Added.apply(group, x)
    return _Part.apply(group, wanted.dim % x.dim(), True, x)  # type: ignore[attr-defined]


def gathered(group: Any, x: Any, dim: int, terms: bool) -> Any:
    """The whole of parts along a dimension, which may differ in length as `share` makes them."""
    dim %= x.dim()
    lengths = np.zeros(group.size(), np.int64)
    lengths[group.rank()] = x._data.shape[dim]
    finish(group.reduce_numbers(lengths, ReduceOp.SUM))
    return _Gathered.apply(group, dim, lengths.tolist(), terms, x)


def moved(group: Any, x: Any, given: Placement, wanted: Placement) -> Any:
    """An activation that lies in one way, in another way."""
    if isinstance(given, Shard) and isinstance(wanted, Shard) and given.dim % x.dim() == wanted.dim % x.dim():
        return x
    if isinstance(given, Shard):
        x = gathered(group, x, given.dim, False)
    return _Part.apply(group, wanted.dim % x.dim(), False, x) if isinstance(wanted, Shard) else x
