"""What all convolution layers share: arguments, weights and how they print."""

from __future__ import annotations

import math
from typing import Any

from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

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
