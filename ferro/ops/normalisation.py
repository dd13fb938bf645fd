"""Normalisation over batches, layers, groups, instances, by the root mean square, and over neighbouring channels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import levels_of
from ferro.batched.levels import ALIVE
from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, sizes
from ferro.core.base import bump, wrap
from ferro.core.inplace import announce
from ferro.core.layout import BATCHES, CHANNELS
from ferro.core.mode import ACTIVE, current
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.tangents import tangents_of
from ferro.ops.activations import floating
from ferro.ops.strides import laid_out_like

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "native_batch_norm",
           "native_group_norm", "native_layer_norm", "rms_norm"]  # fmt: skip


# -- layers ------------------------------------------------------------------------------------------------------------


def _trailing(name: str, input: Tensor, normalized_shape: Any, weight: Any, bias: Any = None) -> int:
    """The number of dimensions in `normalized_shape`, which must be the last ones of the input and the shape of the
    weights.
    """
    if type(normalized_shape) is not tuple:
        normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    n = len(normalized_shape)
    shape = need_tensor(name, "input", input)._data.shape
    if shape[-n:] != normalized_shape or not n:
        if not n:
            raise RuntimeError(
                f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., "
                "containing at least one element, but got normalized_shape = []"
            )
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size {list(shape)}"
        )
    for label, t in (("weight", weight), ("bias", bias)):
        if t is not None and need_tensor(name, label, t)._data.shape != normalized_shape:
            raise RuntimeError(
                f"{name}: Expected {label} to be of same shape as normalized_shape, but "
                f"got {label} of shape {list(t._data.shape)} and normalized_shape = "
                f"{list(normalized_shape)}"
            )
    return n


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias.

    - `input` (Tensor): x, (..., *normalized_shape)
    - `normalized_shape` (sequence of ints): the last dimensions of x
    - `weight`, `bias` (Tensor, default None): in the shape `normalized_shape`
    - `eps` (float, default 1e-05): keeps the root away from 0
    - `cudnn_enable` (bool, default True): no effect

    The result has the shape of x. With r = 1 / sqrt(var + eps), z the normalised x and h = w g: dx = r (h - mean h - z
    mean(h z)), dw = Σ g z, db = Σ g. RuntimeError for shapes that do not fit. Source: Ba, Kiros and Hinton, Layer
    Normalization, 2016.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.layer_norm(ferro.tensor([[1.0, 3.0]]), [2], eps=0.0)
        tensor([[-1.,  1.]])
    """
    n = _trailing("layer_norm", input, normalized_shape, weight, bias)
    floating("layer_norm", input, weight, bias)
    return apply(LAYER_NORM, (input, weight, bias), (n, eps))


LAYER_NORM = Op(
    "layer_norm",
    lambda xp, x, weight, bias, /, n, eps: xp.layer_norm(x, weight, bias, n, eps),
    aux=("mean", "rstd"),
    vjp=lambda xp, g, x, weight, mean, rstd, n, eps, needs: xp.layer_norm_vjp(g, x, weight, mean, rstd, n, eps, needs),
    diff=("x", "weight", "bias"),
    weight=3.0,
    path="nn.functional.layer_norm",
    samples=[
        Sample(Arg(3, 4), (4,)),
        Sample(Arg(3, 4), (4,), Arg(4), Arg(4)),
        Sample(Arg(2, 3, 4), (3, 4), Arg(3, 4)),
        Sample(Arg(5), (5,), Arg(5), None, 1e-2),
        Sample(Arg(2, 2, 3), (3,), Arg(3), Arg(3)),
        Sample(Arg(0, 3), (3,), Arg(3), Arg(3)),
    ],
)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """y = x / sqrt(mean(x²) + eps) over the last dimensions, times weight.

    - `input` (Tensor): x, (..., *normalized_shape), floating
    - `normalized_shape` (sequence of ints): the last dimensions of x
    - `weight` (Tensor, default None): in the shape `normalized_shape`
    - `eps` (float, default None): keeps the root away from 0; None: the machine epsilon of the dtype

    The result has the shape of x. With r = 1 / sqrt(mean(x²) + eps), z = r x and h = w g: dx = r (h - z mean(h z)), dw
    = Σ g z. RuntimeError for shapes that do not fit and for a dtype that is not floating. Source: Zhang and Sennrich,
    Root Mean Square Layer Normalization, 2019.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.rms_norm(ferro.tensor([[1.0, 7.0]]), [2], eps=0.0)
        tensor([[0.2000, 1.4000]])
    """
    n = _trailing("rms_norm", input, normalized_shape, weight)
    dtype = input._data.dtype
    if dtype not in dtypes.INEXACT:
        raise RuntimeError(
            f"rms_norm: not implemented for dtype {input.dtype}; expected a floating-point tensor (cast with .float())"
        )
    if eps is None:
        eps = dtypes.finfo(input.dtype if dtype not in dtypes.HALF else dtypes.float32).eps
    if dtype in dtypes.COMPLEX:
        dims = tuple(range(input._data.ndim - n, input._data.ndim))
        out = input * ((input * input).mean(dims, True) + eps).rsqrt()
        return out if weight is None else out * weight
    return apply(RMS_NORM, (input, weight), (n, eps))


