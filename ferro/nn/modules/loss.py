"""Loss layers: each calls the function of the same formula with the arguments it was made with."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from ferro.tensor import Tensor

from .. import functional as F
from .distance import PairwiseDistance
from .module import Module


class _Loss(Module):
    """A loss with a reduction: "mean", "sum" or "none"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element, kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two old flags stand for, if either is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=4
    )
    return reduction


# -------------------------------------------------------------------- regression


class L1Loss(_Loss):
    """The absolute error |x - y| of an input x and a target y; `reduction`: "mean", "sum" or "none".

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> nn.L1Loss(reduction="sum")(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared error (x - y)² of an input x and a target y.

    - `reduction`: "mean" over all elements, their "sum", or "none": a tensor of the shape of the input

    Warns where the shapes differ and broadcast: that is nearly always a mistake.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> nn.MSELoss()(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / (2 beta) where d = |x - y| < beta, d - beta / 2 otherwise."""

    beta: float

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where d = |x - y| <= delta, delta (d - delta / 2) otherwise."""

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of a Poisson variable whose rate, or its logarithm, is the input."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood of a normal variable with the given mean (the input) and variance."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# -------------------------------------------------------------------- classification and distributions


class NLLLoss(_WeightedLoss):
    """Minus the log probability of the target class: the second half of CrossEntropyLoss, for inputs that went through LogSoftmax.

    The arguments are those of CrossEntropyLoss without `label_smoothing`; targets are classes.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> log_p = ferro.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
        >>> nn.NLLLoss(reduction="none")(log_p, ferro.tensor([1, 0]))
        tensor([0.2877, 0.6931])
    """

    ignore_index: int

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead.", category=FutureWarning, stacklevel=2
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CTCLoss(_Loss):
    """Minus the log probability of a label sequence under predictions whose alignment with it is not known."""

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of softmax(input) and the target: the usual loss of classifiers.  The input has scores, not probabilities.

    - `weight`: a factor for each class
    - `ignore_index`: targets of this number do not count
    - `reduction`: "mean" (weighted by `weight`), "sum" or "none"
    - `label_smoothing`: this share of the target is spread evenly over all classes

    The input is (N, C), (N, C, d1, ...) or (C); the target has class numbers (int64), (N), (N, d1, ...) or (), or probabilities in
    the shape of the input.  IndexError if a class is not in 0 ... C - 1; RuntimeError for a floating target of class numbers.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> scores = ferro.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
        >>> loss = nn.CrossEntropyLoss()(scores, ferro.tensor([0, 2]))
        >>> round(loss.item(), 3)
        0.669
        >>> loss.backward()
        >>> scores.grad.sum(dim=1).abs().max() < 1e-6
        tensor(True)
    """

    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class KLDivLoss(_Loss):
    """target (log target - input), the input being a log probability, and with log_target the target too."""

    log_target: bool

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """The binary cross entropy of probabilities.

    Example::

        >>> import ferro
        >>> ferro.nn.BCELoss()(ferro.tensor([0.5, 0.5]), ferro.tensor([0.0, 1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The cross entropy of sigmoid(input) and targets from 0 to 1: for labels that are independent of each other.

    - `weight`: a factor for each element, broadcast
    - `pos_weight`: a factor for the positive part of each class
    - `reduction`: "mean", "sum" or "none"

    Input and target have one shape.  It is more exact than a Sigmoid followed by BCELoss.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> nn.BCEWithLogitsLoss()(ferro.tensor([0.0, 100.0]), ferro.tensor([1.0, 1.0]))
        tensor(0.3466)
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)) for targets y of 1 and -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


# -------------------------------------------------------------------- pairs and triples


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
    """max(0, -y (x1 - x2) + margin)."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """x where the target is 1, max(0, margin - x) where it is -1."""

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
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm of the difference."""

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

    With `swap` the distance of positive and negative counts instead where it is the smaller one.
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


# -------------------------------------------------------------------- several classes at once


class MultiMarginLoss(_WeightedLoss):
    """The mean over classes i other than the target t of max(0, margin - x_t + x_i)^p."""

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
    """The hinge loss between each target class (listed, up to the first -1) and each other class."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy of each class with logits, averaged over classes."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)
