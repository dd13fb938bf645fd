"""Max pooling: the largest element of every window, and where it stands."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import INEXACT
from ferro.core.layout import CHANNELS, channels_last_3d, has_memory
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.pooling_arguments import (
    frozen,
    image,
    spatial,
    windows,
)

if TYPE_CHECKING:
    from ferro.tensor import Tensor

# The names that PyTorch has at its top level too; there adaptive_max_pool1d always returns the indices.
__all__ = ["max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d"]

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
    if n == 3 and has_memory(x._data) and _volume_with_channels_last(x._data):
        batch = x.unsqueeze(0).clone(memory_format=channels_last_3d)
        return tuple([t.squeeze(0) for t in apply(MAX_POOL, (batch,), found)])
    return apply(MAX_POOL, (x,), found)


_max_pool_in_float32 = in_full_precision(_max_pool)


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
    far = [  # so wide that the last window ends inside
        max(p, (c - 1) * st - p + (k - 1) * d + 1 - n) for n, k, c, st, p, d in zip(shape, *windows, strict=True)
    ]
    dtype = x._data.dtype
    least = -math.inf if dtype in INEXACT else int(np.iinfo(dtype).min)
    amounts = [a for pair in zip(reversed(pad), reversed(far), strict=True) for a in pair]
    padded = backend.functional.constant_pad_nd(x, amounts, least)
    values, indices = apply(MAX_POOL, (padded,), (kernel, size, stride, (0,) * len(pad), dilation))
    place, rest, step = 0, indices._data, 1  # (without padding, with it, elements of a row)
    for p, n, wide in zip(reversed(pad), reversed(shape), reversed(padded._data.shape), strict=False):
        place, rest, step = place + (rest % wide - p).clip(0, n - 1) * step, rest // wide, step * n
    return values, wrap(np.asarray(place, np.int64) if backend.is_host(place) else place)


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
    pool = _max_pool if return_indices else _max_pool_in_float32
    found = pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)
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
