"""Convolution layers of 1, 2 and 3 dimensions, and their transposes."""

from __future__ import annotations

import math
from typing import Any

from ferro.ops.creation import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module
from .utils import _ntuple, _pair, _single, _triple

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: arguments, weights and how they print.

    Weight and bias start uniform on (-k, k), k = 1 / sqrt(fan_in).
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, groups, stride, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _edges(padding, kernel_size, dilation)
        for name, shape in self._shapes().items():
            wanted = bias or name == "weight"
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return {"weight": (first, second // self.groups, *self.kernel_size), "bias": (self.out_channels,)}

    def reset_parameters(self) -> None:
        """Draw weight and bias afresh."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros = (0,) * len(self.kernel_size)
        ones = (1,) * len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != zeros:
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != zeros:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input padded by a mode other than zeros, and the padding that is left for the convolution to do."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0


def _check_arguments(
    in_channels: int, out_channels: int, groups: int, stride: tuple[int, ...], padding: Any, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    if in_channels % groups != 0:
        raise ValueError(f"in_channels must be divisible by groups, got in_channels={in_channels} and groups={groups}")
    if out_channels % groups != 0:
        raise ValueError(
            f"out_channels must be divisible by groups, got out_channels={out_channels} and groups={groups}"
        )
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {list(_PADDING_MODES)}, but got padding_mode='{padding_mode}'")


def _edges(padding: str | tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> list[int]:
    """The padding before and after each dimension as F.pad takes it: last dimension first."""
    edges: list[int] = []
    for i in reversed(range(len(kernel_size))):
        if padding == "valid":
            edges += [0, 0]
        elif padding == "same":
            total = dilation[i] * (kernel_size[i] - 1)
            edges += [total // 2, total - total // 2]
        else:
            edges += [padding[i], padding[i]]  # type: ignore[list-item]
    return edges


class Conv1d(_ConvNd):
    """Cross-correlation of sequences (N, C, L), or of one (C, L), with learned windows; the arguments are those of Conv2d.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> nn.Conv1d(16, 33, kernel_size=5, padding=2)(ferro.zeros(20, 16, 50)).shape
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
    """Cross-correlation of images (N, C, H, W), or of one image (C, H, W), with learned windows.

    - `in_channels`, `out_channels`: C of the input and of the result
    - `kernel_size`: height and width of the windows, a number or a pair
    - `stride`: how far apart the windows are
    - `padding`: rows and columns added on each side, "valid" (none), or "same" (the result is as large as the input; stride 1 only)
    - `dilation`: how far apart the elements of a window are
    - `groups`: channels are divided into so many groups, each with windows of its own; `groups=in_channels` is depthwise
    - `bias`: False adds no number for each channel
    - `padding_mode`: "zeros", "reflect", "replicate" or "circular"

    The result has H' = (H + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1 rows, and columns likewise.  `weight` has
    the shape (out_channels, in_channels / groups, *kernel_size).  Weight and bias start uniform on (-k, k),
    k = 1 / sqrt(in_channels / groups * size of the window).  ValueError if the channels cannot be divided into the groups;
    RuntimeError if the input has other channels or is smaller than the window.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> images = ferro.zeros(16, 3, 32, 32)
        >>> nn.Conv2d(3, 8, kernel_size=3, padding=1)(images).shape
        ferro.Size([16, 8, 32, 32])
        >>> nn.Conv2d(3, 8, kernel_size=3, stride=2)(images).shape
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
    """Cross-correlation over (N, C, D, H, W) or (C, D, H, W)."""

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
    """The transpose of Conv1d: the gradient of a convolution with respect to its input, as a layer."""

    n_dims = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of Conv2d: the gradient of a convolution with respect to its input, as a layer; it makes images larger.

    The arguments are those of Conv2d, and `output_padding`, which makes the result larger by so many rows and columns: a stride
    leaves the size open.  The result has H' = (H - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 rows.
    `weight` has the shape (in_channels, out_channels / groups, *kernel_size).  `forward(input, output_size)` computes
    output_padding from the wanted size.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> up = nn.ConvTranspose2d(16, 8, kernel_size=2, stride=2)
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
    """The transpose of Conv3d: the gradient of a convolution with respect to its input, as a layer."""

    n_dims = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )
