"""Transposed convolution layers of 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .conv_base import _ConvNd
from .utils import _ntuple


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share: how `output_size` decides the output padding."""

    n_dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f"Only \"zeros\" padding mode is supported for {type(self).__name__}, got padding_mode='{padding_mode}'"
            )
        spread = _ntuple(self.n_dims, "spread")
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            spread(padding),
            spread(dilation),
            True,
            spread(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that makes the result as large as `output_size`, or the one given to the constructor."""
        if output_size is None:
            return self.output_padding
        n = self.n_dims
        wanted = list(output_size)
        if len(wanted) == input.dim() and input.dim() in (n + 1, n + 2):
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {n} or {input.dim()} "
                f"elements (got {len(wanted)})"
            )
        padding: Any = self.padding  # (never a string here)
        smallest = [
            (input.shape[i - n] - 1) * self.stride[i]
            - 2 * padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        largest = [low + stride - 1 for low, stride in zip(smallest, self.stride, strict=True)]
        if any(not low <= size <= high for size, low, high in zip(wanted, smallest, largest, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {tuple(input.shape[-n:])})"
            )
        return tuple(size - low for size, low in zip(wanted, smallest, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of Conv1d: the gradient of a convolution with respect to its input, as a layer; it makes sequences
    larger.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int): the size of the windows
    - `stride` (int, default 1): how far apart the windows are in the result
    - `padding` (int, default 0): elements cut off on each side of the result
    - `output_padding` (int, default 0): elements added at the end of the result, since a stride leaves its size open;
      less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, L), the result (N, out_channels, L'), with L' = (L - 1) stride - 2 padding +
    dilation (kernel_size - 1) + output_padding + 1; N may be left out. `weight` is (in_channels, out_channels / groups,
    *kernel_size), `bias` (out_channels,). `forward(input, output_size)` finds output_padding from the wanted size.
    ValueError if the channels cannot be divided into the groups, or the wanted size cannot be had. Source: Zeiler,
    Krishnan, Taylor and Fergus, Deconvolutional Networks, 2010.

    Example::

        >>> import ferro
        >>> up = ferro.nn.ConvTranspose1d(16, 8, kernel_size=2, stride=2)
        >>> up(ferro.zeros(1, 16, 12)).shape
        ferro.Size([1, 8, 24])
    """

    n_dims = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of Conv2d: the gradient of a convolution with respect to its input, as a layer; it makes images
    larger.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default 1): how far apart the windows are in the result
    - `padding` (int or pair, default 0): rows and columns cut off on each side of the result
    - `output_padding` (int or pair, default 0): rows and columns added at the end of the result, since a stride leaves
      its size open; less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, H, W), the result (N, out_channels, H', W'), with H' = (H - 1) stride - 2
    padding + dilation (kernel_size - 1) + output_padding + 1, W' likewise; N may be left out. `weight` is (in_channels,
    out_channels / groups, *kernel_size), `bias` (out_channels,). `forward(input, output_size)` finds output_padding
    from the wanted size. ValueError if the channels cannot be divided into the groups, or the wanted size cannot be
    had. Source: Zeiler, Krishnan, Taylor and Fergus, Deconvolutional Networks, 2010.

    Example::

        >>> import ferro
        >>> up = ferro.nn.ConvTranspose2d(16, 8, kernel_size=2, stride=2)
        >>> up(ferro.zeros(1, 16, 12, 12)).shape
        ferro.Size([1, 8, 24, 24])
    """

    n_dims = 2

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of Conv3d: the gradient of a convolution with respect to its input, as a layer; it makes volumes
    larger.

    - `in_channels`, `out_channels` (int): C of the input and of the result
    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default 1): how far apart the windows are in the result
    - `padding` (int or triple, default 0): layers, rows and columns cut off on each side of the result
    - `output_padding` (int or triple, default 0): layers, rows and columns added at the end of the result, since a
      stride leaves its size open; less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int or triple, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, D, H, W), the result (N, out_channels, D', H', W'), with D' = (D - 1) stride -
    2 padding + dilation (kernel_size - 1) + output_padding + 1, H' and W' likewise; N may be left out. `weight` is
    (in_channels, out_channels / groups, *kernel_size), `bias` (out_channels,). `forward(input, output_size)` finds
    output_padding from the wanted size. ValueError if the channels cannot be divided into the groups, or the wanted
    size cannot be had. Source: Zeiler, Krishnan, Taylor and Fergus, Deconvolutional Networks, 2010.

    Example::

        >>> import ferro
        >>> up = ferro.nn.ConvTranspose3d(16, 8, kernel_size=2, stride=2)
        >>> up(ferro.zeros(1, 16, 4, 12, 12)).shape
        ferro.Size([1, 8, 8, 24, 24])
    """

    n_dims = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
