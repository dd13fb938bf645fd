"""Losses on numbers, pairs and margins; the mean squared error and its relatives are fused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend, dtypes
from ferro.core.apply import apply, promote
from ferro.core.arguments import need_tensor, unlike
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.activations import floating, logsigmoid, softplus
from ferro.ops.entropy import reduced, reduction_of
from ferro.ops.mistakes import different_sizes, no_broadcast

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "l1_loss",
           "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
           "multilabel_soft_margin_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
           "triplet_margin_loss", "triplet_margin_with_distance_loss"]  # fmt: skip


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


@in_full_precision
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-likelihood of Poisson counts y, up to log y!: eˣ - y x, or x - y log(x + eps) without `log_input`.

    - `input` (Tensor): x, the logarithm of the expected counts, or these themselves
    - `target` (Tensor): y, the counts, in the shape of `input`
    - `log_input` (bool, default True): whether x is the logarithm
    - `full` (bool, default False): adds Stirling's approximation of log y! where y > 1
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `eps` (float, default 1e-08): keeps the logarithm finite without `log_input`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". ValueError for another reduction, RuntimeError
    for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.poisson_nll_loss(ferro.zeros(2), ferro.tensor([1.0, 2.0]), reduction="none")
        tensor([1., 1.])
    """
    reduction = reduction_of("poisson_nll_loss", reduction, size_average, reduce)
    no_broadcast("poisson_nll_loss", input, target)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        large = backend.functional.where(target > 1, target, 1)
        stirling = large * large.log() - large + 0.5 * (large * (2 * math.pi)).log()
        loss = loss + backend.functional.where(target > 1, stirling, 0)
    return reduced(loss, reduction)


declare(
    "nn.functional.poisson_nll_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4, low=0.1, high=4)),
        Sample(Arg(5), Arg(5, low=0.1, high=4), full=True, reduction="sum"),
        Sample(Arg(3, 4, low=0.1), Arg(3, 4, low=0.1), log_input=False, reduction="none"),
    ],
)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Minus the log-likelihood of normal numbers y: (log v + (x - y)² / v) / 2 with v = max(var, eps).

    - `input`, `target` (Tensor): x, the expected values, and y, of one shape
    - `var` (Tensor or float): the variances, in the shape of `input`, in that without its last dimension, or with one
      dimension of size 1
    - `full` (bool, default False): adds the constant log(2π) / 2
    - `eps` (float, default 1e-06): the least variance; the derivative passes through this bound unchanged
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". ValueError for negative variances, variances of
    another shape and another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.gaussian_nll_loss(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]), ferro.ones(2), reduction="none")
        tensor([0., 2.])
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"gaussian_nll_loss: {reduction} is not valid as reduction; allowed are 'none', 'mean' and 'sum'"
        )
    need_tensor("gaussian_nll_loss", "input", input)
    no_broadcast("gaussian_nll_loss", input, target)
    if isinstance(var, (int, float)):
        var = backend.functional.full_like(input, var)
    v, x = var._data, input._data
    if plain(v < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative entry/entries")
    if v.shape != x.shape:
        if x.shape[:-1] == v.shape:
            var = var.unsqueeze(-1)
        elif x.ndim != v.ndim or sum(b for a, b in zip(x.shape, v.shape, strict=True) if a != b) != 1:
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {list(v.shape)}; allowed is "
                f"the input's {list(x.shape)}, that without its last dimension, or with "
                "one dimension of size 1"
            )
    # max(var, eps), but with the derivative of var itself
    v = var._data
    floor = wrap(xp_of(v).clamp(v, np.asarray(eps, v.dtype), None) - v)
    var = var + floor
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


declare(
    "nn.functional.gaussian_nll_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, 4, low=0.1)),
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, low=0.1), full=True),
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, 1, low=0.1), reduction="none"),
        Sample(Arg(3, 4), Arg(3, 4), 0.5),
    ],
)


# -- margins -----------------------------------------------------------------------------------------------------------


