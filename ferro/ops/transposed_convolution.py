"""Transposed convolutions in one to three dimensions, and the function for both kinds of convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.convolution import _batched, _by, _check, _convolve, geometry
from ferro.ops.correlation import conv_input

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"]


def _transposed(
    name: str,
    n: int,
    y: Any,
    w: Any,
    b: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The transposed convolution in n dimensions."""
    batch = _batched(name, y, n)
    _check(name, batch, w, b, groups, n, True, (stride, padding, dilation))
    stride, pad, dilation, more = geometry(name, n, stride, padding, dilation, output_padding)
    if any(m >= s and m >= d for m, s, d in zip(more, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding {more}, "
            f"stride {stride}, dilation {dilation}"
        )
    places = zip(batch._data.shape[2:], w._data.shape[2:], stride, pad, dilation, more, strict=True)
    size = tuple([(o - 1) * s - 2 * p + d * (k - 1) + m + 1 for o, k, s, p, d, m in places])
    if min(size) < 0:
        raise RuntimeError(
            f"{name}: Given input size per channel: {_by(batch._data.shape[2:])}. Calculated output size per "
            f"channel: {_by(size)}. Output size is too small"
        )
    x = conv_input(batch, w, b, size, stride, pad, dilation, groups)
    return x if batch is y else x.reshape(x._data.shape[1:])


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose (adjoint, without conjugation) of :func:`conv1d` with the same weight, plus a bias.

    - `input` (Tensor): (N, C, L), or (C, L) for one sample
    - `weight` (Tensor): (C, O / groups, K)
    - `bias` (Tensor, default None): (O)
    - `stride`, `padding` (int, default 1 and 0): those of the convolution: the result is stretched by the one and cut
      at both ends by the other
    - `output_padding` (int, default 0): elements more at the end of each dimension, fewer than the stride or the
      dilation
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights
    - `dilation` (int, default 1): the step from element to element of a window

    The result is (N, O, L') with L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1 in each
    dimension. RuntimeError for shapes, channels or dtypes that do not fit and for numbers out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv_transpose1d(ferro.tensor([[[1.0, 2.0]]]), ferro.tensor([[[1.0, 10.0]]]), stride=2)
        tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose (adjoint, without conjugation) of :func:`conv2d` with the same weight, plus a bias.

    - `input` (Tensor): (N, C, H, W), or (C, H, W) for one sample
    - `weight` (Tensor): (C, O / groups, KH, KW)
    - `bias` (Tensor, default None): (O)
    - `stride`, `padding` (int or pair, default 1 and 0): those of the convolution: the result is stretched by the one
      and cut at both ends by the other
    - `output_padding` (int or pair, default 0): elements more at the end of each dimension, fewer than the stride or
      the dilation
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights
    - `dilation` (int or pair, default 1): the step from element to element of a window

    The result is (N, O, H', W') with L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1 in each
    dimension. RuntimeError for shapes, channels or dtypes that do not fit and for numbers out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv_transpose2d(ferro.ones(1, 1, 2, 2), ferro.ones(1, 1, 2, 2))
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose (adjoint, without conjugation) of :func:`conv3d` with the same weight, plus a bias.

    - `input` (Tensor): (N, C, D, H, W), or (C, D, H, W) for one sample
    - `weight` (Tensor): (C, O / groups, KD, KH, KW)
    - `bias` (Tensor, default None): (O)
    - `stride`, `padding` (int or triple, default 1 and 0): those of the convolution: the result is stretched by the one
      and cut at both ends by the other
    - `output_padding` (int or triple, default 0): elements more at the end of each dimension, fewer than the stride or
      the dilation
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights
    - `dilation` (int or triple, default 1): the step from element to element of a window

    The result is (N, O, D', H', W') with L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1 in
    each dimension. RuntimeError for shapes, channels or dtypes that do not fit and for numbers out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv_transpose3d(ferro.ones(1, 2, 3, 3, 3), ferro.ones(2, 4, 2, 2, 2), stride=2).shape
        ferro.Size([1, 4, 6, 6, 6])
    """
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


declare(
    "nn.functional.conv_transpose1d",
    [
        Sample(Arg(2, 3, 4), Arg(3, 2, 3), Arg(2)),
        Sample(Arg(4, 4), Arg(4, 2, 3), Arg(4), stride=2, padding=1, output_padding=1, groups=2),
        Sample(Arg(1, 2, 4), Arg(2, 2, 2), dilation=3, output_padding=2),
    ],
    complex=True,
)
declare(
    "nn.functional.conv_transpose2d",
    [
        Sample(Arg(2, 3, 3, 2), Arg(3, 2, 2, 3), Arg(2)),
        Sample(
            Arg(1, 4, 3, 3),
            Arg(4, 1, 3, 2),
            stride=(2, 3),
            padding=(1, 0),
            output_padding=(0, 1),
            groups=2,
            dilation=(1, 2),
        ),
    ],
    complex=True,
)
declare(
    "nn.functional.conv_transpose3d",
    [
        Sample(Arg(1, 2, 2, 2, 2), Arg(2, 2, 2, 2, 2), Arg(2)),
        Sample(Arg(1, 2, 2, 3, 2), Arg(2, 1, 2, 1, 3), stride=(1, 2, 1), groups=2),
    ],
    complex=True,
)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """A convolution or transposed convolution in as many dimensions as the weight has after the first two.

    - `input`, `weight`, `bias` (Tensor (the bias may be None)): as in `nn.functional.conv2d` and `conv_transpose2d`
    - `stride`, `padding`, `dilation` (int or sequence): as there
    - `transposed` (bool): whether the convolution is transposed
    - `output_padding` (int or sequence): of a transposed one, else not looked at
    - `groups` (int): as there

    RuntimeError where these functions raise it.

    Example::

        >>> import ferro
        >>> x, w = ferro.ones(1, 1, 3), ferro.ones(1, 1, 2)
        >>> ferro.convolution(x, w, None, [1], [0], [1], False, [0], 1)
        tensor([[[2., 2.]]])
    """
    n = need_tensor("convolution", "weight", weight)._data.ndim - 2
    if transposed:
        return _transposed("convolution", n, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolve("convolution", n, input, weight, bias, stride, padding, dilation, groups)


declare(
    "convolution",
    [
        Sample(Arg(1, 2, 4, 4), Arg(2, 2, 2, 2), Arg(2), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        Sample(Arg(1, 2, 3, 3), Arg(2, 2, 2, 2), None, (2, 2), (1, 1), (1, 1), True, (1, 0), 1),
    ],
)
