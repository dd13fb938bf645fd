"""Normalisation of channels over a batch; what all normalisations of channels check."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import levels_of
from ferro.batched.levels import ALIVE
from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import bump, wrap
from ferro.core.inplace import announce
from ferro.core.layout import BATCHES
from ferro.core.mode import ACTIVE, current
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample
from ferro.core.tangents import tangents_of
from ferro.ops.activations import floating

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["batch_norm", "native_batch_norm"]


def check_channels(name: str, input: Tensor, **per_channel: Any) -> None:
    """RuntimeError unless the input is floating, has channels, and each parameter (or None) has a number for each of them."""
    floating(name, input, *per_channel.values())
    shape = input._data.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"{name}: Expected at least 2 dimensions for input tensor but received {len(shape)}: it has the shape "
            f"{list(shape)}, and should have (N, C, ...)"
        )
    for label, t in per_channel.items():
        if t is not None and t._data.size != shape[1]:
            raise RuntimeError(
                f"{name}: {label} should contain {shape[1]} elements not {t._data.size} "
                f"(the input of shape {list(shape)} has {shape[1]} channels)"
            )


def refuse_shared(name: str, input: Tensor, **running: Any) -> None:
    """RuntimeError if each slice of a vmap would write its own statistics into those of all."""
    for label, t in running.items():
        if t is not None and any(level not in levels_of(t._data) for level in levels_of(input._data)):
            raise RuntimeError(
                f"{_NORMS[name]} got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
                "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False. If you are using "
                "a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch your module to "
                f"work with vmap. (ferro: {label} of {name} is the same for all slices; stack_module_state gives each model its own.)"
            )


_NORMS = {"batch_norm": "Batch norm", "instance_norm": "Instance norm"}  # as PyTorch's sentence names them


def _refuse_tangents(input: Tensor, *running: Tensor | None) -> None:
    if ACTIVE and current().level and tangents_of(input) and any(t is not None and tangents_of(t) for t in running):
        raise RuntimeError(
            "batch_norm is not differentiable wrt running_mean and running_var: they have tangents of forward mode; "
            "detach them"
        )


def update_running(running: Tensor | None, value: Any, momentum: float) -> None:
    """running = (1 - momentum) running + momentum value, in place."""
    if running is not None:
        a = running._data
        announce(a)
        backend.xp_of(a).write_(a, a * (1 - momentum) + value.astype(a.dtype, copy=False) * momentum)
        bump(running, "batch_norm")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) for each channel (dimension 1), times weight, plus bias.

    - `input` (Tensor): x, (N, C, ...)
    - `running_mean`, `running_var` (Tensor): (C), or None in training
    - `weight`, `bias` (Tensor, default None): (C)
    - `training` (bool, default False): takes mean and variance of the batch, and moves the running ones, in place,
      towards them; else takes the running ones
    - `momentum` (float, default 0.1): by which part they move (the variance unbiased)
    - `eps` (float, default 1e-05): keeps the root away from 0

    The result has the shape of x. The derivative in training is that of layer_norm, with means over the batch;
    otherwise dx = w g / sqrt(var + eps). RuntimeError for shapes that do not fit and for missing running statistics,
    ValueError for one value per channel in training and an eps out of range. Source: Ioffe and Szegedy, Batch
    Normalization, 2015.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.batch_norm(ferro.tensor([[1.0], [3.0]]), None, None, training=True, eps=1e-12)
        tensor([[-1.],
                [ 1.]])
    """
    if training:
        shape = need_tensor("batch_norm", "input", input)._data.shape
        if len(shape) > 1 and shape[0] * math.prod(shape[2:]) == 1:
            raise ValueError(
                f"batch_norm: Expected more than 1 value per channel when training, got input size {list(shape)}"
            )
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return batch_norm_by(input, running_mean, running_var, weight, bias, training, momentum, eps)