@in_full_precision
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-y x)) for labels y = 1 or -1, without overflow.

    - `input` (Tensor): x, the scores
    - `target` (Tensor): y, in the shape of `input` or one that broadcasts to it
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". RuntimeError for a target that does not
    broadcast to the input, ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.soft_margin_loss(ferro.zeros(2), ferro.tensor([1.0, -1.0]))
        tensor(0.6931)
    """
    reduction = reduction_of("soft_margin_loss", reduction, size_average, reduce)
    no_broadcast("soft_margin_loss", input, target)
    want, have = input._data.shape, target._data.shape
    try:
        shape = np.broadcast_shapes(want, have)
    except ValueError:
        raise unlike("soft_margin_loss(input, target)", [want, have]) from None
    if shape != want:
        raise RuntimeError(
            f"soft_margin_loss: output with shape {list(want)} doesn't match the broadcast shape {list(shape)} of input "
            "and target"
        )
    return reduced(softplus(-target * input, 1.0, math.inf), reduction)


declare(
    "nn.functional.soft_margin_loss",
    [Sample(Arg(3, 4), Arg(3, 4, grad=False), reduction=r) for r in ("none", "mean", "sum")],
)


@in_full_precision
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - y (x1 - x2)): y = 1 wants x1 above x2, y = -1 below. At the kink the slope is that of the
    positive side.

    - `input1`, `input2` (Tensor): x1 and x2, of one shape
    - `target` (Tensor): y, with as many dimensions
    - `margin` (float, default 0): how far apart x1 and x2 are to be
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of the inputs with reduction "none". RuntimeError for other numbers of
    dimensions, ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.margin_ranking_loss(ferro.tensor([1.0, 1.0]), ferro.tensor([0.0, 3.0]), ferro.ones(2), reduction="none")
        tensor([0., 2.])
    """
    reduction = reduction_of("margin_ranking_loss", reduction, size_average, reduce)
    if not input1._data.ndim == input2._data.ndim == target._data.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    no_broadcast("margin_ranking_loss", input1, input2)
    no_broadcast("margin_ranking_loss", input1, target)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


_signs: Any = {"values": [1.0, -1.0, 1.0, 1.0], "grad": False}
declare(
    "nn.functional.margin_ranking_loss",
    [
        Sample(Arg(4), Arg(4), Arg(**_signs)),
        Sample(Arg(4), Arg(4), Arg(**_signs), 0.5, reduction="none"),
        Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 3.0]), Arg(values=[1.0, 1.0], grad=False), smooth=False),
    ],
)


@in_full_precision
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where the label y is 1, max(0, margin - x) where it is -1 (their sum where it is neither).

    - `input` (Tensor): x, mostly a distance of two embeddings
    - `target` (Tensor): y, in the shape of `input` or one that broadcasts with it
    - `margin` (float, default 1.0): the distance from which unlike pairs cost nothing
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.hinge_embedding_loss(ferro.tensor([0.25, 0.25]), ferro.tensor([1.0, -1.0]), reduction="none")
        tensor([0.2500, 0.7500])
    """
    reduction = reduction_of("hinge_embedding_loss", reduction, size_average, reduce)
    no_broadcast("hinge_embedding_loss", input, target)
    where = backend.functional.where
    margin_part = where(target != 1, (margin - input).clamp_min(0), 0)
    return reduced(margin_part + where(target != -1, input, 0), reduction)


declare(
    "nn.functional.hinge_embedding_loss",
    [
        Sample(Arg(4), Arg(**_signs)),
        Sample(Arg(4), Arg(**_signs), 0.5, reduction="none"),
        Sample(Arg(2, 4), Arg(**_signs), reduction="sum"),
    ],
)


@in_full_precision
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where the label is 1, max(0, cos(x1, x2) - margin) where it is -1, over the last dimension.

    - `input1`, `input2` (Tensor): x1 and x2, (N, D), or (D) for one pair
    - `target` (Tensor): labels 1 or -1, (N), or 0-d for one pair
    - `margin` (float, default 0): the cosine below which unlike pairs cost nothing
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    1e-12 is added to the squared lengths. The result is 0-d, or in the shape of `target` with reduction "none".
    RuntimeError for other numbers of dimensions, ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x = ferro.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> F.cosine_embedding_loss(x, ferro.tensor([[0.0, 1.0], [1.0, 0.0]]), ferro.tensor([1, -1]), reduction="none")
        tensor([1., 1.])
    """
    reduction = reduction_of("cosine_embedding_loss", reduction, size_average, reduce)
    shape = target._data.shape
    if target._data.ndim not in (0, 1):
        raise RuntimeError(
            "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not "
            f"supported, got shape {list(shape)}"
        )
    want = target._data.ndim + 1
    if input1._data.ndim != want or input2._data.ndim != want:
        raise RuntimeError(
            f"cosine_embedding_loss: a {want - 1}D target tensor expects {want}D input "
            f"tensors, but found inputs with sizes {list(input1._data.shape)} and "
            f"{list(input2._data.shape)}."
        )
    eps = 1e-12
    product = (input1 * input2).sum(-1)
    cosine = product / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    where = backend.functional.where
    loss = where(target == 1, 1 - cosine, 0) + where(target == -1, (cosine - margin).clamp_min(0), 0)
    return reduced(loss, reduction)


