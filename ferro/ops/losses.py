"""Losses of differences: the mean squared error and its relatives, fused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, unlike
from ferro.core.named_formulas import named
from ferro.core.op import Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, singular
from ferro.ops.activations import floating
from ferro.ops.entropy import reduced, reduction_of
from ferro.ops.mistakes import different_sizes, no_broadcast

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


# -- differences -------------------------------------------------------------------------------------------------------


def _pair(name: str, input: Tensor, target: Tensor) -> list:
    """Input and target of one dtype and one shape; a warning if their shapes had to be broadcast."""
    x, y = need_tensor(name, "input", input), need_tensor(name, "target", target)
    have, want = y._data.shape, x._data.shape
    if have != want:
        no_broadcast(name, x, y)
        warnings.warn(different_sizes(name, want, have), UserWarning, stacklevel=3)
        try:
            shape = np.broadcast_shapes(want, have)
        except ValueError:
            raise unlike(f"{name}(input, target)", [want, have]) from None
        x, y = x.expand(shape), y.expand(shape)
    return [x, y] if x._data.dtype is y._data.dtype else promote(x, y)


def _difference(
    name: str,
    loss: Callable,
    slope: Callable,
    path: str,
    samples: list,
    kind: str,
    factor: Callable = lambda parameter: 1.0,
    complex: bool = False,
) -> Op:
    """An operation that reduces ``loss(xp, x - y, parameter)``, whose derivative by x is ``slope(xp, g, x - y,
    parameter)``; both are ``factor(parameter)`` times those that `kind` names: "square", "absolute" or "huber".
    """
    loss, slope = named(f"{name}.loss", loss), named(f"{name}.slope", slope)

    def forward(xp: Any, x: Any, y: Any, /, reduction: str, parameter: float) -> Any:
        return xp.loss_of_difference(loss, kind, x, y, parameter, factor(parameter), reduction)

    def by_x(xp: Any, g: Any, x: Any, y: Any, x_shape: tuple, reduction: str, parameter: float) -> Any:
        return signed(xp, g, x, y, x_shape, reduction, parameter, 1.0)

    def by_y(xp: Any, g: Any, x: Any, y: Any, x_shape: tuple, reduction: str, parameter: float) -> Any:
        return signed(xp, g, x, y, x_shape, reduction, parameter, -1.0)

    def signed(xp: Any, g: Any, x: Any, y: Any, shape: tuple, reduction: str, parameter: float, sign: float) -> Any:
        if reduction == "mean":
            sign /= max(math.prod(shape), 1)
        return xp.slope_of_difference(slope, kind, g, x, y, parameter, factor(parameter), sign)

    return Op(name, forward, x=by_x, y=by_y, samples=samples, path=path, weight=2.0, complex=complex)


def _weighted(name: str, input: Tensor, weight: Tensor, loss: Tensor, reduction: str) -> Tensor:
    """The reduction with a weight for each element: the mean divides by the sum of the weights."""
    if weight._data.shape != input._data.shape:
        raise ValueError(
            f"{name}: Weights and input must have the same size, got "
            f"{list(weight._data.shape)} and {list(input._data.shape)}"
        )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


def _samples(*parameters: dict) -> list[Sample]:
    found = [Sample(Arg(3, 4), Arg(3, 4), reduction=r) for r in ("none", "mean", "sum")]
    found += [Sample(Arg(), Arg()), Sample(Arg(0, 2), Arg(0, 2), reduction="sum"), Sample(Arg(2, 1, 3), Arg(2, 1, 3))]
    return found + [Sample(Arg(3, 4), Arg(3, 4), **p) for p in parameters]


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean squared error (x - y)², reduced.

    - `input`, `target` (Tensor): x and y, floating, of one shape; other shapes broadcast with a warning
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `weight` (Tensor, in the shape of `input`, default None): a factor for each element; the mean then divides by the
      sum of the weights

    The result is 0-d, or in the shape of `input` with reduction "none". RuntimeError for shapes that do not broadcast
    or a dtype that is not floating, ValueError for another reduction or a weight of another shape.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.mse_loss(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(2.)
        >>> F.mse_loss(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]), reduction="none")
        tensor([0., 4.])
    """
    reduction = reduction_of("mse_loss", reduction, size_average, reduce)
    x, y = _pair("mse_loss", input, target)
    floating("mse_loss", x)
    if weight is not None:
        return _weighted("mse_loss", input, weight, apply(MSE, (x, y), ("none", 0)), reduction)
    return apply(MSE, (x, y), (reduction, 0))


