"""Average pooling: means and norms over windows."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.apply import unary
from ferro.core.casting import in_full_precision
from ferro.core.layout import IMAGES
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.max_pooling import _max_pool
from ferro.ops.pooling_arguments import (
    frozen,
    image,
    numbers,
    spatial,
    windows,
)

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["avg_pool1d"]


def avg_pool(x: Any, kernel: tuple, size: tuple, stride: tuple, pad: tuple, divisors: Any) -> Tensor:
    """Sums of windows divided by `divisors`; arguments normalised."""
    return unary(AVG_POOL, x, (kernel, size, stride, pad, divisors))


def avg_spread(g: Any, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, divisors: Any) -> Tensor:
    """The adjoint of `avg_pool`; arguments normalised."""
    return unary(AVG_SPREAD, g, (shape, kernel, stride, pad, divisors))


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
    found = _counted(name, n, x._data.shape[-n - 1], shape, *given, ceil_mode, count_include_pad)
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError(f"{name}: divisor must be not zero, got divisor_override=0")
        found = (*found[:4], divisor_override)
    return unary(AVG_POOL, x, found)


@lru_cache(maxsize=512, typed=True)
def _counted(
    name: str,
    n: int,
    channels: int,
    shape: tuple,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
) -> tuple:
    """The parameters of AVG_POOL for images of a shape."""
    kernel, size, step, pad, _ = windows(name, n, channels, shape, kernel_size, stride, padding, 1, ceil_mode)
    return kernel, size, step, pad, _counts(shape, kernel, size, step, pad, count_include_pad)


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
