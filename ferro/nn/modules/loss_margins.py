"""Losses with a margin: of pairs, triples, and several classes."""

from __future__ import annotations

from collections.abc import Callable

from ferro.tensor import Tensor

from .. import functional as F
from .distance import PairwiseDistance
from .loss_base import _Loss, _WeightedLoss


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)) for targets y of 1 and -1.

    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'.

    Example::

        >>> import ferro
        >>> ferro.nn.SoftMarginLoss()(ferro.tensor([0.0, 100.0]), ferro.tensor([1.0, 1.0]))
        tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class _MarginLoss(_Loss):
    """A loss whose first argument is a margin."""

    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """max(0, -y (x1 - x2) + margin): x1 should be above x2 where y is 1, below where it is -1.

    - `margin` (float, default 0.0): by how much
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Called as `loss(input1, input2, target)`. Shapes: all three (N), else RuntimeError; the result is (), or (N) with
    'none'.

    Example::

        >>> import ferro
        >>> x1, x2 = ferro.tensor([1.0, 2.0]), ferro.tensor([3.0, 0.0])
        >>> ferro.nn.MarginRankingLoss(reduction="none")(x1, x2, ferro.ones(2))
        tensor([2., 0.])
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """x where the target is 1, max(0, margin - x) where it is -1: x is a distance of similar or different things.

    - `margin` (float, default 1.0): the distance from which different things do not count
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'.

    Example::

        >>> import ferro
        >>> loss = ferro.nn.HingeEmbeddingLoss(reduction="none")
        >>> loss(ferro.tensor([0.5, 0.25, 4.0]), ferro.tensor([1.0, -1.0, -1.0]))
        tensor([0.5000, 0.7500, 0.0000])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    - `margin` (float, default 0.0): different vectors may have this cosine; from 0 to 0.5 is sensible
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Called as `loss(input1, input2, target)`. Shapes: the inputs are (N, D) and the target (N), or (D) and (); the
    result is (), or the target's shape with 'none'. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> x1, x2 = ferro.tensor([[3.0, 4.0]]), ferro.tensor([[4.0, -3.0]])
        >>> ferro.nn.CosineEmbeddingLoss()(x1, x2, ferro.ones(1))
        tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the p-norm of the difference.

    - `margin` (float, default 1.0): how much nearer the positive should be; ValueError unless it is above 0
    - `p` (float, default 2.0): the exponent of the norm
    - `eps` (float, default 1e-6): added to the difference, so that the gradient exists where two are equal
    - `swap` (bool, default False): True counts the distance of positive and negative where it is the smaller one
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Called as `loss(anchor, positive, negative)`. Shapes: all three (N, D), or (D); the result is (), or (N) with
    'none'. Source: Balntas, Riba, Ponsa and Mikolajczyk, Learning Local Feature Descriptors with Triplets and Shallow
    Convolutional Neural Networks, 2016.

    Example::

        >>> import ferro
        >>> loss = ferro.nn.TripletMarginLoss(eps=0.0)
        >>> loss(ferro.tensor([[0.0, 0.0]]), ferro.tensor([[3.0, 4.0]]), ferro.tensor([[4.0, 0.0]]))
        tensor(2.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, found {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with a distance of one's own.

    - `distance_function` (function of two tensors, default None): d; None takes PairwiseDistance
    - `margin` (float, default 1.0): how much nearer the positive should be; ValueError unless it is above 0
    - `swap` (bool, default False): True counts the distance of positive and negative where it is the smaller one
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element

    Called as `loss(anchor, positive, negative)`. Shapes: all three (N, ...), as d takes them; the result is (), or the
    shape of d's result with 'none'. Source: Balntas, Riba, Ponsa and Mikolajczyk, Learning Local Feature Descriptors
    with Triplets and Shallow Convolutional Neural Networks, 2016.

    Example::

        >>> import ferro
        >>> loss = ferro.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(dim=-1))
        >>> loss(ferro.tensor([[0.0, 0.0]]), ferro.tensor([[3.0, 4.0]]), ferro.tensor([[4.0, 0.0]]))
        tensor(4.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, found {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        near = self.distance_function(anchor, positive)
        far = self.distance_function(anchor, negative)
        if self.swap:
            far = far.minimum(self.distance_function(positive, negative))
        loss = (near - far + self.margin).clamp(min=0)
        if self.reduction == "none":
            return loss
        return loss.mean() if self.reduction == "mean" else loss.sum()


class MultiMarginLoss(_WeightedLoss):
    """The sum over classes i other than the target t of max(0, margin - x_t + x_i)^p, divided by C: the hinge loss of
    several classes.

    - `p` (int, default 1): 1 or 2, else ValueError
    - `margin` (float, default 1.0): by how much the score of the target should be the largest
    - `weight` (Tensor, default None): (C,), a factor for each class; ValueError for other dimensions
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each sample
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: the input is (N, C) or (C), the target (N) or (), of integers; the result is (), or (N) with 'none'. Source:
    Crammer and Singer, On the Algorithmic Implementation of Multiclass Kernel-based Vector Machines, 2001.

    Example::

        >>> import ferro
        >>> ferro.nn.MultiMarginLoss()(ferro.tensor([[1.0, 2.0, 4.0, 8.0]]), ferro.tensor([3]))
        tensor(0.)
        >>> ferro.nn.MultiMarginLoss()(ferro.tensor([[1.0, 2.0, 4.0, 8.0]]), ferro.tensor([2]))
        tensor(1.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """The hinge loss between each class of the target and each other class, divided by C.

    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each sample
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target are (N, C) or (C); each row of the target lists its classes (int64), up to the first -1.
    The result is (), or (N) with 'none'.

    Example::

        >>> import ferro
        >>> ferro.nn.MultiLabelMarginLoss()(ferro.tensor([[0.0, 2.0, 0.0, 4.0]]), ferro.tensor([[3, 1, -1, 0]]))
        tensor(0.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy of each class with its logit, averaged over the classes.

    - `weight` (Tensor, default None): (C,), a factor for each class
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each sample
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target (of 0 and 1) are (N, C); the result is (), or (N) with 'none'.

    Example::

        >>> import ferro
        >>> ferro.nn.MultiLabelSoftMarginLoss()(ferro.tensor([[0.0, 100.0]]), ferro.tensor([[1.0, 1.0]]))
        tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)
