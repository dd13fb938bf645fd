"""Pooling by means and by p-norms."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module
from .utils import _single


class _AvgPoolNd(Module):
    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of sequences.

    - `kernel_size` (int): the size of the windows
    - `stride` (int, default None): how far apart they are; None is kernel_size
    - `padding` (int, default 0): elements of zeros added on each side, at most half the window
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out
    - `count_include_pad` (bool, default True): False leaves the padding out of the mean

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = (L + 2 padding -
    kernel_size) / stride + 1, rounded down (up with ceil_mode). RuntimeError where nothing would be left, or the
    padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.AvgPool1d(2)(ferro.arange(6.0).reshape(1, 1, 6))
        tensor([[[0.5000, 2.5000, 4.5000]]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    divisor_override: int | None

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> tuple[Any, ...]:
        windows = self.kernel_size, self.stride, self.padding
        return *windows, self.ceil_mode, self.count_include_pad, self.divisor_override


class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of each window of images.

    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default None): how far apart they are; None is kernel_size
    - `padding` (int or pair, default 0): rows and columns of zeros added on each side, at most half the window
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out
    - `count_include_pad` (bool, default True): False leaves the padding out of the mean
    - `divisor_override` (int, default None): divides the sums by this number instead of the size of the window

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with H' = (H + 2 padding -
    kernel_size) / stride + 1, rounded down (up with ceil_mode), W' likewise. RuntimeError where nothing would be left,
    or the padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.AvgPool2d(2)(ferro.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of each window of volumes.

    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default None): how far apart they are; None is kernel_size
    - `padding` (int or triple, default 0): layers, rows and columns of zeros added on each side, at most half the
      window
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out
    - `count_include_pad` (bool, default True): False leaves the padding out of the mean
    - `divisor_override` (int, default None): divides the sums by this number instead of the size of the window

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with D' = (D + 2
    padding - kernel_size) / stride + 1, rounded down (up with ceil_mode), H' and W' likewise. RuntimeError where
    nothing would be left, or the padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.AvgPool3d(2)(ferro.arange(32.0).reshape(1, 2, 4, 4))
        tensor([[[[10.5000, 12.5000],
                  [18.5000, 20.5000]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class _AdaptiveAvgPoolNd(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of windows that cover sequences evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int): the size of the result

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, *output_size), or without N. RuntimeError for other
    dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveAvgPool1d(5)(ferro.zeros(1, 64, 10)).shape
        ferro.Size([1, 64, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of windows that cover images evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int or pair): the size of the result; None keeps that of the input

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, *output_size), or without N. RuntimeError for
    other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveAvgPool2d((5, None))(ferro.zeros(1, 64, 10, 9)).shape
        ferro.Size([1, 64, 5, 9])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of windows that cover volumes evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int or triple): the size of the result; None keeps that of the input

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, *output_size), or without N. RuntimeError
    for other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveAvgPool3d((2, None, 3))(ferro.zeros(1, 64, 4, 10, 9)).shape
        ferro.Size([1, 64, 2, 10, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _LPPoolNd(Module):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of sequences: (sum of x^p)^(1/p).

    - `norm_type` (float): p; 1 gives sums, and larger numbers come closer to the maximum
    - `kernel_size` (int): the size of the windows
    - `stride` (int, default None): how far apart they are; None is kernel_size
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = (L - kernel_size) / stride
    + 1, rounded down (up with ceil_mode). Where all of a window is 0 the gradient is 0.

    Example::

        >>> import ferro
        >>> ferro.nn.LPPool1d(2.0, 2)(ferro.tensor([3.0, 4.0]).reshape(1, 1, 2))
        tensor([[[5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of images: (sum of x^p)^(1/p).

    - `norm_type` (float): p; 1 gives sums, and larger numbers come closer to the maximum
    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default None): how far apart they are; None is kernel_size
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with H' = (H - kernel_size)
    / stride + 1, rounded down (up with ceil_mode), W' likewise. Where all of a window is 0 the gradient is 0.

    Example::

        >>> import ferro
        >>> ferro.nn.LPPool2d(2.0, (1, 2))(ferro.tensor([3.0, 4.0]).reshape(1, 1, 1, 2))
        tensor([[[[5.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of volumes: (sum of x^p)^(1/p).

    - `norm_type` (float): p; 1 gives sums, and larger numbers come closer to the maximum
    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default None): how far apart they are; None is kernel_size
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with D' = (D -
    kernel_size) / stride + 1, rounded down (up with ceil_mode), H' and W' likewise. Where all of a window is 0 the
    gradient is 0.

    Example::

        >>> import ferro
        >>> ferro.nn.LPPool3d(2.0, (1, 1, 2))(ferro.tensor([3.0, 4.0]).reshape(1, 1, 1, 1, 2))
        tensor([[[[[5.]]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
