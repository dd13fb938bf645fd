"""Pooling: maxima, means and norms over windows, adaptive and fractional windows, and the inverse of max pooling."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY, INEXACT
from ferro.core.layout import CHANNELS, IMAGES, channels_last_3d
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.convolution import ints
from ferro.ops.pooling_arguments import (
    check_samples,
    fractional_image,
    fractional_windows,
    frozen,
    image,
    need_cotangent,
    numbers,
    target,
    windows,
)
from ferro.ops.random import rand

if TYPE_CHECKING:
    from ferro.tensor import Tensor

# The names that PyTorch has at its top level too; there adaptive_max_pool1d always returns the indices.
__all__ = ["adaptive_avg_pool1d", "avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d"]


def spatial(shape: tuple, like: tuple) -> tuple:
    """The sizes of the last dimensions, as many as `like` has."""
    return shape[len(shape) - len(like) :]


# -- gathering and scattering by flat index ----------------------------------------------------------------------------


def pool_gather(x: Any, index: Any, dims: int) -> Tensor:
    """The elements of images (the last `dims` dimensions) at flat indices."""
    return apply(POOL_GATHER, (x, index), (dims,))


def pool_scatter(x: Any, index: Any, size: tuple) -> Tensor:
    """Images of shape `size` with the elements of x added at flat indices."""
    return apply(POOL_SCATTER, (x, index), (size,))


POOL_GATHER = Op(
    "pool_gather",
    lambda xp, x, index, /, dims: xp.pool_gather(x, index, dims),
    x=lambda xp, g, x_shape, index, dims: xp.pool_scatter(g, index, x_shape[len(x_shape) - dims :]),
)
POOL_SCATTER = Op(
    "pool_scatter",
    lambda xp, x, index, /, size: xp.pool_scatter(x, index, size),
    x=lambda xp, g, index, size: xp.pool_gather(g, index, len(size)),
)


# -- max pooling -------------------------------------------------------------------------------------------------------

MAX_POOL = Op(
    "max_pool",
    lambda xp, x, /, kernel, size, stride, pad, dilation: xp.max_pool(x, kernel, size, stride, pad, dilation),
    outputs=("out", "indices"),
    nondiff=("indices",),
    weight=4.0,
    x=lambda xp, g, x_shape, indices, kernel: xp.pool_scatter(g, indices, spatial(x_shape, kernel)),
    layout=CHANNELS,
)
singular(
    "nn.functional.max_pool2d", "ties", Sample(Arg(values=[[[1.0, 1.0], [1.0, 0.0]]]), 2), "the first of the largest"
)


def _max_pool(
    name: str, n: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple:
    """Max pooling in n dimensions: values and indices."""
    given = tuple([frozen(v) for v in (kernel_size, stride, padding, dilation)])
    shape = image(name, x, n, given)
    found = windows(name, n, x._data.shape[-n - 1], shape, *given, ceil_mode)
    if max(found[4]) > 1 and _beside(shape, found):
        return _max_with_padding(x, shape, found)
    if n == 3 and type(x._data) is np.ndarray and _volume_with_channels_last(x._data):
        batch = x.unsqueeze(0).clone(memory_format=channels_last_3d)
        return tuple([t.squeeze(0) for t in apply(MAX_POOL, (batch,), found)])
    return apply(MAX_POOL, (x,), found)


def _volume_with_channels_last(a: Any) -> bool:
    """Whether a volume without a batch has its channels last; so have its maxima, then."""
    return a.ndim == 4 and not a.flags.c_contiguous and a.transpose(1, 2, 3, 0).flags.c_contiguous


@lru_cache(maxsize=512)
def _beside(shape: tuple, windows: tuple) -> bool:
    """Whether some window has no element of the image, since dilation steps over all of it."""
    _, size, stride, pad, dilation = windows
    return any(
        not any(0 <= o * st - p + k * d < n for k in range(kernel))
        for n, kernel, count, st, p, d in zip(shape, windows[0], size, stride, pad, dilation, strict=True)
        for o in range(count)
    )


def _max_with_padding(x: Any, shape: tuple, windows: tuple) -> tuple:
    """The same where some windows hold nothing but padding: their maximum is -inf, which has no gradient.

    Their index, which PyTorch puts outside, is that of an element at the edge.
    """
    kernel, size, stride, pad, dilation = windows
    far = tuple(
        [  # so wide that the last window ends inside
            max(p, (c - 1) * st - p + (k - 1) * d + 1 - n) for n, k, c, st, p, d in zip(shape, *windows, strict=True)
        ]
    )
    dtype = x._data.dtype
    least = -math.inf if dtype in INEXACT else int(np.iinfo(dtype).min)
    amounts = [a for pair in zip(reversed(pad), reversed(far), strict=True) for a in pair]
    padded = backend.functional.constant_pad_nd(x, amounts, least)
    values, indices = apply(MAX_POOL, (padded,), (kernel, size, stride, (0,) * len(pad), dilation))
    places = np.unravel_index(indices._data, padded._data.shape[-len(shape) :])
    inside = [np.clip(i - p, 0, n - 1) for i, p, n in zip(places, pad, shape, strict=True)]
    return values, wrap(np.asarray(np.ravel_multi_index(inside, shape), np.int64))


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of signals.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `kernel_size` (int): the size of a window
    - `stride` (int, default None): the step from window to window; None: the size of the window
    - `padding` (int, default 0): places on both ends that never win, at most half a window
    - `dilation` (int, default 1): the step from element to element of a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): gives (maxima, positions) too, positions in the flattened a signal, for
      `max_unpool1d`

    The result is (N, C, L') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, or up with
    `ceil_mode`. The gradient goes to the first maximum of a window (or to its last nan). RuntimeError for other shapes,
    a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool1d(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        tensor([[[3., 2.]]])
        >>> F.max_pool1d(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)
        (tensor([[[3., 2.]]]), tensor([[[1, 2]]]))
    """
    found = _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of images.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): the size of a window
    - `stride` (int or pair, default None): the step from window to window; None: the size of the window
    - `padding` (int or pair, default 0): places on both ends that never win, at most half a window
    - `dilation` (int or pair, default 1): the step from element to element of a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): gives (maxima, positions) too, positions in the flattened an image, for
      `max_unpool2d`

    The result is (N, C, H', W') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, or up with
    `ceil_mode`. The gradient goes to the first maximum of a window (or to its last nan). RuntimeError for other shapes,
    a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool2d(ferro.arange(16.0).reshape(1, 1, 4, 4), 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """
    found = _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@in_full_precision
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of every window of volumes.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): the size of a window
    - `stride` (int or triple, default None): the step from window to window; None: the size of the window
    - `padding` (int or triple, default 0): places on both ends that never win, at most half a window
    - `dilation` (int or triple, default 1): the step from element to element of a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): gives (maxima, positions) too, positions in the flattened a volume, for
      `max_unpool3d`

    The result is (N, C, D', H', W') with L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down, or up
    with `ceil_mode`. The gradient goes to the first maximum of a window (or to its last nan). RuntimeError for other
    shapes, a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool3d(ferro.zeros(1, 2, 4, 6, 8), 2).shape
        ferro.Size([1, 2, 2, 3, 4])
    """
    found = _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple:
    """:func:`max_pool1d` with the positions of the maxima: (maxima, positions), both (N, C, L').

    - `input` (Tensor): (N, C, L) or (C, L)
    - `kernel_size` (int): as in `max_pool1d`
    - `stride`, `padding`, `dilation` (int, default None and 0 and 1): as in `max_pool1d`
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): no effect

    RuntimeError where `max_pool1d` raises it.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool1d_with_indices(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        (tensor([[[3., 2.]]]), tensor([[[1, 2]]]))
    """
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple:
    """:func:`max_pool2d` with the positions of the maxima: (maxima, positions), both (N, C, H', W').

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): as in `max_pool2d`
    - `stride`, `padding`, `dilation` (int or pair, default None and 0 and 1): as in `max_pool2d`
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): no effect

    RuntimeError where `max_pool2d` raises it.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool2d_with_indices(ferro.arange(4.0).reshape(1, 1, 2, 2), 2)
        (tensor([[[[3.]]]]), tensor([[[[3]]]]))
    """
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@in_full_precision
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple:
    """:func:`max_pool3d` with the positions of the maxima: (maxima, positions), both (N, C, D', H', W').

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): as in `max_pool3d`
    - `stride`, `padding`, `dilation` (int or triple, default None and 0 and 1): as in `max_pool3d`
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `return_indices` (bool, default False): no effect

    RuntimeError where `max_pool3d` raises it.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.max_pool3d_with_indices(ferro.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
        (tensor([[[[[7.]]]]]), tensor([[[[[7]]]]]))
    """
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _distinct(*shape: int) -> Arg:
    """An argument without ties."""
    return Arg(*shape, make=permuted())


declare(
    "nn.functional.max_pool1d",
    [
        Sample(_distinct(2, 3, 8), 2),
        Sample(_distinct(3, 9), 3, 2, 1, return_indices=True),
        Sample(_distinct(1, 2, 9), 3, 2, 1, 2, True),
        Sample(_distinct(1, 1, 20), 15),
        Sample(_distinct(0, 2, 4), 2),
        Sample(Arg(1, 1, 6, values=[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]), 3, 1, smooth=False),
    ],
)
declare(
    "nn.functional.max_pool2d",
    [
        Sample(_distinct(2, 2, 4, 6), 2),
        Sample(_distinct(2, 5, 5), (2, 3), (1, 2), (1, 0), return_indices=True),
        Sample(_distinct(1, 2, 7, 6), 3, 2, 1, (1, 2), True),
        Sample(_distinct(1, 1, 5, 5), 5),
        Sample(_distinct(0, 2, 4, 4), 2),
    ],
)
declare(
    "nn.functional.max_pool3d",
    [
        Sample(_distinct(1, 2, 4, 2, 4), 2),
        Sample(_distinct(2, 3, 5, 4), (2, 3, 1), 2, (1, 1, 0), ceil_mode=True, return_indices=True),
    ],
)


# -- average pooling ---------------------------------------------------------------------------------------------------


def avg_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any) -> Tensor:
    """Sums of windows divided by `divisors`; arguments normalised."""
    return apply(AVG_POOL, (x,), (kernel, size, stride, pad, divisors))


