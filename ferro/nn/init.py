"""Initialisation: filling a tensor in place with constants, random numbers or structure."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.ops.comparison import where
from ferro.ops.creation import empty, empty_like
from ferro.ops.creation import eye as identity
from ferro.ops.data import from_numpy
from ferro.ops.random import randperm
from ferro.tensor import Tensor

_LINEAR_LIKE = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which the standard deviation of weights should grow to make up for a nonlinearity.

    linear, convolutions, sigmoid: 1; tanh: 5/3; relu: sqrt 2; leaky_relu with slope a: sqrt(2 / (1 + a^2)); selu: 3/4.
    """
    if nonlinearity in _LINEAR_LIKE or nonlinearity == "sigmoid":
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        slope: Any = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    allowed = [*_LINEAR_LIKE, "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
    raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity!r}; allowed: {allowed}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed one output of the weight, and how many outputs one input feeds."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, "
            f"got shape {tuple(tensor.shape)}"
        )
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive_field, tensor.shape[0] * receptive_field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


# -------------------------------------------------------------------- constants and plain distributions


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers uniform on [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers of the given mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


# PyTorch's private names for the two, which libraries import.
_no_grad_uniform_, _no_grad_normal_ = uniform_, normal_


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with normal numbers conditioned to lie in [a, b], by rejection: of normal numbers, or of uniform ones where few of
    those would be kept.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    below_b, below_a = [math.erf((bound - mean) / std / math.sqrt(2.0)) / 2 for bound in (b, a)]
    draw = _normal_within if below_b - below_a > 0.3 else _uniform_within
    with no_grad():
        return draw(tensor, mean, std, a, b, generator)


def _normal_within(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Normal numbers; those outside of [a, b] are replaced by others."""
    low, high = [tensor.new_tensor(bound).item() for bound in (a, b)]
    values = tensor.normal_(mean, std, generator=generator)
    while bool((outside := (values < low) | (values > high)).any()):
        values = where(outside, empty_like(values).normal_(mean, std, generator=generator), values)
    return tensor if values is tensor else tensor.copy_(values)


def _uniform_within(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Uniform numbers of [a, b), each kept with a probability in proportion to the density."""
    highest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(values: Tensor) -> Tensor:
        height = values.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        return empty_like(values).uniform_(generator=generator).log_() > height

    values = tensor.uniform_(a, b, generator=generator)
    pending = refused(values)
    while bool(pending.any()):
        others = empty_like(values).uniform_(a, b, generator=generator)
        values = where(pending, others, values)
        pending = pending & refused(others)
    return tensor if values is tensor else tensor.copy_(values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.Linear(2, 2)
        >>> _ = ferro.nn.init.zeros_(layer.bias)
        >>> layer.bias.tolist()
        [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


# -------------------------------------------------------------------- structure


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    with no_grad():
        return tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution weight so that it passes as many of its input channels through unchanged as it can."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"Only tensors with 3, 4, or 5 dimensions are supported, got shape {tuple(tensor.shape)}")
    out_channels, in_channels = tensor.shape[:2]
    if out_channels % groups != 0:
        raise ValueError(f"dim 0 must be divisible by groups, got {out_channels} and groups={groups}")
    per_group = out_channels // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, in_channels)):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix, all dimensions but the first taken as one.

    The Q of the QR decomposition of a normal matrix, its columns signed so that R has a positive diagonal: this makes
    it uniform (Mezzadri, "How to generate random matrices from the classical compact groups", 2007).
    """
    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got shape {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    wide = rows < columns
    with no_grad():
        normal = empty(rows, columns, dtype=tensor.dtype).normal_(0, 1, generator=generator)
        square = (normal.t() if wide else normal).to(dtypes.float64).numpy()
        q, r = np.linalg.qr(square)
        q = q * np.sign(np.diagonal(r))
        if wide:
            q = q.T
        flat = from_numpy(np.ascontiguousarray(q)) * gain
        return tensor.copy_(flat.reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, then zero the fraction `sparsity` of each column at random rows."""
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


# -------------------------------------------------------------------- scaled by fan


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform on (-a, a), a = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    Example::

        >>> import ferro
        >>> weight = ferro.nn.init.xavier_uniform_(ferro.empty(3, 5))
        >>> bool(weight.abs().max() <= (6 / 8) ** 0.5)
        True
    """
    std = _xavier_std(tensor, gain)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform on (-b, b), b = gain sqrt(3 / fan) (He et al., 2015); `a` is the slope of the leaky_relu that follows."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan) (He et al., 2015)."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def _older_name(function: Any) -> Any:
    """The function under its name without the underscore, which PyTorch has deprecated."""
    older, newer = function.__name__[:-1], function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{older}` is now deprecated in favor of `nn.init.{newer}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = older
    call.__doc__ = f"The older name of `{newer}` (FutureWarning)."
    return call


uniform = _older_name(uniform_)
normal = _older_name(normal_)
constant = _older_name(constant_)
eye = _older_name(eye_)
dirac = _older_name(dirac_)
xavier_uniform = _older_name(xavier_uniform_)
xavier_normal = _older_name(xavier_normal_)
kaiming_uniform = _older_name(kaiming_uniform_)
kaiming_normal = _older_name(kaiming_normal_)
orthogonal = _older_name(orthogonal_)
sparse = _older_name(sparse_)