RMS_NORM = Op(
    "rms_norm",
    lambda xp, x, weight, /, n, eps: xp.rms_norm(x, weight, n, eps),
    aux=("rstd",),
    vjp=lambda xp, g, x, weight, rstd, n, eps, needs: xp.rms_norm_vjp(g, x, weight, rstd, n, eps, needs),
    diff=("x", "weight"),
    weight=3.0,
    path="nn.functional.rms_norm",
    complex=True,
    samples=[
        Sample(Arg(3, 4), (4,)),
        Sample(Arg(3, 4), (4,), Arg(4), 1e-3),
        Sample(Arg(2, 3, 4), (3, 4), Arg(3, 4)),
        Sample(Arg(5), (5,)),
        Sample(Arg(0, 3), (3,), Arg(3)),
    ],
)


# -- batches -----------------------------------------------------------------------------------------------------------


def _check_channels(name: str, input: Tensor, **per_channel: Any) -> None:
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


def _refuse_shared(name: str, input: Tensor, **running: Any) -> None:
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


def _update(running: Tensor | None, value: Any, momentum: float) -> None:
    """running = (1 - momentum) running + momentum value, in place."""
    if running is not None:
        a = running._data
        announce(a)
        np.copyto(a, a * (1 - momentum) + value.astype(a.dtype, copy=False) * momentum, casting="unsafe")
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
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def _batch_norm(
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
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if (
        ACTIVE
        and current().level
        and tangents_of(input)
        and any(t is not None and tangents_of(t) for t in (running_mean, running_var))
    ):
        raise RuntimeError(
            "batch_norm is not differentiable wrt running_mean and running_var: they have tangents of forward mode; "
            "detach them"
        )
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
        _refuse_shared("batch_norm", input, running_mean=running_mean, running_var=running_var)
    result = apply(BATCH_NORM, (input, weight, bias, None, None), (eps, found))
    if found:
        count = input._data.size // max(found[0].size, 1)
        if count:
            _update(running_mean, found[0], momentum)
            if running_var is not None:
                _update(running_var, found[1] * (count / max(count - 1, 1)), momentum)
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


_normed: Any = {"low": 0.5, "high": 2.0, "grad": False}
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
        Sample(Arg(4, 3), Arg(3, grad=False), Arg(3, **_normed), Arg(3), Arg(3)),
        Sample(Arg(2, 3, 4), None, None, Arg(3), Arg(3), True, 0.2, 1e-2),
        Sample(Arg(2, 3, 2, 2), None, None, Arg(3), None, True),
        Sample(Arg(2, 3, 2), Arg(3, grad=False), Arg(3, **_normed)),
    ],
    layout=BATCHES,
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
    _check_channels(
        "instance_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    shape = input._data.shape
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when use_input_stats=False"
            )
        return _batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {list(shape)}"
        )
    if running_mean is not None or running_var is not None:
        if ALIVE:
            _refuse_shared("instance_norm", input, running_mean=running_mean, running_var=running_var)
        _, mean, var = backend.xp_of(input._data).batch_norm(
            input._data.reshape(1, -1, count), None, None, None, None, True, eps
        )
        _update(running_mean, mean.reshape(shape[:2]).mean(0), momentum)
        _update(running_var, var.reshape(shape[:2]).mean(0) * (count / max(count - 1, 1)), momentum)
    return _groups(input.contiguous(), shape[1], weight, bias, eps)  # as in PyTorch, the result is in C order


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