def avg_spread(g: Any, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, divisors: Any) -> Tensor:
    """The adjoint of `avg_pool`; arguments normalised."""
    return apply(AVG_SPREAD, (g,), (shape, kernel, stride, pad, divisors))


AVG_POOL = Op(
    "avg_pool",
    lambda xp, x, /, kernel, size, stride, pad, divisors: xp.avg_pool(x, kernel, size, stride, pad, divisors),
    kind=LINEAR,
    x=lambda xp, g, x_shape, kernel, stride, pad, divisors: xp.avg_spread(
        g, spatial(x_shape, kernel), kernel, stride, pad, divisors
    ),
    layout=IMAGES,
)
AVG_SPREAD = Op(
    "avg_spread",
    lambda xp, x, /, shape, kernel, stride, pad, divisors: xp.avg_spread(x, shape, kernel, stride, pad, divisors),
    kind=LINEAR,
    x=lambda xp, g, x_shape, kernel, stride, pad, divisors: xp.avg_pool(
        g, kernel, spatial(x_shape, kernel), stride, pad, divisors
    ),
)


def _avg_pool(
    name: str,
    n: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any = None,
) -> Tensor:
    """Average pooling in n dimensions."""
    given = tuple([frozen(v) for v in (kernel_size, stride, padding)])
    shape = image(name, x, n, given)
    kernel, size, step, pad, _ = windows(name, n, x._data.shape[-n - 1], shape, *given, 1, ceil_mode)
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError(f"{name}: divisor must be not zero, got divisor_override=0")
        return avg_pool(x, kernel, size, step, pad, divisor_override)
    return avg_pool(x, kernel, size, step, pad, _counts(shape, kernel, size, step, pad, count_include_pad))