MSE = _difference(
    "mse_loss",
    lambda xp, d, _: d * d,
    lambda xp, g, d, _: d * (g * 2),
    kind="square",
    factor=lambda _: 1.0,
    path="nn.functional.mse_loss",
    samples=[*_samples(), Sample(Arg(3, 4), Arg(3, 4), weight=Arg(3, 4, low=0.1))],
)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean absolute error |x - y|, reduced. The derivative is sign(x - y), 0 at x = y.

    - `input`, `target` (Tensor): x and y, real or complex, of one shape; other shapes broadcast with a warning
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `weight` (Tensor, in the shape of `input`, default None): a factor for each element; the mean then divides by the
      sum of the weights

    The result is 0-d, or in the shape of `input` with reduction "none". RuntimeError for shapes that do not broadcast
    and for the mean of integers, ValueError for another reduction or a weight of another shape.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.l1_loss(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(1.)
    """
    reduction = reduction_of("l1_loss", reduction, size_average, reduce)
    x, y = _pair("l1_loss", input, target)
    if x._data.dtype not in dtypes.INEXACT:
        if reduction == "mean":
            raise RuntimeError(
                f"l1_loss: the mean needs a floating-point or complex dtype, got {x.dtype}; cast with .float()"
            )
        return reduced((x - y).abs(), reduction)
    if weight is not None:
        return _weighted("l1_loss", input, weight, apply(L1, (x, y), ("none", 0)), reduction)
    return apply(L1, (x, y), (reduction, 0))


L1 = _difference(
    "l1_loss",
    lambda xp, d, _: xp.abs(d),
    lambda xp, g, d, _: g * xp.sgn(d),
    kind="absolute",
    complex=True,
    path="nn.functional.l1_loss",
    samples=[*_samples(), Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 2.5]), smooth=False)],
)
singular(
    "nn.functional.l1_loss", "x = y", Sample(Arg(values=[1.0]), Arg(values=[1.0])), "of the subgradients the smallest"
)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2 beta) where |d| = |x - y| < beta, else |d| - beta / 2. The derivative is d / beta or sign(d).

    - `input`, `target` (Tensor): x and y, floating, of one shape; other shapes broadcast with a warning
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `beta` (float, default 1.0): where the parabola becomes a line; 0 gives |d| everywhere

    The result is 0-d, or in the shape of `input` with reduction "none". RuntimeError for a negative beta, shapes that
    do not broadcast or a dtype that is not floating, ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.smooth_l1_loss(ferro.tensor([0.5, 3.0]), ferro.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    reduction = reduction_of("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    x, y = _pair("smooth_l1_loss", input, target)
    floating("smooth_l1_loss", x)
    return apply(SMOOTH_L1, (x, y), (reduction, beta))


def _smooth_l1(xp: Any, d: Any, beta: float) -> Any:
    return _huber(xp, d, beta) * (1 / beta)


SMOOTH_L1 = _difference(
    "smooth_l1_loss",
    _smooth_l1,
    kind="huber",
    factor=lambda beta: 1 / beta,
    path="nn.functional.smooth_l1_loss",
    slope=lambda xp, g, d, beta: g * xp.where(xp.abs(d) >= beta, xp.sgn(d), d * (1 / beta)),
    samples=[
        *_samples({"beta": 0.5}, {"beta": 0.0}),
        Sample(Arg(values=[1.0, 2.0, 3.0]), Arg(values=[1.0, 1.0, 4.0]), smooth=False),
    ],
)
singular(
    "nn.functional.smooth_l1_loss",
    "|x - y| = beta",
    Sample(Arg(values=[1.0]), Arg(values=[0.0])),
    "differentiable once; second order: as on the linear side",
)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where |d| = |x - y| <= delta, else delta (|d| - delta / 2). The derivative is d clamped to [-delta,
    delta].

    - `input`, `target` (Tensor): x and y, floating, of one shape; other shapes broadcast with a warning
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `delta` (float, default 1.0): where the parabola becomes a line
    - `weight` (Tensor, in the shape of `input`, default None): a factor for each element; the mean then divides by the
      sum of the weights

    The result is 0-d, or in the shape of `input` with reduction "none". RuntimeError for a delta that is not positive,
    shapes that do not broadcast or a dtype that is not floating, ValueError for another reduction or a weight of
    another shape. Source: P. J. Huber, Robust Estimation of a Location Parameter, 1964.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.huber_loss(ferro.tensor([0.5, 3.0]), ferro.zeros(2), reduction="none", delta=2.0)
        tensor([0.1250, 4.0000])
    """
    reduction = reduction_of("huber_loss", reduction)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    x, y = _pair("huber_loss", input, target)
    floating("huber_loss", x)
    if weight is not None:
        return _weighted("huber_loss", input, weight, apply(HUBER, (x, y), ("none", delta)), reduction)
    return apply(HUBER, (x, y), (reduction, delta))


def _huber(xp: Any, d: Any, delta: float) -> Any:
    size = xp.abs(d)
    near = xp.clamp(size, None, delta)
    return near * (size - near * 0.5)


HUBER = _difference(
    "huber_loss",
    _huber,
    kind="huber",
    path="nn.functional.huber_loss",
    slope=lambda xp, g, d, delta: g * xp.where(xp.abs(d) >= delta, xp.sgn(d) * delta, d),
    samples=[*_samples({"delta": 0.5}), Sample(Arg(values=[1.0, 2.0, 3.0]), Arg(values=[1.0, 1.0, 4.0]), smooth=False)],
)
