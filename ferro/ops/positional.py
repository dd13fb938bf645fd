"""Functions of the top level whose arguments come in another order than those of the same name in nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.backend import beside, on_host, xp_of
from ferro.core.base import wrap
from ferro.core.looped import by_slices
from ferro.core.requirements import fixed
from ferro.core.samples import Arg, Sample, declare
from ferro.ops import batch_norms as _batch_norms
from ferro.ops import embedding_bags as _embedding_bags
from ferro.ops import group_norms as _group_norms
from ferro.ops.padding import channel_shuffle

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["batch_norm", "embedding_bag", "instance_norm", "native_channel_shuffle"]


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm` for any number of values per channel.

    - `input` (Tensor): (N, C, ...)
    - `weight`, `bias`, `running_mean`, `running_var` (Tensor or None): (C)
    - `training` (bool): takes the statistics of the batch, and moves the running ones towards them
    - `momentum` (float): by which part they move
    - `eps` (float): keeps the root away from 0
    - `cudnn_enabled` (bool): no effect

    The result has the shape of `input`. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.batch_norm(ferro.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0, False)
        tensor([[-1.],
                [ 1.]])
    """
    return _batch_norms.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm` with all its arguments in PyTorch's inner order.

    - `input` (Tensor): (N, C, L, ...)
    - `weight`, `bias`, `running_mean`, `running_var` (Tensor or None): (C)
    - `use_input_stats` (bool): whether mean and variance are those of the input
    - `momentum` (float): by which part the running statistics move
    - `eps` (float): keeps the root away from 0
    - `cudnn_enabled` (bool): no effect

    The result has the shape of `input`. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.instance_norm(ferro.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, False)
        tensor([[[-1.,  1.]]])
    """
    return _group_norms.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@by_slices
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple:
    """`nn.functional.embedding_bag` with what it was computed with: (result, bag of each index, size of each bag, row
    of each maximum).

    - `weight` (Tensor): the table, (rows, D)
    - `indices` (Tensor): (n)
    - `offsets` (Tensor): (bags): where each bag starts
    - `scale_grad_by_freq` (bool, default False): divides gradients by the number of times an index occurs
    - `mode` (int, default 0): 0 (sum), 1 (mean) or 2 (max)
    - `sparse` (bool, default False): makes the gradient of `weight` a sparse tensor
    - `per_sample_weights` (Tensor, default None): a factor for each index, for mode 0
    - `include_last_offset` (bool, default False): whether `offsets` has the end of the last bag, too
    - `padding_idx` (int, default None): indices equal to it are left out

    Raises what `nn.functional.embedding_bag` raises.

    Example::

        >>> import ferro
        >>> table = ferro.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
        >>> ferro.embedding_bag(table, ferro.tensor([2, 1, 0]), ferro.tensor([0, 2]))[:3]
        (tensor([[ 3., 30.],
                [ 0.,  0.]]), tensor([0, 0, 1]), tensor([2, 1]))
    """
    modes = ("sum", "mean", "max")
    if mode not in range(3):
        raise RuntimeError(f"embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {mode}")
    out = _embedding_bags.embedding_bag(
        indices,
        weight,
        offsets,
        None,
        2.0,
        scale_grad_by_freq,
        modes[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    return out, *_bag_facts(weight._data, indices._data, offsets._data, include_last_offset, padding_idx, mode)


def _bag_facts(table: Any, indices: Any, starts: Any, include_last: bool, padding: int | None, mode: int) -> tuple:
    """The bag of each index, the sizes of the bags, and the rows of the maxima (mode 2; otherwise the sizes again)."""
    given, (table, indices) = indices, map(on_host, (table, indices))
    starts = np.asarray(fixed(starts[:-1] if include_last else starts))
    bags = np.searchsorted(starts, np.arange(indices.size), side="right") - 1
    kept = np.ones(indices.size, bool) if padding is None else indices != padding % len(table)
    sizes = np.bincount(bags[kept], minlength=len(starts))
    if mode != 2:
        return wrap(beside(given, bags)), wrap(beside(given, sizes)), wrap(beside(given, sizes.copy()))
    best = [beside(indices, np.zeros(table.shape[1], np.int64))] * len(starts)
    for b in np.flatnonzero(sizes):
        rows = indices[kept & (bags == b)]
        best[b] = rows[table[rows].argmax(0)].astype(np.int64)
    found = xp_of(indices).stack(best, 0) if best else np.zeros((0, table.shape[1]), np.int64)
    return wrap(beside(given, bags)), wrap(beside(given, sizes)), wrap(beside(given, found))


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`."""
    return channel_shuffle(input, groups)


_positive: Any = {"low": 0.5, "high": 2.0, "grad": False}
_ids: Any = {"dtype": "int64", "low": 0, "high": 5}
declare(
    "batch_norm",
    [
        Sample(Arg(4, 3), Arg(3), Arg(3), None, None, True, 0.1, 1e-5, False),
        Sample(Arg(2, 3, 2), None, None, Arg(3, grad=False), Arg(3, **_positive), False, 0.1, 1e-3, True),
    ],
)
declare("instance_norm", [Sample(Arg(2, 3, 4), Arg(3), Arg(3), None, None, True, 0.1, 1e-5, False)])
declare(
    "embedding_bag",
    [
        Sample(Arg(5, 4), Arg(6, **_ids), Arg(values=[0, 2, 2], dtype="int64"), False, 1),
        Sample(Arg(5, 4), Arg(6, **_ids), Arg(values=[0, 2, 2, 6], dtype="int64"), False, 2, False, None, True),
    ],
)
declare(
    "native_channel_shuffle",
    [Sample(Arg(2, 6, 1, 2), 2)],
    reference=lambda x, groups=2: x.reshape(2, groups, 3, 1, 2).swapaxes(1, 2).reshape(x.shape),
)