declare(
    "nn.functional.cosine_embedding_loss",
    [
        Sample(Arg(4, 3), Arg(4, 3), Arg(**_signs)),
        Sample(Arg(3), Arg(3), Arg(values=1.0, grad=False)),
        Sample(Arg(4, 3), Arg(4, 3), Arg(**_signs), 0.3, reduction="none"),
    ],
)


@in_full_precision
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(a, p) - d(a, n)) with the p-norm distance d over the last dimension.

    - `anchor`, `positive`, `negative` (Tensor): a, p and n, (N, D) or (D), with as many dimensions each
    - `margin` (float, positive, default 1.0): how much closer the positive is to be
    - `p` (float, default 2): of the norm
    - `eps` (float, default 1e-06): added to the differences, so that the norm has a slope at 0
    - `swap` (bool, default False): takes min(d(a, n), d(p, n)) instead of d(a, n)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". ValueError for a margin that is not positive or another reduction,
    RuntimeError for other numbers of dimensions. Source: V. Balntas et al., Learning Shallow Convolutional Feature
    Descriptors with Triplet Losses, 2016.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> a, p, n = ferro.tensor([[0.0]]), ferro.tensor([[1.0]]), ferro.tensor([[1.5]])
        >>> F.triplet_margin_loss(a, p, n, eps=0.0)
        tensor(0.5000)
    """
    reduction = reduction_of("triplet_margin_loss", reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return backend.functional.pairwise_distance(x, y, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(a, p) - d(a, n)) with a distance of one's own.

    - `anchor`, `positive`, `negative` (Tensor): a, p and n, of any shapes that d takes, with as many dimensions each
    - `distance_function` (callable, default None): d(x, y), a tensor; None takes the Euclidean distance
      `pairwise_distance`
    - `margin` (float, positive, default 1.0): how much closer the positive is to be
    - `swap` (bool, default False): takes min(d(a, n), d(p, n)) instead of d(a, n)
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of d's with reduction "none". ValueError for a margin that is not positive or
    another reduction, RuntimeError for other numbers of dimensions.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> a, p, n = ferro.tensor([[0.0]]), ferro.tensor([[1.0]]), ferro.tensor([[1.5]])
        >>> F.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1))
        tensor(0.5000)
    """
    reduction = reduction_of("triplet_margin_with_distance_loss", reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    distance = distance_function or backend.functional.pairwise_distance
    return _triplet("triplet_margin_with_distance_loss", anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    dims = [t._data.ndim for t in (anchor, positive, negative)]
    if len(set(dims)) > 1:
        raise RuntimeError(
            f"{name}: The anchor, positive, and negative tensors are expected to have "
            f"the same number of dimensions, but got: anchor {dims[0]}D, positive "
            f"{dims[1]}D, and negative {dims[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = backend.functional.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)


_three = (Arg(4, 3), Arg(4, 3), Arg(4, 3))
declare(
    "nn.functional.triplet_margin_loss",
    [
        Sample(*_three),
        Sample(*_three, margin=0.5, p=1),
        Sample(*_three, swap=True, reduction="none"),
        Sample(Arg(3), Arg(3), Arg(3)),
    ],
)
declare(
    "nn.functional.triplet_margin_with_distance_loss",
    [Sample(*_three), Sample(*_three, margin=0.5, swap=True, reduction="sum")],
)


# -- several labels ----------------------------------------------------------------------------------------------------


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the classes (last dimension) of -w (y log sigmoid(x) + (1 - y) log sigmoid(-x)).

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): y, 1 for the labels of a row and 0 for other classes, in the shape of `input`
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.multilabel_soft_margin_loss(ferro.zeros(1, 2), ferro.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """
    reduction = reduction_of("multilabel_soft_margin_loss", reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input._data.shape[-1], reduction)


declare(
    "nn.functional.multilabel_soft_margin_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(4), Arg(4), reduction="sum"),
        Sample(Arg(3, 4), Arg(3, 4), Arg(4, low=0.1), reduction="none"),
    ],
)


@in_full_precision
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the classes j other than the target t of w[t] max(0, margin - x[t] + x[j])ᵖ / C.

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): t, class indices, int64, (N), or 0-d or (1) for one sample
    - `p` (int, default 1): 1 or 2
    - `margin` (float, default 1.0): by how much the target is to be ahead
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". ValueError for another `p`, a weight of two dimensions or another
    reduction; RuntimeError for other shapes, indices that are no classes or not int64.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.multi_margin_loss(ferro.tensor([[1.0, 0.5, 3.0]]), ferro.tensor([0]))
        tensor(1.1667)
    """
    name = "multi_margin_loss"
    reduction = reduction_of(name, reduction, size_average, reduce)
    floating(name, input, weight)
    if p not in (1, 2):
        raise ValueError(f"{name}: only p == 1 and p == 2 supported, got {p}")
    shape = input._data.shape
    if len(shape) > 2 or 0 in shape[-1:] or (len(shape) == 2 and shape[1] == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    x = input if len(shape) == 2 else input.reshape(1, -1)
    n, classes = x._data.shape
    if weight is not None and weight._data.ndim != 1:
        raise ValueError(f"{name}: weight must be one-dimensional, got shape {list(weight._data.shape)}")
    if weight is not None and weight._data.shape != (classes,):
        raise RuntimeError(f"{name}: inconsistent weight size, expected {classes} but got {list(weight._data.shape)}")
    if target._data.size != n or target._data.ndim > 1:
        raise RuntimeError(
            f"{name}: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected "
            f"target size [{n}], but got {list(target._data.shape)}. Input has shape {list(shape)}."
        )
    if target._data.dtype != np.int64:
        raise RuntimeError(
            f"{name}: expected scalar type Long but found {dtypes.type_name(target.dtype)} in the target; use target.long()"
        )
    t = target._data.reshape(n)
    if n and not 0 <= plain(t).min() <= plain(t).max() < classes:
        raise RuntimeError(f"{name}: target out of range: the input has {classes} classes")
    others = (t[:, None] != np.arange(classes)).astype(x._data.dtype)
    index = wrap(t.reshape(n, 1))
    gaps = (x - backend.functional.gather(x, 1, index) + margin).clamp_min(0)
    terms = (gaps if p == 1 else gaps * gaps) * wrap(others)
    if weight is not None:
        terms = terms * backend.functional.gather(weight.expand(n, classes), 1, index)
    loss = terms.sum(1) / classes
    return reduced(loss.reshape(target._data.shape) if len(shape) < 2 and reduction == "none" else loss, reduction)


declare(
    "nn.functional.multi_margin_loss",
    [
        Sample(Arg(3, 4), Arg(3, dtype="int64", low=0, high=4)),
        Sample(Arg(4), Arg(1, dtype="int64", low=0, high=4)),
        Sample(Arg(3, 4), Arg(3, dtype="int64", low=0, high=4), 2, 0.5, Arg(4, low=0.1, grad=False), reduction="none"),
    ],
)


@in_full_precision
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The sum over labels t and other classes j of max(0, 1 - x[t] + x[j]) / C.

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): class indices, int64, in the shape of `input`; the labels of a row end at its first -1
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". RuntimeError for other shapes, a target that is not int64 and
    labels that are no classes; ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x = ferro.tensor([[0.0, 0.5, 1.0]])
        >>> F.multilabel_margin_loss(x, ferro.tensor([[2, -1, 0]]))  # the only label is 2
        tensor(0.1667)
    """
    name = "multilabel_margin_loss"
    reduction = reduction_of(name, reduction, size_average, reduce)
    floating(name, input)
    shape = input._data.shape
    if len(shape) > 2 or 0 in shape[1:] or (len(shape) == 1 and shape[0] == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if target._data.shape != shape:
        raise RuntimeError(
            f"{name}: inconsistent target size: {list(target._data.shape)} for input of size: {list(shape)}"
        )
    if target._data.dtype != np.int64:
        raise RuntimeError(
            f"{name}: expected scalar type Long but found {target.dtype} in the target; use target.long()"
        )
    x = input if len(shape) == 2 else input.reshape(1, -1)
    n, classes = x._data.shape
    labels = target._data.reshape(n, classes)
    used = np.logical_and.accumulate(labels >= 0, axis=1)
    if labels.size and not (plain(labels).min() >= -1 and plain(labels).max() < classes):
        raise RuntimeError(f"{name}: target out of range: labels lie in [0, {classes - 1}], -1 ends them")
    safe = np.where(used, labels, 0)
    is_label = (np.where(used, labels, classes)[:, :, None] == np.arange(classes)).any(axis=1)
    # pairs (label, other class); what does not count is masked
    pairs = used[:, :, None] & ~is_label[:, None, :]
    gaps = (1 - backend.functional.gather(x, 1, wrap(safe)).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    loss = (gaps * wrap(pairs.astype(x._data.dtype))).sum((1, 2)) / classes
    return reduced(loss.reshape(()) if len(shape) < 2 and reduction == "none" else loss, reduction)


declare(
    "nn.functional.multilabel_margin_loss",
    [
        Sample(Arg(2, 4), Arg(values=[[3, 0, -1, 1], [1, -1, -1, -1]], dtype="int64")),
        Sample(Arg(4), Arg(values=[0, 1, 2, -1], dtype="int64"), reduction="none"),
    ],
)
