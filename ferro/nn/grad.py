"""The gradients of convolutions as functions: by the input and by the weight, in one to three dimensions."""

from __future__ import annotations

from typing import Any

from ferro.ops.convolution import geometry
from ferro.ops.correlation import conv_input, conv_weight
from ferro.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _by_input(
    n: int, size: Any, weight: Tensor, g: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    step, pad, dilated, _ = geometry(f"conv{n}d_input", n, stride, padding, dilation)
    return conv_input(g, weight, None, tuple([int(s) for s in size][2:]), step, pad, dilated, groups)


def _by_weight(
    n: int, input: Tensor, size: Any, g: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    step, pad, dilated, _ = geometry(f"conv{n}d_weight", n, stride, padding, dilation)
    return conv_weight(input, g, tuple([int(s) for s in size][2:]), step, pad, dilated, groups)


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` by an input of shape `input_size`.

    >>> import ferro
    >>> conv1d_input((1, 1, 3), ferro.tensor([[[2.0, 5.0]]]), ferro.ones(1, 1, 2))
    tensor([[[2., 7., 5.]]])
    """
    return _by_input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` by a weight of shape `weight_size`."""
    return _by_weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` by an input of shape `input_size`."""
    return _by_input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` by a weight of shape `weight_size`."""
    return _by_weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` by an input of shape `input_size`."""
    return _by_input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` by a weight of shape `weight_size`."""
    return _by_weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
