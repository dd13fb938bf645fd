"""Sliding windows of images as columns, and their sum: unfold and fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.convolution import _batched, ints

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def im2col(x: Any, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Tensor:
    """The windows of images as columns; arguments normalised."""
    return apply(UNFOLD, (x,), (kernel, out, stride, pad, dilation))


def col2im(columns: Any, size: tuple, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Tensor:
    """The sum of columns at their places in images; arguments normalised."""
    return apply(FOLD, (columns,), (size, kernel, out, stride, pad, dilation))


UNFOLD = Op(
    "im2col",
    lambda xp, x, /, kernel, windows, stride, pad, dilation: xp.im2col(x, kernel, windows, stride, pad, dilation),
    kind=LINEAR,
    x=lambda xp, g, x_shape, kernel, windows, stride, pad, dilation: xp.col2im(
        g, x_shape[2:], kernel, windows, stride, pad, dilation
    ),
)
FOLD = Op(
    "col2im",
    lambda xp, x, /, size, kernel, windows, stride, pad, dilation: xp.col2im(
        x, size, kernel, windows, stride, pad, dilation
    ),
    kind=LINEAR,
    x=lambda xp, g, kernel, windows, stride, pad, dilation: xp.im2col(g, kernel, windows, stride, pad, dilation),
)


def _sliding(name: str, size: tuple, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple:
    """(kernel, out, stride, pad, dilation) of the windows on images of spatial shape `size`."""
    kernel, dilation = ints(name, "kernel_size", kernel_size, 2, 1), ints(name, "dilation", dilation, 2, 1)
    pad, stride = ints(name, "padding", padding, 2), ints(name, "stride", stride, 2, 1)
    geometry = zip(size, kernel, stride, pad, dilation, strict=True)
    out = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in geometry])
    if min(out) < 1:
        raise RuntimeError(
            f"{name}: Given input with spatial size {tuple(size)}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={pad}, calculated shape of the array of sliding blocks as {out}, but its components must be at "
            "least one."
        )
    return kernel, out, stride, pad, dilation


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images as columns; `fold` is its adjoint.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): the size of a window
    - `dilation` (int or pair, default 1): the step from element to element of a window
    - `padding` (int or pair, default 0): zeros on both ends of each dimension
    - `stride` (int or pair, default 1): the step from window to window

    The result is (N, C KH KW, windows). RuntimeError for other shapes, no window and numbers out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.unfold(ferro.arange(6.0).reshape(1, 1, 2, 3), (2, 2))
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    batch = _batched("unfold", input, 2)
    if 0 in batch._data.shape[1:]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input._data.shape)}"
        )
    columns = im2col(batch, *_sliding("unfold", batch._data.shape[2:], kernel_size, dilation, padding, stride))
    return columns if batch is input else columns.reshape(columns._data.shape[1:])


declare(
    "nn.functional.unfold",
    [
        Sample(Arg(2, 2, 4, 3), 2),
        Sample(Arg(2, 4, 4), (2, 3)),
        Sample(Arg(0, 2, 4, 4), 2),
        Sample(Arg(1, 2, 5, 5), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)),
    ],
    complex=True,
)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The sum of the columns of :func:`unfold` at their places in images: its adjoint.

    - `input` (Tensor): (N, C KH KW, windows) or (C KH KW, windows)
    - `output_size` (int or pair): H and W of the result
    - `kernel_size` (int or pair): as in `unfold`
    - `dilation`, `padding`, `stride` (int or pair, default 1 and 0 and 1): as in `unfold`

    The result is (N, C, H, W). RuntimeError for numbers of rows or windows that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.fold(ferro.ones(1, 4, 2), output_size=(2, 3), kernel_size=(2, 2))  # two windows share the middle
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    shape = need_tensor("fold", "input", input)._data.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
            f"for input, but got: {list(shape)}"
        )
    size = ints("fold", "output_size", output_size, 2, 1)
    kernel, out, *rest = _sliding("fold", size, kernel_size, dilation, padding, stride)
    if shape[-2] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            f"fold: Expected size of input's dimension {len(shape) - 2} to be divisible by the product of kernel_size, "
            f"but got input.size({len(shape) - 2})={shape[-2]} and kernel_size={kernel}."
        )
    if shape[-1] != out[0] * out[1]:
        raise RuntimeError(
            f"fold: Given output_size={size}, kernel_size={kernel}, dilation={rest[2]}, padding={rest[1]}, "
            f"stride={rest[0]}, expected size of input's dimension {len(shape) - 1} to match the calculated number of "
            f"sliding blocks {out[0]} * {out[1]} = {out[0] * out[1]}, but got input.size({len(shape) - 1})={shape[-1]}."
        )
    images = col2im(input if len(shape) == 3 else input.reshape(1, *shape), size, kernel, out, *rest)
    return images if len(shape) == 3 else images.reshape(images._data.shape[1:])


declare(
    "nn.functional.fold",
    [
        Sample(Arg(2, 8, 6), (4, 3), 2),
        Sample(Arg(8, 4), 4, 2, stride=2),
        Sample(Arg(0, 4, 9), 4, 2),
        Sample(Arg(1, 12, 10), (5, 5), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)),
    ],
    complex=True,
)
