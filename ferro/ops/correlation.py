"""Correlation as three operations, each of them the derivative of the other two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.layout import IMAGES
from ferro.core.op import MULTILINEAR, Op

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def conv(x: Any, w: Any, b: Any, out: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Tensor:
    """y = w * x + b of spatial shape `out`; arguments normalised."""
    if b is None:
        return apply(CONV, (x, w), (out, stride, pad, dilation, groups))
    return apply(CONV_BIAS, (x, w, b), (out, stride, pad, dilation, groups))


def conv_input(y: Any, w: Any, b: Any, size: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Tensor:
    """The transposed convolution of spatial shape `size`, plus b; arguments normalised."""
    if b is None:
        return apply(CONV_INPUT, (y, w), (size, stride, pad, dilation, groups))
    return apply(CONV_INPUT_BIAS, (y, w, b), (size, stride, pad, dilation, groups))


def conv_weight(x: Any, y: Any, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Tensor:
    """The gradient of a convolution by its weight of spatial shape `kernel`: the sum over images and windows of x y."""
    return apply(CONV_WEIGHT, (x, y), (kernel, stride, pad, dilation, groups))


def _conv_x(xp: Any, g: Any, w: Any, x_shape: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv_input(g, w.conj(), None, x_shape[2:], stride, pad, dilation, groups)


def _conv_w(xp: Any, g: Any, x: Any, w_shape: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv_weight(x.conj(), g, w_shape[2:], stride, pad, dilation, groups)


CONV = Op(
    "conv",
    lambda xp, x, w, /, size, stride, pad, dilation, groups: xp.conv(x, w, None, size, stride, pad, dilation, groups),
    x=_conv_x,
    w=_conv_w,
    kind=MULTILINEAR,
    weight=50.0,
    layout=IMAGES,
)
CONV_BIAS = Op(
    "convolution",
    lambda xp, x, w, b, /, size, stride, pad, dilation, groups: xp.conv(x, w, b, size, stride, pad, dilation, groups),
    x=_conv_x,
    w=_conv_w,
    b=lambda xp, g: xp.channel_sum(g),
    weight=50.0,
    layout=IMAGES,
)


def _input_y(xp: Any, g: Any, w: Any, y_shape: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv(g, w.conj(), None, y_shape[2:], stride, pad, dilation, groups)


def _input_w(xp: Any, g: Any, y: Any, w_shape: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv_weight(g, y.conj(), w_shape[2:], stride, pad, dilation, groups)


CONV_INPUT = Op(
    "conv_input",
    lambda xp, y, w, /, size, stride, pad, dilation, groups: xp.conv_input(
        y, w, None, size, stride, pad, dilation, groups
    ),
    y=_input_y,
    w=_input_w,
    kind=MULTILINEAR,
    weight=50.0,
    layout=IMAGES,
)
CONV_INPUT_BIAS = Op(
    "conv_transpose",
    lambda xp, y, w, b, /, size, stride, pad, dilation, groups: xp.conv_input(
        y, w, b, size, stride, pad, dilation, groups
    ),
    y=_input_y,
    w=_input_w,
    b=lambda xp, g: xp.channel_sum(g),
    weight=50.0,
    layout=IMAGES,
)


def _weight_x(xp: Any, g: Any, x_shape: tuple, y: Any, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv_input(y.conj(), g, None, x_shape[2:], stride, pad, dilation, groups)


def _weight_y(xp: Any, g: Any, x: Any, y_shape: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    return xp.conv(x.conj(), g, None, y_shape[2:], stride, pad, dilation, groups)


CONV_WEIGHT = Op(
    "conv_weight",
    lambda xp, x, y, /, kernel, stride, pad, dilation, groups: xp.conv_weight(
        x, y, kernel, stride, pad, dilation, groups
    ),
    x=_weight_x,
    y=_weight_y,
    kind=MULTILINEAR,
    weight=50.0,
)
