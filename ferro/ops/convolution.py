"""Convolutions in one to three dimensions, and what they are asked for."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.casting import brought_together
from ferro.core.dtypes import FROM_NUMPY, META_NAMES, type_name
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.correlation import conv

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc"]


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


def _check_channels(name: str, x: Any, w: Any, b: Any, groups: int, n: int, transposed: bool, numbers: tuple) -> None:
    """Refuses numbers of channels, groups and biases that do not fit."""
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
    _check_channels(name, x, w, b, operator.index(groups), n, transposed, numbers)
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
