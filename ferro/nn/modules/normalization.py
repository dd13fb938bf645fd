"""Normalisation within one sample: LayerNorm, RMSNorm, GroupNorm, and two over neighbouring channels."""

from __future__ import annotations

from typing import Any

from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class LayerNorm(Module):
    """Normalises the last dimensions of each sample to mean 0 and variance 1, then scales and shifts them.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and evaluation alike.

    - `normalized_shape` (int or sizes): the sizes of the last dimensions, over which mean and variance are taken
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `elementwise_affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `bias` (bool, default True): False has no bias
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, ..., *normalized_shape), the result the same; weight and bias are `normalized_shape`.
    RuntimeError if the input does not end in these sizes. Source: Ba, Kiros and Hinton, Layer Normalization, 2016.

    Example::

        >>> import ferro
        >>> norm = ferro.nn.LayerNorm(4)
        >>> norm(ferro.tensor([[1.0, 1.0, 3.0, 3.0]])).detach().round(decimals=2)
        tensor([[-1., -1.,  1.,  1.]])
    """

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool
    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            param = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the affine part the identity."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self._weight_and_bias()
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(Module):
    """Divides the last dimensions of each sample by their root mean square: y = x / sqrt(mean of x² + eps) * weight.

    - `normalized_shape` (int or sizes): the sizes of the last dimensions, over which the mean is taken
    - `eps` (float, default None): added to the mean; None is the rounding unit of x's dtype, `finfo(dtype).eps`
    - `elementwise_affine` (bool, default True): False has no weight (it starts as ones)
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, ..., *normalized_shape), the result the same. RuntimeError if the input does not end in
    these sizes. Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    Example::

        >>> import ferro
        >>> ferro.nn.RMSNorm(2)(ferro.tensor([[7.0, 1.0]])).detach().round(decimals=2)
        tensor([[1.4000, 0.2000]])
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool
    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the weight one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises groups of channels of each sample to mean 0 and variance 1, then scales and shifts each channel.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and evaluation alike.

    - `num_groups` (int): the channels are divided into so many groups; ValueError if that leaves a rest
    - `num_channels` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, ...), the result the same; weight and bias are (C,). Source: Wu and He, Group
    Normalization, 2018.

    Example::

        >>> import ferro
        >>> ferro.nn.GroupNorm(3, 6)(ferro.zeros(20, 6, 10, 10)).shape
        ferro.Size([20, 6, 10, 10])
    """

    num_groups: int
    num_channels: int
    eps: float
    affine: bool
    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            param = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the affine part the identity."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LocalResponseNorm(Module):
    """y = x / (k + alpha mean of x² over `size` neighbouring channels)^beta: strong channels weaken their neighbours.

    - `size` (int): how many channels
    - `alpha` (float, default 0.0001): a factor
    - `beta` (float, default 0.75): the exponent
    - `k` (float, default 1.0): keeps the division from 0

    Shapes: the input is (N, C, ...), the result the same. ValueError for fewer than 3 dimensions. Source: Krizhevsky,
    Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.

    Example::

        >>> import ferro
        >>> ferro.nn.LocalResponseNorm(1, alpha=3.0, beta=0.5)(ferro.ones(1, 2, 2))
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """LocalResponseNorm of images, with a window of channels that is symmetric: of even sizes it has one less.

    - `size` (int): how many channels
    - `alpha` (float, default 0.0001): a factor
    - `beta` (float, default 0.75): the exponent
    - `k` (float, default 1): keeps the division from 0

    Shapes: the input is (N, C, H, W), else ValueError; the result the same. Unlike PyTorch's, the windows of far
    channels do not keep the first channel.

    Example::

        >>> import ferro
        >>> ferro.nn.CrossMapLRN2d(1, alpha=3.0, beta=0.5)(ferro.ones(1, 1, 1, 2))
        tensor([[[[0.5000, 0.5000]]]])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        window = 2 * ((self.size - 1) // 2) + 1
        return F.local_response_norm(input, window, self.alpha * window / self.size, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
