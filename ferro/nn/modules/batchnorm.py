"""Batch normalisation layers, and what they share with instance normalisation: statistics and affine parameters."""

from __future__ import annotations

from typing import Any

from ferro.core import dtypes
from ferro.ops.creation import zeros
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class _NormBase(Module):
    """Running statistics and affine parameters of a normalisation over channels."""

    _version = 2  # version 1 did not count its batches

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        wanted = {"weight": affine, "bias": affine and bias}
        for name, shape in self._shapes().items():
            if name in wanted:
                self.register_parameter(
                    name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted[name] else None
                )
            else:
                self.register_buffer(name, empty(shape, device=device, dtype=dtype) if track_running_stats else None)
        count = zeros((), dtype=dtypes.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean 0, variance 1, no batch seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics and make the affine part the identity."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say which inputs it takes")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + "num_batches_tracked"
        if local_metadata.get("version", 1) < 2 and self.num_batches_tracked is not None and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        report = strict, missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *report)


class _BatchNorm(_NormBase):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, the statistics taken over all dimensions but the channels.

    Training uses the statistics of the batch (biased variance) and moves the running ones towards them (unbiased
    variance) by `momentum`, or keeps their plain average if it is None; evaluation uses the running ones.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        mean, var = self.running_mean, self.running_var
        training = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        elif self.training:
            count = self.num_batches_tracked
            if count is not None:
                count.add_(1)
                if self.momentum is None:
                    factor = 1.0 / float(count)
        weight, bias = self._weight_and_bias()
        return F.batch_norm(input, mean, var, weight, bias, training, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises each channel of a batch of rows or sequences to mean 0 and variance 1, then scales and shifts it.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and variance are those of the batch, over N and
    L; they also move `running_mean` and `running_var`. After `eval()` they are the running ones.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C) or (N, C, L), the result the same; `weight`, `bias` and the running statistics are (C,).
    ValueError for other dimensions, or, in training, only one value for each channel. Source: Ioffe and Szegedy, Batch
    Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.

    Example::

        >>> import ferro
        >>> norm = ferro.nn.BatchNorm1d(2)
        >>> norm(ferro.tensor([[1.0, 10.0], [3.0, 30.0]])).detach().round(decimals=2)
        tensor([[-1., -1.],
                [ 1.,  1.]])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of a batch of images to mean 0 and variance 1, then scales and shifts it.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and variance are those of the batch, over N, H
    and W; they also move `running_mean` and `running_var`. After `eval()` they are the running ones.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, H, W), the result the same; `weight`, `bias` and the running statistics are (C,).
    ValueError for other dimensions, or, in training, only one value for each channel. Source: Ioffe and Szegedy, Batch
    Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.

    Example::

        >>> import ferro
        >>> norm = ferro.nn.BatchNorm2d(3)
        >>> y = norm(5 + 2 * ferro.arange(96.0).reshape(2, 3, 4, 4))
        >>> y.mean(dim=(0, 2, 3)).abs().max() < 1e-5
        tensor(True)
        >>> norm.num_batches_tracked
        tensor(1)
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of a batch of volumes to mean 0 and variance 1, then scales and shifts it.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and variance are those of the batch, over N, D,
    H and W; they also move `running_mean` and `running_var`. After `eval()` they are the running ones.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, D, H, W), the result the same; `weight`, `bias` and the running statistics are (C,).
    ValueError for other dimensions, or, in training, only one value for each channel. Source: Ioffe and Szegedy, Batch
    Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift, 2015.

    Example::

        >>> import ferro
        >>> norm = ferro.nn.BatchNorm3d(3)
        >>> norm(ferro.zeros(2, 3, 4, 5, 6)).shape
        ferro.Size([2, 3, 4, 5, 6])
        >>> norm.running_mean.shape
        ferro.Size([3])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with statistics of all processes in distributed training.

    - `num_features` (int): C
    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `process_group` (default None): kept, not used
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    There is one process here, so it computes what BatchNorm of the same dimension does. Shapes: the input is (N, C,
    ...), the result the same; ValueError for fewer than 2 dimensions.

    Example::

        >>> import ferro
        >>> model = ferro.nn.Sequential(ferro.nn.Conv2d(3, 8, 1), ferro.nn.BatchNorm2d(8))
        >>> type(ferro.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
        'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every BatchNorm in it, or itself, replaced by a SyncBatchNorm with the same tensors.

        >>> import ferro
        >>> ferro.nn.SyncBatchNorm.convert_sync_batchnorm(ferro.nn.Sequential(ferro.nn.BatchNorm1d(2)))[0].num_features
        2
        """
        converted = module
        if isinstance(module, _BatchNorm):
            options = module.eps, module.momentum, module.affine, module.track_running_stats
            converted = cls(module.num_features, *options, process_group)
            converted.weight, converted.bias = module.weight, module.bias
            converted.running_mean, converted.running_var = module.running_mean, module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
