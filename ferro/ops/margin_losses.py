"""Losses of margins: between classes -1 and 1, of ranks, of similar and different samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.arguments import unlike
from ferro.core.casting import in_full_precision
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import softplus
from ferro.ops.entropy import reduced, reduction_of
from ferro.ops.mistakes import no_broadcast

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


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
