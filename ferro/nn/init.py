"""Initialisation: filling a tensor in place with constants, random numbers or structure."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.ops.creation import eye as identity
from ferro.ops.exchange import from_numpy
from ferro.ops.random import randperm
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .init_random import normal_, trunc_normal_, uniform_  # noqa: F401 (all three are public here)

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


# PyTorch's private names for the two, which libraries import.
_no_grad_uniform_, _no_grad_normal_ = uniform_, normal_


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor in place with the value `val`, and returns it.

    Example::

        >>> import ferro
        >>> ferro.nn.init.constant_(ferro.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor in place with ones, and returns it.

    Example::

        >>> import ferro
        >>> ferro.nn.init.ones_(ferro.empty(2))
        tensor([1., 1.])
    """
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
    """Fills a matrix in place with the identity, and returns it; ValueError for other dimensions than 2.

    Example::

        >>> import ferro
        >>> ferro.nn.init.eye_(ferro.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    with no_grad():
        return tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills a convolution weight in place so that it passes as many of its input channels through unchanged as it can.

    - `tensor` (Tensor): (out_channels, in_channels, ...) with 3 to 5 dimensions, else ValueError
    - `groups` (int, default 1): of the convolution; ValueError if it does not divide out_channels

    Example::

        >>> import ferro
        >>> w = ferro.nn.init.dirac_(ferro.empty(1, 1, 3))
        >>> ferro.nn.functional.conv1d(ferro.tensor([[1.0, 2.0, 3.0]]), w, padding=1)
        tensor([[1., 2., 3.]])
    """
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
    """Fills a tensor in place with a (semi-)orthogonal matrix, all dimensions but the first taken as one; returns it.

    - `tensor` (Tensor): at least 2 dimensions, else ValueError
    - `gain` (float, default 1): a factor
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The Q of the QR decomposition of a normal matrix, its columns signed so that R has a positive diagonal: this makes
    it uniform. Sources: Saxe, McClelland and Ganguli, Exact Solutions to the Nonlinear Dynamics of Learning in Deep
    Linear Neural Networks, 2014; Mezzadri, How to Generate Random Matrices from the Classical Compact Groups, 2007.

    Example::

        >>> import ferro
        >>> w = ferro.nn.init.orthogonal_(ferro.empty(3, 5))
        >>> ferro.allclose(w @ w.T, ferro.eye(3), atol=1e-5)
        True
    """
    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got shape {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    wide = rows < columns
    with no_grad():
        normal = empty(rows, columns, dtype=tensor.dtype, device=tensor.device).normal_(0, 1, generator=generator)
        square = (normal.t() if wide else normal).to(dtypes.float64).numpy()
        q, r = np.linalg.qr(square)
        q = q * np.sign(np.diagonal(r))
        if wide:
            q = q.T
        flat = from_numpy(np.ascontiguousarray(q)) * gain
        return tensor.copy_(flat.reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a matrix in place with normal numbers, then zeroes a fraction of each column at random rows; returns it.

    - `tensor` (Tensor): 2 dimensions, else ValueError
    - `sparsity` (float): the fraction
    - `std` (float, default 0.01): the standard deviation of the others
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Source: Martens, Deep Learning via Hessian-free Optimization, 2010.

    Example::

        >>> import ferro
        >>> w = ferro.nn.init.sparse_(ferro.empty(10, 4), sparsity=0.3)
        >>> (w == 0).sum(dim=0)
        tensor([3, 3, 3, 3])
    """
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, generator=generator, device=tensor.device)[:zeros], column] = 0
    return tensor


# -------------------------------------------------------------------- scaled by fan


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor in place with numbers uniform on (-a, a), a = gain sqrt(6 / (fan_in + fan_out)), and returns it.

    - `tensor` (Tensor): a weight (out, in, ...), at least 2 dimensions, else ValueError
    - `gain` (float, default 1.0): a factor, from `calculate_gain`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Source: Glorot and Bengio, Understanding the Difficulty of Training Deep Feedforward Neural Networks, 2010.

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
    """Fills a tensor in place with normal numbers of the deviation gain sqrt(2 / (fan_in + fan_out)), and returns it.

    - `tensor` (Tensor): a weight (out, in, ...), at least 2 dimensions, else ValueError
    - `gain` (float, default 1.0): a factor, from `calculate_gain`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Source: Glorot and Bengio, Understanding the Difficulty of Training Deep Feedforward Neural Networks, 2010.

    Example::

        >>> import ferro
        >>> ferro.nn.init.xavier_normal_(ferro.empty(3, 5)).shape
        ferro.Size([3, 5])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fills a tensor in place with numbers uniform on (-b, b), b = gain sqrt(3 / fan), and returns it.

    - `tensor` (Tensor): a weight (out, in, ...), at least 2 dimensions, else ValueError
    - `a` (float, default 0): the slope of the leaky_relu that follows
    - `mode` (str, default 'fan_in'): fan is the number of inputs of an output ("fan_in", keeps the size of results) or
      of outputs of an input ("fan_out", keeps the size of gradients), else ValueError
    - `nonlinearity` (str, default 'leaky_relu'): of the layer, for `calculate_gain`; 'relu' for ReLU
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Source: He, Zhang, Ren and Sun, Delving Deep into Rectifiers, 2015.

    Example::

        >>> import ferro
        >>> weight = ferro.nn.init.kaiming_uniform_(ferro.empty(3, 6), nonlinearity="relu")
        >>> bool(weight.abs().max() <= 1)
        True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fills a tensor in place with normal numbers of the deviation gain / sqrt(fan), and returns it.

    - `tensor` (Tensor): a weight (out, in, ...), at least 2 dimensions, else ValueError
    - `a` (float, default 0): the slope of the leaky_relu that follows
    - `mode` (str, default 'fan_in'): fan is the number of inputs of an output ("fan_in", keeps the size of results) or
      of outputs of an input ("fan_out", keeps the size of gradients), else ValueError
    - `nonlinearity` (str, default 'leaky_relu'): of the layer, for `calculate_gain`; 'relu' for ReLU
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Source: He, Zhang, Ren and Sun, Delving Deep into Rectifiers, 2015.

    Example::

        >>> import ferro
        >>> conv = ferro.nn.Conv2d(3, 8, 5)
        >>> ferro.nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu").shape
        ferro.Size([8, 3, 5, 5])
    """
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