def batch_norm_by(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    found: list | None = None,
) -> Tensor:
    """The normalised input; `found` receives the mean and the biased variance it was normalised with."""
    if need_tensor("batch_norm", "input", input)._data.ndim == 1 and input._data.size == 0:
        if found is not None:
            found += [np.zeros(0, input._data.dtype)] * 2
        return input.clone()
    check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _refuse_tangents(input, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: Expected running_mean and running_var to be defined when training=False")
        # copies: the next batch of a training may change the running ones before backward
        fixed = [wrap(t._data.copy()) for t in (running_mean, running_var)]
        if found is not None:
            found += [t._data for t in fixed]
        return apply(BATCH_NORM, (input, weight, bias, *fixed), (eps, None))
    if found is None and (running_mean is not None or running_var is not None):
        found = []
    if ALIVE and found is not None:
        refuse_shared("batch_norm", input, running_mean=running_mean, running_var=running_var)
    result = apply(BATCH_NORM, (input, weight, bias, None, None), (eps, found))
    if found:
        count = input._data.size // max(found[0].size, 1)
        if count:
            update_running(running_mean, found[0], momentum)
            if running_var is not None:
                update_running(running_var, found[1] * (count / max(count - 1, 1)), momentum)
    return result


def _normalised(xp: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, found: list | None) -> tuple:
    """The result and the statistics used, which `found` receives too; those of the batch where mean and var are None."""
    result = xp.batch_norm(x, weight, bias, mean, var, mean is None, eps)
    if found is not None:
        found[:] = result[1:]
    return result


def _normalised_vjp(
    xp: Any,
    g: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    var: Any,
    eps: float,
    needs: tuple,
) -> tuple:
    """The gradients by x, weight and bias."""
    if running_mean is not None:  # mean and var are the same, but without a place on the tape in a recorded backward
        mean, var = running_mean, running_var
    return xp.batch_norm_vjp(g, x, weight, mean, var, running_mean is None, eps, needs)


RUNNING: Any = {"low": 0.5, "high": 2.0, "grad": False}
BATCH_NORM = Op(
    "batch_norm",
    aux=("mean", "var"),
    diff=("x", "weight", "bias"),
    weight=3.0,
    vjp=_normalised_vjp,
    forward=lambda xp, x, weight, bias, running_mean, running_var, /, eps, found: _normalised(
        xp, x, weight, bias, running_mean, running_var, eps, found
    ),
    path="nn.functional.batch_norm",
    samples=[
        Sample(Arg(4, 3), None, None, training=True),
        Sample(Arg(4, 3), Arg(3, grad=False), Arg(3, **RUNNING), Arg(3), Arg(3)),
        Sample(Arg(2, 3, 4), None, None, Arg(3), Arg(3), True, 0.2, 1e-2),
        Sample(Arg(2, 3, 2, 2), None, None, Arg(3), None, True),
        Sample(Arg(2, 3, 2), Arg(3, grad=False), Arg(3, **RUNNING)),
    ],
    layout=BATCHES,
)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple:
    """batch_norm with its statistics: (result, mean, 1 / sqrt(var + eps)); the last two are empty outside of training.

    - `input` (Tensor): (N, C, ...)
    - `weight`, `bias`, `running_mean`, `running_var` (Tensor or None): (C)
    - `training` (bool): takes the statistics of the batch, and moves the running ones towards them
    - `momentum` (float): by which part they move
    - `eps` (float): keeps the root away from 0

    Only the result is differentiable. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1.0], [3.0]])
        >>> y, mean, scale = ferro.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)
        >>> mean, scale
        (tensor([2.]), tensor([1.]))
    """
    found: list = []
    out = batch_norm_by(input, running_mean, running_var, weight, bias, training, momentum, eps, found)
    mean, var = found
    if not training:
        return out, *[wrap(backend.beside(mean, np.zeros(0, mean.dtype))) for _ in range(2)]
    return out, wrap(mean.copy()), wrap(1 / backend.xp_of(var).sqrt(var + eps))  # (backward reads the mean itself)
