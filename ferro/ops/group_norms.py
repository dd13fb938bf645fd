"""Normalisation of channels within each sample: in groups, or each alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ferro.batched.levels import ALIVE
from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.base import wrap
from ferro.core.layout import CHANNELS
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.batch_norms import RUNNING, batch_norm_by, check_channels, refuse_shared, update_running
from ferro.ops.strides import laid_out_like

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["group_norm", "instance_norm", "native_group_norm"]


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """layer_norm over each of `num_groups` groups of channels, with weight and bias for each channel.

    - `input` (Tensor): (N, C, ...)
    - `num_groups` (int): a divisor of C
    - `weight`, `bias` (Tensor, default None): (C)
    - `eps` (float, default 1e-05): keeps the root away from 0
    - `cudnn_enabled` (bool, default True): no effect

    The result has the shape of `input`. RuntimeError for numbers of channels that do not fit. Source: Wu and He, Group
    Normalization, 2018.

    Example::

        >>> import ferro
        >>> ferro.group_norm(ferro.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0)
        tensor([[-1.,  1., -1.,  1.]])
    """
    check_channels("group_norm", input, weight=weight, bias=bias)
    shape = input._data.shape
    if num_groups <= 0:
        raise RuntimeError(f"group_norm: Expected num groups to be greater than 0, got {num_groups}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "group_norm: Expected number of channels in input to be divisible by "
            f"num_groups, but got input of shape {list(shape)} and "
            f"num_groups={num_groups}"
        )
    for label, t in (("weight", weight), ("bias", bias)):
        if t is not None and t._data.ndim != 1:
            raise RuntimeError(
                f"group_norm: Expected {label} to be a vector of size equal to the "
                f"number of channels in input, but got {label} of shape "
                f"{list(t._data.shape)} and input of shape {list(shape)}"
            )
    return laid_out_like(input, _groups(input, num_groups, weight, bias, eps))


def functional_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """layer_norm over each of `num_groups` groups of channels, with weight and bias for each channel.

    - `input` (Tensor): (N, C, ...)
    - `num_groups` (int): a divisor of C
    - `weight`, `bias` (Tensor, default None): (C)
    - `eps` (float, default 1e-05): keeps the root away from 0

    The result has the shape of `input`. RuntimeError for numbers of channels that do not fit, ValueError where one
    value in all would be normalised by itself. Source: Wu and He, Group Normalization, 2018.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.group_norm(ferro.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0)
        tensor([[-1.,  1., -1.,  1.]])
    """
    result = group_norm(input, num_groups, weight, bias, eps)
    shape = input._data.shape
    if shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"group_norm: Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    return result


def _groups(input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Each group of channels of each sample normalised, then scaled and shifted for each channel."""
    if input._data.size:
        return apply(GROUP_NORM, (input, weight, bias), (groups, eps))
    column = [1, -1] + [1] * (input._data.ndim - 2)  # of nothing, only the history
    out = input.clone() if weight is None else input * weight.reshape(column)
    return out if bias is None else out + bias.reshape(column)


GROUP_NORM = Op(
    "group_norm",
    lambda xp, x, weight, bias, /, groups, eps: xp.group_norm(x, weight, bias, groups, eps),
    aux=("mean", "rstd"),
    diff=("x", "weight", "bias"),
    weight=3.0,
    path="nn.functional.group_norm",
    vjp=lambda xp, g, x, weight, mean, rstd, groups, eps, needs: xp.group_norm_vjp(
        g, x, weight, mean, rstd, groups, eps, needs
    ),
    samples=[
        Sample(Arg(2, 4, 3), 2),
        Sample(Arg(2, 4, 2, 2), 4, Arg(4), Arg(4)),
        Sample(Arg(3, 4), 1, Arg(4), None, 1e-3),
    ],
    layout=CHANNELS,
)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """batch_norm of each sample alone: y = (x - mean) / sqrt(var + eps) for each sample and channel, times weight, plus
    bias.

    - `input` (Tensor): x, (N, C, L, ...)
    - `running_mean`, `running_var` (Tensor, default None): (C): move towards the means over the samples, or are taken
      instead
    - `weight`, `bias` (Tensor, default None): (C)
    - `use_input_stats` (bool, default True): whether mean and variance are those of x
    - `momentum` (float, default 0.1): by which part the running statistics move
    - `eps` (float, default 1e-05): keeps the root away from 0

    The result has the shape of x. RuntimeError for shapes that do not fit and for missing running statistics,
    ValueError for one value per sample and channel. Source: Ulyanov, Vedaldi and Lempitsky, Instance Normalization,
    2016.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.instance_norm(ferro.tensor([[[1.0, 3.0], [5.0, 9.0]]]), eps=1e-12)
        tensor([[[-1.,  1.],
                 [-1.,  1.]]])
    """
    check_channels("instance_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    shape = input._data.shape
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when use_input_stats=False"
            )
        return batch_norm_by(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {list(shape)}"
        )
    if running_mean is not None or running_var is not None:
        if ALIVE:
            refuse_shared("instance_norm", input, running_mean=running_mean, running_var=running_var)
        _, mean, var = backend.xp_of(input._data).batch_norm(
            input._data.reshape(1, -1, count), None, None, None, None, True, eps
        )
        update_running(running_mean, mean.reshape(shape[:2]).mean(0), momentum)
        update_running(running_var, var.reshape(shape[:2]).mean(0) * (count / max(count - 1, 1)), momentum)
    return _groups(input.contiguous(), shape[1], weight, bias, eps)  # as in PyTorch, the result is in C order


declare(
    "nn.functional.instance_norm",
    [
        Sample(Arg(2, 3, 4)),
        Sample(Arg(2, 3, 2, 2), None, None, Arg(3), Arg(3)),
        Sample(Arg(2, 3, 4), None, None, Arg(3), eps=1e-2),
        Sample(Arg(2, 3, 4), Arg(3, grad=False), Arg(3, **RUNNING), use_input_stats=False),
    ],
)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple:
    """group_norm with its statistics: (result, mean, 1 / sqrt(var + eps)), the last two (N, groups); all three are
    differentiable.

    - `input` (Tensor): (N, C, ...)
    - `weight`, `bias` (Tensor or None): (C)
    - `N`, `C`, `HxW` (int): the samples, the channels and the elements of each of them
    - `group` (int): how many groups there are, a divisor of C
    - `eps` (float): keeps the root away from 0

    RuntimeError for numbers of channels that do not fit.

    Example::

        >>> import ferro
        >>> y, mean, scale = ferro.native_group_norm(ferro.tensor([[1.0, 3.0, 5.0, 7.0]]), None, None, 1, 4, 1, 2, 0.0)
        >>> y, mean, scale
        (tensor([[-1.,  1., -1.,  1.]]), tensor([[2., 6.]]), tensor([[1., 1.]]))
    """
    out = group_norm(input, group, weight, bias, eps)
    if input._data.size == 0:
        zeros = np.zeros((N, group), input._data.dtype)
        return out, wrap(zeros), wrap(zeros.copy())
    rows = input.reshape(N, group, -1)
    mean = rows.mean(-1)
    d = rows - mean.unsqueeze(-1)
    return out, mean, ((d * d).mean(-1) + eps).rsqrt()
