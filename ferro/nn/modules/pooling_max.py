"""Pooling by maxima, and its inverse."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module
from .utils import _ntuple


class _MaxPoolNd(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def _windows(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel_size,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "ceil_mode": self.ceil_mode,
            "return_indices": self.return_indices,
        }


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of sequences.

    - `kernel_size` (int): the size of the windows
    - `stride` (int, default None): how far apart they are; None is kernel_size
    - `padding` (int, default 0): elements of -inf added on each side, at most half the window
    - `dilation` (int, default 1): how far apart the elements of a window are
    - `return_indices` (bool, default False): True returns (maxima, their positions), for MaxUnpool1d
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = (L + 2 padding - dilation
    (kernel_size - 1) - 1) / stride + 1, rounded down (up with ceil_mode). RuntimeError where nothing would be left, or
    the padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.MaxPool1d(2)(ferro.arange(6.0).reshape(1, 1, 6))
        tensor([[[1., 3., 5.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, **self._windows())


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of images.

    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default None): how far apart they are; None is kernel_size
    - `padding` (int or pair, default 0): rows and columns of -inf added on each side, at most half the window
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `return_indices` (bool, default False): True returns (maxima, their positions), for MaxUnpool2d
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with H' = (H + 2 padding -
    dilation (kernel_size - 1) - 1) / stride + 1, rounded down (up with ceil_mode), W' likewise. RuntimeError where
    nothing would be left, or the padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.MaxPool2d(2)(ferro.arange(16.0).reshape(1, 4, 4))
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, **self._windows())


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of volumes.

    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default None): how far apart they are; None is kernel_size
    - `padding` (int or triple, default 0): layers, rows and columns of -inf added on each side, at most half the window
    - `dilation` (int or triple, default 1): how far apart the elements of a window are
    - `return_indices` (bool, default False): True returns (maxima, their positions), for MaxUnpool3d
    - `ceil_mode` (bool, default False): True lets windows reach beyond the end, so that nothing at the edge is left out

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with D' = (D + 2
    padding - dilation (kernel_size - 1) - 1) / stride + 1, rounded down (up with ceil_mode), H' and W' likewise.
    RuntimeError where nothing would be left, or the padding is larger than half the window.

    Example::

        >>> import ferro
        >>> ferro.nn.MaxPool3d(2)(ferro.arange(32.0).reshape(1, 2, 4, 4))
        tensor([[[[21., 23.],
                  [29., 31.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, **self._windows())


class _AdaptiveMaxPoolNd(Module):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of windows that cover sequences evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int): the size of the result
    - `return_indices` (bool, default False): True returns (maxima, their positions)

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, *output_size), or without N. RuntimeError for other
    dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveMaxPool1d(5)(ferro.zeros(1, 64, 10)).shape
        ferro.Size([1, 64, 5])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of windows that cover images evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int or pair): the size of the result; None keeps that of the input
    - `return_indices` (bool, default False): True returns (maxima, their positions)

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, *output_size), or without N. RuntimeError for
    other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveMaxPool2d((5, None))(ferro.zeros(1, 64, 10, 9)).shape
        ferro.Size([1, 64, 5, 9])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of windows that cover volumes evenly, so that the result has `output_size`, whatever the size of the
    input.

    - `output_size` (int or triple): the size of the result; None keeps that of the input
    - `return_indices` (bool, default False): True returns (maxima, their positions)

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, *output_size), or without N. RuntimeError
    for other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.AdaptiveMaxPool3d((2, None, 3))(ferro.zeros(1, 64, 4, 10, 9)).shape
        ferro.Size([1, 64, 2, 10, 3])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _MaxUnpoolNd(Module):
    n_dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        spread = _ntuple(self.n_dims, "spread")
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride if stride is not None else kernel_size)
        self.padding = spread(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the maxima of MaxPool1d back in their places, between zeros.

    - `kernel_size` (int): the size of the windows of the pooling
    - `stride` (int, default None): how far apart they were; None is kernel_size
    - `padding` (int, default 0): the padding of the pooling

    Called as `unpool(maxima, indices, output_size=None)`. Shapes: the maxima and their positions are (N, C, L) or (C,
    L), the result (N, C, L'), or without N, with L' = (L - 1) stride - 2 padding + kernel_size, or the sizes of
    output_size. ValueError for an output_size that cannot be, RuntimeError for positions outside of the result.

    Example::

        >>> import ferro
        >>> pool, unpool = ferro.nn.MaxPool1d(2, return_indices=True), ferro.nn.MaxUnpool1d(2)
        >>> unpool(*pool(ferro.arange(1.0, 5.0).reshape(1, 4)))
        tensor([[0., 2., 0., 4.]])
    """

    n_dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the maxima of MaxPool2d back in their places, between zeros.

    - `kernel_size` (int or pair): the size of the windows of the pooling
    - `stride` (int or pair, default None): how far apart they were; None is kernel_size
    - `padding` (int or pair, default 0): the padding of the pooling

    Called as `unpool(maxima, indices, output_size=None)`. Shapes: the maxima and their positions are (N, C, H, W) or
    (C, H, W), the result (N, C, H', W'), or without N, with H' = (H - 1) stride - 2 padding + kernel_size, W' likewise,
    or the sizes of output_size. ValueError for an output_size that cannot be, RuntimeError for positions outside of the
    result.

    Example::

        >>> import ferro
        >>> pool, unpool = ferro.nn.MaxPool2d(2, return_indices=True), ferro.nn.MaxUnpool2d(2)
        >>> unpool(*pool(ferro.arange(1.0, 9.0).reshape(1, 2, 4)))
        tensor([[[0., 0., 0., 0.],
                 [0., 6., 0., 8.]]])
    """

    n_dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the maxima of MaxPool3d back in their places, between zeros.

    - `kernel_size` (int or triple): the size of the windows of the pooling
    - `stride` (int or triple, default None): how far apart they were; None is kernel_size
    - `padding` (int or triple, default 0): the padding of the pooling

    Called as `unpool(maxima, indices, output_size=None)`. Shapes: the maxima and their positions are (N, C, D, H, W) or
    (C, D, H, W), the result (N, C, D', H', W'), or without N, with D' = (D - 1) stride - 2 padding + kernel_size, H'
    and W' likewise, or the sizes of output_size. ValueError for an output_size that cannot be, RuntimeError for
    positions outside of the result.

    Example::

        >>> import ferro
        >>> pool, unpool = ferro.nn.MaxPool3d(2, return_indices=True), ferro.nn.MaxUnpool3d(2)
        >>> unpool(*pool(ferro.arange(1.0, 9.0).reshape(1, 2, 2, 2))).flatten()
        tensor([0., 0., 0., 0., 0., 0., 0., 8.])
    """

    n_dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _FractionalMaxPoolNd(Module):
    """What the layers of `dims` dimensions share."""

    dims: int
    kernel_size: Any
    return_indices: bool
    output_size: Any
    output_ratio: Any
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        several = _ntuple(self.dims, "several")
        name = type(self).__name__
        self.kernel_size = several(kernel_size)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"{name}: kernel_size must be greater than 0, but got {kernel_size}")
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"{name}: only one of output_size and output_ratio may be specified")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else several(output_size)
        self.output_ratio = None if output_ratio is None else several(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")

    def _windows(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel_size,
            "output_size": self.output_size,
            "output_ratio": self.output_ratio,
            "return_indices": self.return_indices,
            "_random_samples": self._random_samples,
        }


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows at random places, for a pooling that makes images smaller by a factor that is no integer.

    - `kernel_size` (int or pair): the size of the windows
    - `output_size` (int or pair, default None): the size of the result
    - `output_ratio` (float or pair, default None): the size of the result as a share of the input's, between 0 and 1
    - `return_indices` (bool, default False): True returns (maxima, their positions), for MaxUnpool2d

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N. ValueError unless exactly
    one of output_size and output_ratio is given, or for a ratio that is not between 0 and 1. Source: Graham, Fractional
    Max-Pooling, 2015.

    Example::

        >>> import ferro
        >>> ferro.nn.FractionalMaxPool2d(2, output_ratio=0.6)(ferro.zeros(1, 3, 10, 10)).shape
        ferro.Size([1, 3, 6, 6])
    """

    dims = 2

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(input, **self._windows())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows at random places, for a pooling that makes volumes smaller by a factor that is no integer.

    - `kernel_size` (int or triple): the size of the windows
    - `output_size` (int or triple, default None): the size of the result
    - `output_ratio` (float or triple, default None): the size of the result as a share of the input's, between 0 and 1
    - `return_indices` (bool, default False): True returns (maxima, their positions), for MaxUnpool3d

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N. ValueError unless
    exactly one of output_size and output_ratio is given, or for a ratio that is not between 0 and 1. Source: Graham,
    Fractional Max-Pooling, 2015.

    Example::

        >>> import ferro
        >>> ferro.nn.FractionalMaxPool3d(2, output_ratio=0.6)(ferro.zeros(1, 3, 5, 10, 10)).shape
        ferro.Size([1, 3, 3, 6, 6])
    """

    dims = 3

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(input, **self._windows())