declare(
    "nn.functional.instance_norm",
    [
        Sample(Arg(2, 3, 4)),
        Sample(Arg(2, 3, 2, 2), None, None, Arg(3), Arg(3)),
        Sample(Arg(2, 3, 4), None, None, Arg(3), eps=1e-2),
        Sample(Arg(2, 3, 4), Arg(3, grad=False), Arg(3, **_normed), use_input_stats=False),
    ],
)


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
    _check_channels("group_norm", input, weight=weight, bias=bias)
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


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha m)^beta, where m is the mean of x² over the `size` neighbouring channels.

    - `input` (Tensor): x, (N, C, L, ...)
    - `size` (int): how many channels count
    - `alpha`, `beta`, `k` (float, default 0.0001 and 0.75 and 1.0): of the formula

    The result has the shape of x. ValueError for fewer than three dimensions, RuntimeError for a size that is not
    positive. Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks,
    2012, section 3.3.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.local_response_norm(ferro.tensor([[[2.0], [4.0]]]), 1, alpha=1.0, beta=0.5, k=0.0)
        tensor([[[1.],
                 [1.]]])
    """
    floating("local_response_norm", input)
    shape = input._data.shape
    if len(shape) < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} dimensions)"
        )
    if input._data.size == 0:
        return input
    (size,) = sizes("local_response_norm", (size,))
    if size < 1:
        raise RuntimeError(f"local_response_norm: size should be greater than zero, but got {size}")
    square, total, far = input * input, None, shape[1] - 1
    for shift in range(max(-(size // 2), -far), min((size - 1) // 2, far) + 1):  # the channel at this distance
        part = square.narrow(1, max(shift, 0), shape[1] - abs(shift))
        part = _pad_channels(part, max(-shift, 0), max(shift, 0))
        total = part if total is None else total + part
    assert total is not None
    return input / (total * (alpha / size) + k) ** beta


def _pad_channels(t: Tensor, before: int, after: int) -> Tensor:
    """Zero channels put before and after."""
    shape = t._data.shape
    parts = [backend.functional.new_zeros(t, (shape[0], n, *shape[2:])) for n in (before, after)]
    return backend.functional.cat([p for p in (parts[0], t, parts[1]) if p._data.shape[1]], 1) if before or after else t


declare(
    "nn.functional.local_response_norm",
    [Sample(Arg(2, 5, 3), 3), Sample(Arg(1, 4, 2, 2), 2, 0.5, 0.5, 2.0), Sample(Arg(2, 2, 3), 5, 1.0)],
)


# -- PyTorch's older names, which also return the statistics -----------------------------------------------------------


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple:
    """layer_norm with its statistics: (result, mean, 1 / sqrt(var + eps)); only the result is differentiable.

    - `input` (Tensor): (..., *normalized_shape)
    - `normalized_shape` (sequence of ints): the last dimensions of `input`
    - `weight`, `bias` (Tensor or None): in the shape `normalized_shape`
    - `eps` (float): keeps the root away from 0

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> y, mean, scale = ferro.native_layer_norm(ferro.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
        >>> y, mean, scale
        (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    n = len(tuple(normalized_shape))
    _, *found = backend.xp_of(input._data).layer_norm(input._data, None, None, n, eps)
    mean, rstd = found
    lead = (*input._data.shape[: input._data.ndim - n], *[1] * n)
    return out, wrap(mean.reshape(lead)), wrap(rstd.reshape(lead))


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
    out = _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps, found)
    mean, var = found
    if not training:
        return out, wrap(np.zeros(0, mean.dtype)), wrap(np.zeros(0, mean.dtype))
    return out, wrap(mean.copy()), wrap(1 / np.sqrt(var + eps))  # (backward reads the mean itself)
