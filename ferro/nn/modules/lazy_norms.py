"""Normalisation layers that take the number of features from their first input."""

from __future__ import annotations

from ferro.tensor import Tensor

from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .lazy_layers import _lazily, _LazyLayer


class _LazyNorm(_LazyLayer):
    """What lazy normalisations share: num_features comes from the second dimension of the first input."""

    _inputs = "num_features"

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C) or (N, C, L), the result the same. Until the first call the parameters and running
    statistics have no shape; then the layer becomes a BatchNorm1d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyBatchNorm1d()
        >>> layer(ferro.zeros(8, 3)).shape
        ferro.Size([8, 3])
        >>> layer.num_features
        3
    """

    cls_to_become = BatchNorm1d
    __init__ = _lazily(BatchNorm1d)


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, H, W), the result the same. Until the first call the parameters and running statistics
    have no shape; then the layer becomes a BatchNorm2d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyBatchNorm2d()
        >>> layer(ferro.zeros(8, 3, 4, 4)).shape
        ferro.Size([8, 3, 4, 4])
        >>> layer.num_features
        3
    """

    cls_to_become = BatchNorm2d
    __init__ = _lazily(BatchNorm2d)


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics, new = (1 - momentum) old +
      momentum batch; None averages all batches evenly
    - `affine` (bool, default True): False has no weight (it starts as ones) and no bias (zeros)
    - `track_running_stats` (bool, default True): False keeps no running statistics and always uses those of the batch
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, D, H, W), the result the same. Until the first call the parameters and running
    statistics have no shape; then the layer becomes a BatchNorm3d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyBatchNorm3d()
        >>> layer(ferro.zeros(8, 3, 2, 4, 4)).shape
        ferro.Size([8, 3, 2, 4, 4])
        >>> layer.num_features
        3
    """

    cls_to_become = BatchNorm3d
    __init__ = _lazily(BatchNorm3d)


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """InstanceNorm1d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default True): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default True): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, L) or (C, L), the result the same. Until the first call the parameters have no shape;
    then the layer becomes an InstanceNorm1d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyInstanceNorm1d()
        >>> layer(ferro.zeros(8, 3, 10)).shape
        ferro.Size([8, 3, 10])
        >>> layer.num_features
        3
    """

    cls_to_become = InstanceNorm1d
    __init__ = _lazily(BatchNorm1d)  # PyTorch's defaults, which are not InstanceNorm's


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """InstanceNorm2d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default True): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default True): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, H, W) or (C, H, W), the result the same. Until the first call the parameters have no
    shape; then the layer becomes an InstanceNorm2d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyInstanceNorm2d()
        >>> layer(ferro.zeros(8, 3, 4, 4)).shape
        ferro.Size([8, 3, 4, 4])
        >>> layer.num_features
        3
    """

    cls_to_become = InstanceNorm2d
    __init__ = _lazily(BatchNorm2d)  # PyTorch's defaults, which are not InstanceNorm's


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """InstanceNorm3d that takes num_features from the first input.

    - `eps` (float, default 1e-5): added to the variance, so that nothing is divided by 0
    - `momentum` (float, default 0.1): the share of a batch in the running statistics
    - `affine` (bool, default True): True has a weight (it starts as ones) and a bias (zeros) for each channel
    - `track_running_stats` (bool, default True): True keeps running statistics and uses them after `eval()`
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `bias` (bool, default True): False has no bias

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result the same. Until the first call the parameters have
    no shape; then the layer becomes an InstanceNorm3d. ValueError for an input of other dimensions.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyInstanceNorm3d()
        >>> layer(ferro.zeros(8, 3, 2, 4, 4)).shape
        ferro.Size([8, 3, 2, 4, 4])
        >>> layer.num_features
        3
    """

    cls_to_become = InstanceNorm3d
    __init__ = _lazily(BatchNorm3d)  # PyTorch's defaults, which are not InstanceNorm's
