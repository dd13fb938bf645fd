"""Convolution layers of 1, 2 and 3 dimensions; their transposes stand in conv_transpose.py."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .conv_base import _ConvNd
from .conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _ConvTransposeNd  # noqa: F401 (where PyTorch has them)
from .utils import _pair, _single, _triple


class Conv1d(_ConvNd):
    """Cross-correlation of sequences with learned windows.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int): the size of the windows
    - `stride` (int, default 1): how far apart the windows are
    - `padding` (int or str, default 0): elements added on each side, 'valid' (none), or 'same' (the result is as large
      as the input; stride 1 only)
    - `dilation` (int, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own; in_channels
      makes it depthwise
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, L), the result (N, out_channels, L'), with L' = (L + 2 padding - dilation
    (kernel_size - 1) - 1) // stride + 1; N may be left out. `weight` is (out_channels, in_channels / groups,
    *kernel_size), `bias` (out_channels,); both start uniform on (-k, k), k = 1 / sqrt(in_channels / groups * size of
    the window). ValueError if the channels cannot be divided into the groups; RuntimeError if the input has other
    channels or is smaller than the window.

    Example::

        >>> import ferro
        >>> ferro.nn.Conv1d(16, 33, kernel_size=5, padding=2)(ferro.zeros(20, 16, 50)).shape
        ferro.Size([20, 33, 50])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        padding = padding if isinstance(padding, str) else _single(padding)
        sizes = _single(kernel_size), _single(stride), padding, _single(dilation)
        super().__init__(
            in_channels, out_channels, *sizes, False, _single(0), groups, bias, padding_mode, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        weight, bias = self._weight_and_bias()
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_ConvNd):
    """Cross-correlation of images with learned windows.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default 1): how far apart the windows are
    - `padding` (int or pair or str, default 0): rows and columns added on each side, 'valid' (none), or 'same' (the
      result is as large as the input; stride 1 only)
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own; in_channels
      makes it depthwise
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, H, W), the result (N, out_channels, H', W'), with H' = (H + 2 padding -
    dilation (kernel_size - 1) - 1) // stride + 1, W' likewise; N may be left out. `weight` is (out_channels,
    in_channels / groups, *kernel_size), `bias` (out_channels,); both start uniform on (-k, k), k = 1 / sqrt(in_channels
    / groups * size of the window). ValueError if the channels cannot be divided into the groups; RuntimeError if the
    input has other channels or is smaller than the window.

    Example::

        >>> import ferro
        >>> images = ferro.zeros(16, 3, 32, 32)
        >>> ferro.nn.Conv2d(3, 8, kernel_size=3, padding=1)(images).shape
        ferro.Size([16, 8, 32, 32])
        >>> ferro.nn.Conv2d(3, 8, kernel_size=3, stride=2)(images).shape
        ferro.Size([16, 8, 15, 15])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        padding = padding if isinstance(padding, str) else _pair(padding)
        sizes = _pair(kernel_size), _pair(stride), padding, _pair(dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _pair(0), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        weight, bias = self._weight_and_bias()
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_ConvNd):
    """Cross-correlation of volumes with learned windows.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default 1): how far apart the windows are
    - `padding` (int or triple or str, default 0): layers, rows and columns added on each side, 'valid' (none), or
      'same' (the result is as large as the input; stride 1 only)
    - `dilation` (int or triple, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own; in_channels
      makes it depthwise
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, D, H, W), the result (N, out_channels, D', H', W'), with D' = (D + 2 padding -
    dilation (kernel_size - 1) - 1) // stride + 1, H' and W' likewise; N may be left out. `weight` is (out_channels,
    in_channels / groups, *kernel_size), `bias` (out_channels,); both start uniform on (-k, k), k = 1 / sqrt(in_channels
    / groups * size of the window). ValueError if the channels cannot be divided into the groups; RuntimeError if the
    input has other channels or is smaller than the window.

    Example::

        >>> import ferro
        >>> ferro.nn.Conv3d(3, 8, kernel_size=(3, 5, 5), stride=(1, 2, 2))(ferro.zeros(2, 3, 8, 16, 16)).shape
        ferro.Size([2, 8, 6, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        padding = padding if isinstance(padding, str) else _triple(padding)
        sizes = _triple(kernel_size), _triple(stride), padding, _triple(dilation)
        super().__init__(
            in_channels, out_channels, *sizes, False, _triple(0), groups, bias, padding_mode, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        weight, bias = self._weight_and_bias()
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)
