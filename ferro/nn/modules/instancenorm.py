"""Instance normalisation layers."""

from __future__ import annotations

import warnings
from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .batchnorm import _NormBase


class _InstanceNorm(_NormBase):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, with the statistics of each channel of each sample."""

    n_dims: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        unbatched = self._get_no_batch_dim()
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)")

    def _get_no_batch_dim(self) -> int:
        return self.n_dims + 1

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channel_dim = input.dim() - self.n_dims - 1
        channels = input.shape[channel_dim]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features ({self.num_features}), but got: "
                    f"{channels}."
                )
            warnings.warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence this warning by not "
                f"passing in num_features, which is not used because affine=False ({channels} channels against "
                f"num_features={self.num_features})",
                stacklevel=2,
            )
        if channel_dim == 0:
            return self._normalise(input.unsqueeze(0)).squeeze(0)
        return self._normalise(input)

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of sequences to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance over L, in training and evaluation alike.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default False): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default False): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, L) or (C, L), the result the same. ValueError for other dimensions, a C that is not
    num_features (with affine), or only one value for each channel. Source: Ulyanov, Vedaldi and Lempitsky, Instance
    Normalization: The Missing Ingredient for Fast Stylization, 2016.

    Example::

        >>> import ferro
        >>> norm = ferro.nn.InstanceNorm1d(2)
        >>> norm(ferro.tensor([[[1.0, 3.0], [10.0, 30.0]]])).round(decimals=2)
        tensor([[[-1.,  1.],
                 [-1.,  1.]]])
    """

    n_dims = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of images to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance over H and W, in training and evaluation
    alike.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default False): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default False): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, H, W) or (C, H, W), the result the same. ValueError for other dimensions, a C that is
    not num_features (with affine), or only one value for each channel. Source: Ulyanov, Vedaldi and Lempitsky, Instance
    Normalization: The Missing Ingredient for Fast Stylization, 2016.

    Example::

        >>> import ferro
        >>> ferro.nn.InstanceNorm2d(3)(ferro.zeros(8, 3, 4, 4)).shape
        ferro.Size([8, 3, 4, 4])
    """

    n_dims = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of volumes to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance over D, H and W, in training and evaluation
    alike.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default False): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default False): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result the same. ValueError for other dimensions, a C that
    is not num_features (with affine), or only one value for each channel. Source: Ulyanov, Vedaldi and Lempitsky,
    Instance Normalization: The Missing Ingredient for Fast Stylization, 2016.

    Example::

        >>> import ferro
        >>> ferro.nn.InstanceNorm3d(3)(ferro.zeros(8, 3, 2, 4, 4)).shape
        ferro.Size([8, 3, 2, 4, 4])
    """

    n_dims = 3