def _counts(shape: tuple, kernel: tuple, size: tuple, step: tuple, pad: tuple, count_include_pad: bool) -> Any:
    """How many elements windows have: one number, or where they reach over the edge a number for each place in each dimension."""
    geometry = list(zip(shape, kernel, size, step, pad, strict=True))
    if all((o - 1) * st + k <= s + (2 * p if count_include_pad else 0) for s, k, o, st, p in geometry) and (
        count_include_pad or not any(pad)
    ):
        return math.prod(kernel)
    counts = []
    for s, k, o, st, p in geometry:
        starts = np.arange(o) * st - p
        ends = np.minimum(starts + k, s + p)
        inside = ends - starts if count_include_pad else np.minimum(ends, s) - np.maximum(starts, 0)
        counts.append(tuple(inside.tolist()))
    return tuple(counts)


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of every window of signals.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `kernel_size` (int): the size of a window
    - `stride` (int, default None): the step from window to window; None: the size of the window
    - `padding` (int, default 0): zeros on both ends, at most half a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `count_include_pad` (bool, default True): whether the mean counts the padding

    The result is (N, C, L') with L' = (L + 2 padding - K) / stride + 1, rounded down, or up with `ceil_mode`.
    RuntimeError for other shapes, a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.avg_pool1d(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        tensor([[[2., 1.]]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of images.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): the size of a window
    - `stride` (int or pair, default None): the step from window to window; None: the size of the window
    - `padding` (int or pair, default 0): zeros on both ends, at most half a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `count_include_pad` (bool, default True): whether the mean counts the padding
    - `divisor_override` (int, default None): the sum of a window is divided by it instead of by the number of elements

    The result is (N, C, H', W') with L' = (L + 2 padding - K) / stride + 1, rounded down, or up with `ceil_mode`.
    RuntimeError for other shapes, a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.avg_pool2d(ferro.arange(16.0).reshape(1, 1, 4, 4), 2)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@in_full_precision
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of volumes.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): the size of a window
    - `stride` (int or triple, default None): the step from window to window; None: the size of the window
    - `padding` (int or triple, default 0): zeros on both ends, at most half a window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end
    - `count_include_pad` (bool, default True): whether the mean counts the padding
    - `divisor_override` (int, default None): the sum of a window is divided by it instead of by the number of elements

    The result is (N, C, D', H', W') with L' = (L + 2 padding - K) / stride + 1, rounded down, or up with `ceil_mode`.
    RuntimeError for other shapes, a padding of more than half a window and a result without elements.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.avg_pool3d(ferro.ones(1, 1, 2, 2, 2), 2, divisor_override=4).squeeze()
        tensor(2.)
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


declare(
    "nn.functional.avg_pool1d",
    [
        Sample(Arg(2, 3, 8), 2),
        Sample(Arg(3, 9), 3, 2, 1),
        Sample(Arg(1, 2, 9), 4, 3, 2, True, False),
        Sample(Arg(1, 1, 24), 8),
        Sample(Arg(0, 2, 4), 2),
    ],
)
declare(
    "nn.functional.avg_pool2d",
    [
        Sample(Arg(2, 2, 4, 6), 2),
        Sample(Arg(2, 5, 5), (2, 3), (1, 2), (1, 0)),
        Sample(Arg(1, 2, 6, 6), 3, 2, 1, True, False),
        Sample(Arg(1, 2, 6, 5), 3, 2, 1, True, True, 5),
        Sample(Arg(0, 2, 4, 4), 2),
    ],
)
declare(
    "nn.functional.avg_pool3d",
    [
        Sample(Arg(1, 2, 4, 2, 4), 2),
        Sample(Arg(2, 3, 5, 4), (2, 3, 1), 2, (1, 1, 0), ceil_mode=True, count_include_pad=False),
    ],
)


# -- adaptive pooling --------------------------------------------------------------------------------------------------


def adaptive_avg(x: Any, size: tuple) -> Tensor:
    """Means of the parts of images; arguments normalised."""
    return apply(ADAPTIVE_AVG, (x,), (size,))


def adaptive_avg_spread(g: Any, shape: tuple) -> Tensor:
    """The adjoint of `adaptive_avg`; arguments normalised."""
    return apply(ADAPTIVE_AVG_SPREAD, (g,), (shape,))


ADAPTIVE_AVG = Op(
    "adaptive_avg_pool",
    lambda xp, x, /, size: xp.adaptive_avg(x, size),
    kind=LINEAR,
    x=lambda xp, g, x_shape, size: xp.adaptive_avg_spread(need_cotangent("avg", g, size), spatial(x_shape, size)),
    layout=IMAGES,
)
ADAPTIVE_AVG_SPREAD = Op(
    "adaptive_avg_spread",
    lambda xp, x, /, shape: xp.adaptive_avg_spread(x, shape),
    kind=LINEAR,
    x=lambda xp, g, x_shape, shape: xp.adaptive_avg(g, spatial(x_shape, shape)),
)


def _adaptive_avg(name: str, n: int, x: Any, output_size: Any) -> Tensor:
    """Adaptive average pooling in n dimensions."""
    shape, size = target(name, n, x, output_size)
    if 0 in size or any(s % o for s, o in zip(shape, size, strict=True)):
        return adaptive_avg(x, size)
    kernel = tuple([s // o for s, o in zip(shape, size, strict=True)])
    count = 1
    for k in kernel:
        count *= k
    return avg_pool(x, kernel, size, kernel, (0,) * n, count)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of signals, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `output_size` (int): how many parts there are along each dimension; None keeps a size

    The result is (N, C, L'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool1d(ferro.tensor([[[1.0, 3.0, 5.0, 9.0]]]), 2)
        tensor([[[2., 7.]]])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of images, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `output_size` (int or pair): how many parts there are along each dimension; None keeps a size

    The result is (N, C, H', W'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool2d(ferro.ones(1, 2, 6, 4), (3, None)).shape
        ferro.Size([1, 2, 3, 4])
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


@in_full_precision
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of volumes, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `output_size` (int or triple): how many parts there are along each dimension; None keeps a size

    The result is (N, C, D', H', W'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool3d(ferro.ones(1, 2, 6, 4, 4), 2).shape
        ferro.Size([1, 2, 2, 2, 2])
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


declare("nn.functional.adaptive_avg_pool1d", [Sample(Arg(2, 2, 7), 3), Sample(Arg(2, 6), 2), Sample(Arg(0, 2, 4), 2)])
declare(
    "nn.functional.adaptive_avg_pool2d",
    [
        Sample(Arg(2, 2, 5, 4), (3, None)),
        Sample(Arg(2, 4, 6), 2),
        Sample(Arg(1, 2, 3, 3), 1),
        Sample(Arg(1, 2, 2, 2), 3),
    ],
)
declare("nn.functional.adaptive_avg_pool3d", [Sample(Arg(1, 2, 5, 4, 3), (3, None, 2)), Sample(Arg(2, 4, 2, 2), 2)])


ADAPTIVE_MAX = Op(
    "adaptive_max_pool",
    lambda xp, x, /, size: xp.adaptive_max(x, size),
    outputs=("out", "indices"),
    nondiff=("indices",),
    x=lambda xp, g, x_shape, indices, size: xp.pool_scatter(
        need_cotangent("max", g, size), indices, spatial(x_shape, size)
    ),
    layout=IMAGES,
)


def _adaptive_max(name: str, n: int, x: Any, output_size: Any) -> tuple:
    """Adaptive max pooling in n dimensions: values and indices."""
    shape, size = target(name, n, x, output_size)
    if 0 in size or any(s % o for s, o in zip(shape, size, strict=True)):
        return apply(ADAPTIVE_MAX, (x,), (size,))
    kernel = tuple([s // o for s, o in zip(shape, size, strict=True)])
    return apply(MAX_POOL, (x,), (kernel, size, kernel, (0,) * n, (1,) * n))


@overload
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of signals, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `output_size` (int): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened a signal

    The result is (N, C, L'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool1d(ferro.tensor([[[1.0, 3.0, 5.0, 9.0]]]), 2)
        tensor([[[3., 9.]]])
    """
    found = _adaptive_max("adaptive_max_pool1d", 1, input, output_size)
    return found if return_indices else found[0]


@overload
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of images, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `output_size` (int or pair): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened an image

    The result is (N, C, H', W'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool2d(ferro.ones(1, 2, 6, 4), (3, None)).shape
        ferro.Size([1, 2, 3, 4])
    """
    found = _adaptive_max("adaptive_max_pool2d", 2, input, output_size)
    return found if return_indices else found[0]


@in_full_precision
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of volumes, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `output_size` (int or triple): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened a volume

    The result is (N, C, D', H', W'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool3d(ferro.ones(1, 2, 6, 4, 4), 2).shape
        ferro.Size([1, 2, 2, 2, 2])
    """
    found = _adaptive_max("adaptive_max_pool3d", 3, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool1d` with the positions of the maxima."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool2d` with the positions of the maxima."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool3d` with the positions of the maxima."""
    return adaptive_max_pool3d(input, output_size, True)


declare(
    "nn.functional.adaptive_max_pool1d",
    [Sample(_distinct(2, 2, 7), 3, return_indices=True), Sample(_distinct(2, 6), 2)],
)
declare(
    "nn.functional.adaptive_max_pool2d", [Sample(_distinct(2, 2, 5, 4), (3, None), True), Sample(_distinct(2, 4, 6), 2)]
)
declare(
    "nn.functional.adaptive_max_pool3d",
    [Sample(_distinct(1, 2, 5, 4, 3), (3, None, 2), True), Sample(_distinct(2, 4, 2, 2), 2)],
)


# -- norms -------------------------------------------------------------------------------------------------------------


def _lp_pool(name: str, n: int, x: Any, p: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    """The p-norm of every window; where its p-th power is 0, so is the gradient."""
    kernel = numbers(name, "kernel_size", kernel_size, n)
    if p == 0:
        raise ValueError(f"{name}: norm_type must not be 0")
    if p in (float("inf"), -float("inf")):
        sign = 1 if p > 0 else -1
        return sign * _max_pool(name, n, sign * x.abs(), kernel, stride, 0, 1, ceil_mode)[0]
    mean: Any = _avg_pool(name, n, x.pow(p), kernel, stride, 0, ceil_mode, True)
    count = 1
    for k in kernel:
        count *= k
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / p)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ xᵖ)^(1/p) over every window of signals; the gradient is 0 where the sum is.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `norm_type` (float): p, not 0; inf takes the largest |x|
    - `kernel_size` (int): the size of a window
    - `stride` (int, default None): the step from window to window; None: the size of the window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end

    The result is (N, C, L'), its sizes as in `avg_pool1d`. ValueError for p = 0, RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.lp_pool1d(ferro.tensor([[[3.0, 4.0, 0.0, 2.0]]]), 2, 2)
        tensor([[[5., 2.]]])
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ xᵖ)^(1/p) over every window of images; the gradient is 0 where the sum is.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `norm_type` (float): p, not 0; inf takes the largest |x|
    - `kernel_size` (int or pair): the size of a window
    - `stride` (int or pair, default None): the step from window to window; None: the size of the window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end

    The result is (N, C, H', W'), its sizes as in `avg_pool2d`. ValueError for p = 0, RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.lp_pool2d(ferro.ones(1, 1, 2, 2), 2, 2)
        tensor([[[[2.]]]])
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ xᵖ)^(1/p) over every window of volumes; the gradient is 0 where the sum is.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `norm_type` (float): p, not 0; inf takes the largest |x|
    - `kernel_size` (int or triple): the size of a window
    - `stride` (int or triple, default None): the step from window to window; None: the size of the window
    - `ceil_mode` (bool, default False): keeps a last window that reaches beyond the end

    The result is (N, C, D', H', W'), its sizes as in `avg_pool3d`. ValueError for p = 0, RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.lp_pool3d(ferro.ones(1, 1, 2, 2, 2), 3, 2)
        tensor([[[[[2.]]]]])
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


declare("nn.functional.lp_pool1d", [Sample(Arg(2, 2, 7, low=0.5), 2.0, 3), Sample(Arg(2, 8, low=0.5), 1.5, 3, 2, True)])
declare(
    "nn.functional.lp_pool2d",
    [Sample(Arg(2, 2, 4, 5, low=0.5), 2.0, 2), Sample(Arg(2, 5, 5, low=0.5), 3.0, (2, 3), 2, True)],
)
declare("nn.functional.lp_pool3d", [Sample(Arg(1, 2, 4, 2, 2, low=0.5), 2.0, 2)])


# -- the inverse of max pooling ----------------------------------------------------------------------------------------

UNPOOL = Op(
    "max_unpool",
    lambda xp, x, index, /, size: xp.unpool(x, index, size),
    x=lambda xp, g, index, size: xp.pool_gather(g, index, len(size)),
    layout=CHANNELS,
)


def _max_unpool(
    name: str, n: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    """The inverse of max pooling in n dimensions."""
    shape = image(name, x, n)
    kernel = ints(name, "kernel_size", kernel_size, n, 1)
    step = kernel if stride is None else ints(name, "stride", stride, n, 1)
    pad = ints(name, "padding", padding, n)
    size = tuple([(s - 1) * st + k - 2 * p for s, st, k, p in zip(shape, step, kernel, pad, strict=True)])
    if output_size is not None:
        wanted = tuple([operator.index(s) for s in output_size])
        wanted = wanted[2:] if len(wanted) == n + 2 else wanted
        if len(wanted) != n:
            raise ValueError(
                f"{name}: output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
                f"{len(output_size)}"
            )
        for d, (w, s, st) in enumerate(zip(wanted, size, step, strict=True)):
            if not s - st < w < s + st:
                raise ValueError(
                    f"{name}: invalid output_size {tuple(output_size)}: dim {d} must be between {s - st} and {s + st}"
                )
        size = wanted
    if min(size) < 0:
        raise ValueError(f"{name}: output_size must contain non-negative spatial dimensions, but got {size}")
    need_tensor(name, "indices", indices)
    index = indices._data
    if index.dtype != "int64":
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {FROM_NUMPY[index.dtype]}")
    if index.shape != x._data.shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(x._data.shape)}) but got "
            f"indices tensor with shape: {list(index.shape)}"
        )
    area = 1
    for s in size:
        area *= s
    index = plain(index)
    if index.size and (index.min() < 0 or index.max() >= area):
        wrong = int(index.max()) if index.max() >= area else int(index.min())
        raise RuntimeError(
            f"{name}: Found an invalid max index: {wrong} (output volumes are of size {'x'.join(map(str, size))})"
        )
    return apply(UNPOOL, (x, indices), (size,))


@in_full_precision
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Signals that are zero but for the elements of `input` at the `indices` that :func:`max_pool1d` returned.

    - `input` (Tensor): maxima, (N, C, L) or (C, L)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int, default None and 0): those of the pooling; stride None is the size of the window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool1d(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)
        >>> F.max_unpool1d(x, i, 2)
        tensor([[[0., 3., 2., 0.]]])
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@in_full_precision
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Images that are zero but for the elements of `input` at the `indices` that :func:`max_pool2d` returned.

    - `input` (Tensor): maxima, (N, C, H, W) or (C, H, W)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int or pair): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int or pair, default None and 0): those of the pooling; stride None is the size of the window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool2d(ferro.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
        >>> F.max_unpool2d(x, i, 2)
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@in_full_precision
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Volumes that are zero but for the elements of `input` at the `indices` that :func:`max_pool3d` returned.

    - `input` (Tensor): maxima, (N, C, D, H, W) or (C, D, H, W)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int or triple): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int or triple, default None and 0): those of the pooling; stride None is the size of the
      window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool3d(ferro.arange(8.0).reshape(1, 1, 2, 2, 2), 2, return_indices=True)
        >>> F.max_unpool3d(x, i, 2)
        tensor([[[[[0., 0.],
                   [0., 0.]],
        <BLANKLINE>
                  [[0., 0.],
                   [0., 7.]]]]])
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


declare(
    "nn.functional.max_unpool1d",
    [
        Sample(Arg(1, 2, 2), Arg(1, 2, 2, values=[0, 3, 1, 2], dtype="int64"), 2),
        Sample(Arg(1, 2), Arg(1, 2, values=[0, 4], dtype="int64"), 2, output_size=(5,)),
    ],
)
declare(
    "nn.functional.max_unpool2d", [Sample(Arg(1, 1, 2, 2), Arg(1, 1, 2, 2, values=[0, 3, 9, 15], dtype="int64"), 2)]
)
declare("nn.functional.max_unpool3d", [Sample(Arg(1, 1, 1, 2), Arg(1, 1, 1, 2, values=[0, 15], dtype="int64"), 2)])


# -- fractional max pooling --------------------------------------------------------------------------------------------

FRACTIONAL_MAX = Op(
    "fractional_max_pool",
    lambda xp, x, samples, /, kernel, size: xp.fractional_max(x, samples, kernel, size),
    outputs=("out", "indices"),
    nondiff=("indices",),
    x=lambda xp, g, x_shape, indices, size: xp.pool_scatter(g, indices, spatial(x_shape, size)),
)


def _fractional(
    name: str, n: int, x: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple:
    """Fractional max pooling in n dimensions: values and indices."""
    shape = fractional_image(name, x, n)
    lead = x._data.shape[: x._data.ndim - n]
    kernel, size = fractional_windows(name, n, lead, shape, kernel_size, output_size, output_ratio)
    if samples is None:
        samples = rand(*(lead if len(lead) == 2 else (1, *lead)), n, dtype=FROM_NUMPY[x._data.dtype])
    else:
        check_samples(name, n, lead, samples, x._data.dtype)
    return apply(FRACTIONAL_MAX, (x, samples), (kernel, size))


@in_full_precision
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows of images, placed pseudo-randomly at steps of the mean width.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): the size of a window
    - `output_size` (int or pair, default None): how many windows there are along each dimension
    - `output_ratio` (float or sequence, default None): the same as a part of the input's size, between 0 and 1; exactly
      one of the two is given
    - `return_indices` (bool, default False): gives (maxima, positions), as `max_pool2d` does

    The result is (N, C, H', W'). ValueError without output_size and output_ratio, RuntimeError for sizes that do not
    fit. Source: B. Graham, Fractional max-pooling, 2014.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.fractional_max_pool2d(ferro.zeros(1, 1, 9, 9), 2, output_size=5).shape
        ferro.Size([1, 1, 5, 5])
    """
    found = _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@in_full_precision
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows of volumes, placed pseudo-randomly at steps of the mean width.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): the size of a window
    - `output_size` (int or triple, default None): how many windows there are along each dimension
    - `output_ratio` (float or sequence, default None): the same as a part of the input's size, between 0 and 1; exactly
      one of the two is given
    - `return_indices` (bool, default False): gives (maxima, positions), as `max_pool3d` does

    The result is (N, C, D', H', W'). ValueError without output_size and output_ratio, RuntimeError for sizes that do
    not fit. Source: B. Graham, Fractional max-pooling, 2014.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.fractional_max_pool3d(ferro.zeros(1, 1, 9, 9, 9), 2, output_ratio=0.5).shape
        ferro.Size([1, 1, 4, 4, 4])
    """
    found = _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@in_full_precision
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple:
    """:func:`fractional_max_pool2d` with the positions of the maxima: (maxima, positions).

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): as in `fractional_max_pool2d`
    - `output_size` (int or pair, default None): as in `fractional_max_pool2d`
    - `output_ratio` (float or sequence, default None): as there
    - `return_indices` (bool, default False): no effect

    Raises what `fractional_max_pool2d` raises.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> maxima, positions = F.fractional_max_pool2d_with_indices(ferro.zeros(1, 1, 9, 9), 2, output_size=5)
        >>> positions.shape
        ferro.Size([1, 1, 5, 5])
    """
    return fractional_max_pool2d(input, kernel_size, output_size, output_ratio, True, _random_samples)


@in_full_precision
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple:
    """:func:`fractional_max_pool3d` with the positions of the maxima: (maxima, positions).

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): as in `fractional_max_pool3d`
    - `output_size` (int or triple, default None): as in `fractional_max_pool3d`
    - `output_ratio` (float or sequence, default None): as there
    - `return_indices` (bool, default False): no effect

    Raises what `fractional_max_pool3d` raises.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> maxima, positions = F.fractional_max_pool3d_with_indices(ferro.zeros(1, 1, 9, 9, 9), 2, output_size=5)
        >>> positions.shape
        ferro.Size([1, 1, 5, 5, 5])
    """
    return fractional_max_pool3d(input, kernel_size, output_size, output_ratio, True, _random_samples)


declare(
    "nn.functional.fractional_max_pool2d",
    [
        Sample(_distinct(1, 2, 6, 5), 2, (3, 3), _random_samples=Arg(1, 2, 2, low=0.1, high=0.9, grad=False)),
        Sample(
            _distinct(2, 6, 6),
            (2, 3),
            output_ratio=(0.5, 0.4),
            return_indices=True,
            _random_samples=Arg(1, 2, 2, low=0.1, high=0.9, grad=False),
        ),
    ],
)
declare(
    "nn.functional.fractional_max_pool3d",
    [
        Sample(_distinct(1, 2, 4, 5, 5), 2, (2, 3, 3), _random_samples=Arg(1, 2, 3, low=0.1, high=0.9, grad=False)),
    ],
)
