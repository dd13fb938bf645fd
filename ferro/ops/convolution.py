"""Convolutions, transposed convolutions, and the windows they see (unfold and fold), in one to three dimensions."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.casting import brought_together
from ferro.core.dtypes import FROM_NUMPY, META_NAMES, type_name
from ferro.core.layout import IMAGES
from ferro.core.op import LINEAR, MULTILINEAR, Op
from ferro.core.samples import Arg, Sample, declare

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
]


# -- the family: see Note [The convolution family] in cpu/convolution.py -----------------------------------------------


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


# -- arguments ---------------------------------------------------------------------------------------------------------


def ints(name: str, argument: str, given: Any, n: int, least: int | None = 0, sentence: str = "") -> tuple[int, ...]:
    """An argument with one integer per spatial dimension, given as one integer or a sequence; at least `least`, if given.

    `sentence`: what is added where one is less.
    """
    try:
        several = isinstance(given, (tuple, list))
        found = tuple([operator.index(v) for v in given]) if several else (operator.index(given),)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be an int or {n} ints, got {given!r}") from None
    if len(found) == 1:
        found *= n
    if len(found) != n:
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {n} values to match the convolution "
            f"dimensions, but got {argument}={list(found)}"
        )
    if least is not None and min(found, default=least) < least:
        wanted = "greater than zero" if least else "non-negative"
        raise RuntimeError(f"{name}() {argument} must be {wanted}, but got {given!r}{sentence and ': '}{sentence}")
    return found


def geometry(name: str, n: int, stride: Any, padding: Any, dilation: Any, output_padding: Any = 0) -> tuple:
    """(stride, padding, dilation, output_padding) with one number per dimension, each in the range that is allowed."""
    found = []
    for argument, given, least, otherwise in (
        ("stride", stride, 1, "non-positive stride is not supported"),
        ("padding", padding, 0, "negative padding is not supported"),
        ("dilation", dilation, 1, "dilation should be greater than zero"),
        ("output_padding", output_padding, 0, "negative output_padding is not supported"),
    ):
        numbers = ints(name, argument, given, n, None)
        if min(numbers, default=least) < least:
            raise RuntimeError(f"{otherwise}, but got {list(numbers)} as {argument} of {name}")
        found.append(numbers)
    return tuple(found)


def _by(sizes: Any) -> str:
    """Sizes as PyTorch writes them: (3 x 4)."""
    return f"({' x '.join(map(str, sizes))})"


def _batched(name: str, x: Any, n: int) -> Any:
    """The input with a dimension of images: one is added to a single image."""
    ndim = need_tensor(name, "input", x)._data.ndim
    if ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x._data.shape)}"
        )
    return x if ndim == n + 2 else x.reshape(1, *x._data.shape)


def _plainly_fits(x: Any, w: Any, b: Any, groups: Any) -> bool:
    """Whether an ungrouped convolution of an array x has nothing that `_check` refuses; False where that takes a closer look."""
    if groups != 1 or type(groups) is not int or not isinstance(w, TensorBase) or x.size == 0:
        return False
    a, dtype = w._data, x.dtype
    return (
        a.size > 0
        and a.ndim == x.ndim
        and a.shape[1] == x.shape[1]
        and a.dtype is dtype
        and dtype.kind != "b"
        and (b is None or (isinstance(b, TensorBase) and b._data.dtype is dtype and b._data.shape == a.shape[:1]))
    )


def _check(name: str, x: Any, w: Any, b: Any, groups: int, n: int, transposed: bool, numbers: tuple) -> None:
    """Refuses dtypes and numbers of channels that do not fit; before these, `numbers` (stride, padding, dilation)."""
    need_tensor(name, "weight", w)
    if w._data.ndim != n + 2:
        few = "weight should have at least three dimensions; " if w._data.ndim < 3 else ""
        raise RuntimeError(
            f"{name}: Expected {w._data.ndim}-dimensional input for {w._data.ndim}-dimensional weight{list(w._data.shape)}, but got "
            f"{n + 2}-dimensional input of size {list(x._data.shape)} instead: {few}expected a weight of {n + 2} dimensions, "
            "(channels, channels / groups, kernel sizes)"
        )
    for argument, t in (("bias", b), ("weight", w)):
        if t is None or need_tensor(name, argument, t)._data.dtype is x._data.dtype:
            continue
        if not brought_together(t._data.dtype, x._data.dtype):
            given = FROM_NUMPY[x._data.dtype], FROM_NUMPY[t._data.dtype]
            raise RuntimeError(
                f"{name}: expected scalar type {type_name(given[0])} but found {type_name(given[1])}: Input type ({META_NAMES[given[0]]}) "
                f"and {argument} type ({META_NAMES[given[1]]}) should be the same"
            )
    if x._data.dtype.kind == "b":
        raise RuntimeError(f"{name}: not implemented for bool tensors")
    groups = operator.index(groups)
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported: {name} was given groups={groups}")
    shape, channels = list(w._data.shape), x._data.shape[1]
    if shape[0] % groups or shape[0] < groups:
        fit = "at least" if shape[0] < groups else "divisible by"
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be {fit} {groups} at dimension 0, but got weight of size {shape} "
            "instead"
        )
    wanted = shape[0] if transposed else shape[1] * groups
    if channels != wanted:
        geometry(name, n, numbers[0], 0 if isinstance(numbers[1], str) else numbers[1], numbers[2])
        raise RuntimeError(
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size {shape}, expected "
            f"input{list(x._data.shape)} to have {wanted} channels, but got {channels} channels instead"
        )
    outputs = shape[1] * groups if transposed else shape[0]
    if b is not None and b._data.shape != (outputs,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {shape}, expected bias to be 1-dimensional with "
            f"{outputs} elements, but got bias of size {list(b._data.shape)} instead"
        )
    if transposed and 0 not in x._data.shape[:2] and 0 in x._data.shape[2:]:
        raise RuntimeError(f"{name}: expected non-empty spatial dimensions, got input of shape {list(x._data.shape)}")


# -- convolution -------------------------------------------------------------------------------------------------------


def _convolve(
    name: str, n: int, x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """The convolution in n dimensions."""
    batch = _batched(name, x, n)
    if not _plainly_fits(batch._data, w, b, groups):
        _check(name, batch, w, b, groups, n, False, (stride, padding, dilation))
    if isinstance(stride, list) or isinstance(padding, list) or isinstance(dilation, list):
        stride, padding, dilation = [tuple(v) if isinstance(v, list) else v for v in (stride, padding, dilation)]
    out, stride, pad, dilation = _places(name, batch._data.shape[2:], w._data.shape[2:], stride, padding, dilation)
    y = conv(batch, w, b, out, stride, pad, dilation, groups)
    return y if batch is x else y.reshape(y._data.shape[1:])


@lru_cache(maxsize=512, typed=True)
def _places(name: str, size: tuple, kernel: tuple, stride: Any, padding: Any, dilation: Any) -> tuple:
    """(spatial shape of the result, stride, pad, dilation) of a convolution, one number per dimension each."""
    n = len(kernel)
    stride, pad, dilation, _ = geometry(name, n, stride, 0 if isinstance(padding, str) else padding, dilation)
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"{name}: Invalid padding string: {padding!r}; allowed are 'same', 'valid', or integers")
        if padding == "same" and any(s != 1 for s in stride):
            raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions, got stride {stride}")
        total = reach if padding == "same" else [0] * n
        pad = tuple([t // 2 for t in total])  # where the total is odd, the element more is at the end
    else:
        total = [2 * p for p in pad]
    padded = [s + t for s, t in zip(size, total, strict=True)]
    if 0 in kernel:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {_by(kernel)}")
    if any(r >= s for r, s in zip(reach, padded, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: {_by(padded)}. Kernel size: {_by([r + 1 for r in reach])}. Kernel "
            f"size can't be greater than actual input size: {name} was given an input of {_by(size)} places, padding "
            f"{padding} and dilation {dilation}"
        )
    out = tuple([(s - r - 1) // step + 1 for s, r, step in zip(padded, reach, stride, strict=True)])
    return out, stride, pad, dilation


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of signals with a weight, plus a bias: y[n, o, i] = b[o] + Σ_ck w[o, c, k] x[n, c, i stride
    + k dilation].

    - `input` (Tensor): (N, C, L), or (C, L) for one sample
    - `weight` (Tensor): (O, C / groups, K)
    - `bias` (Tensor, default None): (O)
    - `stride` (int, default 1): the step from window to window
    - `padding` (int, or str, default 0): zeros on both ends of each dimension; "valid" is 0, "same" keeps the size
      (stride 1 only)
    - `dilation` (int, default 1): the step from element to element of a window
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights

    The result is (N, O, L') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, in each
    dimension. The gradient by the input is a transposed convolution of the cotangent, that by the weight the
    correlation of the input with the cotangent. RuntimeError for shapes, channels or dtypes that do not fit, a window
    larger than the padded input, and strides, paddings or dilations out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv1d(ferro.tensor([[[1.0, 2.0, 4.0]]]), ferro.tensor([[[-1.0, 1.0]]]))
        tensor([[[1., 2.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of images with a weight, plus a bias.

    - `input` (Tensor): (N, C, H, W), or (C, H, W) for one sample
    - `weight` (Tensor): (O, C / groups, KH, KW)
    - `bias` (Tensor, default None): (O)
    - `stride` (int or pair, default 1): the step from window to window
    - `padding` (int or pair, or str, default 0): zeros on both ends of each dimension; "valid" is 0, "same" keeps the
      size (stride 1 only)
    - `dilation` (int or pair, default 1): the step from element to element of a window
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights

    The result is (N, O, H', W') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, in each
    dimension. The gradient by the input is a transposed convolution of the cotangent, that by the weight the
    correlation of the input with the cotangent. RuntimeError for shapes, channels or dtypes that do not fit, a window
    larger than the padded input, and strides, paddings or dilations out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv2d(ferro.ones(1, 1, 3, 3), ferro.ones(1, 1, 2, 2))
        tensor([[[[4., 4.],
                  [4., 4.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of volumes with a weight, plus a bias.

    - `input` (Tensor): (N, C, D, H, W), or (C, D, H, W) for one sample
    - `weight` (Tensor): (O, C / groups, KD, KH, KW)
    - `bias` (Tensor, default None): (O)
    - `stride` (int or triple, default 1): the step from window to window
    - `padding` (int or triple, or str, default 0): zeros on both ends of each dimension; "valid" is 0, "same" keeps the
      size (stride 1 only)
    - `dilation` (int or triple, default 1): the step from element to element of a window
    - `groups` (int, default 1): the channels are cut into so many parts, each seen by its own part of the weights

    The result is (N, O, D', H', W') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, in
    each dimension. The gradient by the input is a transposed convolution of the cotangent, that by the weight the
    correlation of the input with the cotangent. RuntimeError for shapes, channels or dtypes that do not fit, a window
    larger than the padded input, and strides, paddings or dilations out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv3d(ferro.ones(1, 1, 4, 5, 6), ferro.ones(2, 1, 3, 3, 3), padding=1).shape
        ferro.Size([1, 2, 4, 5, 6])
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


declare(
    "nn.functional.conv1d",
    [
        Sample(Arg(2, 3, 7), Arg(4, 3, 3), Arg(4)),
        Sample(Arg(3, 7), Arg(4, 3, 3), Arg(4)),
        Sample(Arg(2, 4, 9), Arg(4, 2, 3), stride=2, padding=1, dilation=2, groups=2),
        Sample(Arg(2, 2, 6), Arg(2, 2, 4), Arg(2), padding="same"),
        Sample(Arg(2, 2, 6), Arg(2, 2, 4), padding="valid"),
        Sample(Arg(0, 2, 6), Arg(2, 2, 4)),
    ],
    complex=True,
)
declare(
    "nn.functional.conv2d",
    [
        Sample(Arg(2, 3, 5, 4), Arg(2, 3, 3, 2), Arg(2)),
        Sample(Arg(2, 5, 5), Arg(2, 2, 2, 2)),
        Sample(Arg(1, 4, 6, 5), Arg(4, 2, 3, 2), Arg(4), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        Sample(Arg(1, 2, 4, 4), Arg(2, 1, 3, 3), groups=2, padding=1),
        Sample(Arg(1, 2, 4, 4), Arg(2, 2, 2, 3), Arg(2), padding="same"),
        Sample(Arg(1, 2, 3, 3), Arg(3, 2, 1, 1)),
        Sample(Arg(1, 1, 2, 2), Arg(1, 1, 1, 1), padding=3, stride=4),
    ],
    complex=True,
)
declare(
    "nn.functional.conv3d",
    [
        Sample(Arg(1, 2, 3, 3, 3), Arg(2, 2, 2, 2, 2), Arg(2)),
        Sample(Arg(1, 2, 3, 4, 3), Arg(2, 1, 2, 1, 3), stride=(1, 2, 1), padding=1, groups=2),
    ],
    complex=True,
)


# -- transposed convolution --------------------------------------------------------------------------------------------


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


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """:func:`conv1d` of signals with the time in front.

    - `input` (Tensor): (L, N, C)
    - `weight` (Tensor): (K, C, O)
    - `bias` (Tensor): (O)
    - `pad` (int, default 0): zeros on both ends

    The result is (L + 2 pad - K + 1, N, O). RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.conv_tbc(ferro.ones(4, 1, 2), ferro.ones(3, 2, 1), ferro.zeros(1)).squeeze()
        tensor([6., 6.])
    """
    for argument, t in (("input", input), ("weight", weight)):
        if need_tensor("conv_tbc", argument, t)._data.ndim != 3:
            raise RuntimeError(f"conv_tbc: {argument} must have 3 dimensions, got shape {list(t._data.shape)}")
    result: Any = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1).contiguous()


declare("conv_tbc", [Sample(Arg(5, 2, 3), Arg(2, 3, 4), Arg(4)), Sample(Arg(4, 1, 2), Arg(3, 2, 2), Arg(2), 1)])


# -- windows -----------------------------------------------------------------------------------------------------------


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
