"""Losses of classes: cross entropies, Kullback-Leibler, CTC."""

from __future__ import annotations

import warnings

from ferro.tensor import Tensor

from .. import functional as F
from .loss_base import _Loss, _WeightedLoss


class NLLLoss(_WeightedLoss):
    """Minus the log probability of the target class: the second half of CrossEntropyLoss, for inputs that went through
    LogSoftmax.

    - `weight` (Tensor, default None): (C,), a factor for each class
    - `ignore_index` (int, default -100): targets of this number do not count
    - `reduction` (str, default 'mean'): 'mean' (weighted by `weight`), 'sum', or 'none', one number for each target
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: the input is (N, C), (N, C, d1, ...) or (C), the target (N), (N, d1, ...) or (), of integers; the result is
    (), or the shape of the target with 'none'. IndexError for a class that is not in 0 ... C - 1.

    Example::

        >>> import ferro
        >>> log_p = ferro.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
        >>> ferro.nn.NLLLoss(reduction="none")(log_p, ferro.tensor([1, 0]))
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
    """The old name of NLLLoss; it warns.

    - `weight` (Tensor, default None): (C,), a factor for each class
    - `ignore_index` (int, default -100): targets of this number do not count
    - `reduction` (str, default 'mean'): 'mean' (weighted by `weight`), 'sum', or 'none', one number for each target
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: as NLLLoss, for images the input (N, C, H, W) and the target (N, H, W).

    Example::

        >>> import ferro, warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     loss = ferro.nn.NLLLoss2d()
        >>> loss(ferro.zeros(1, 3, 2, 2).log_softmax(dim=1), ferro.zeros(1, 2, 2, dtype=ferro.long))
        tensor(1.0986)
    """

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
    """Minus the log probability of a label sequence, summed over all its alignments with a longer sequence of
    predictions.

    - `blank` (int, default 0): the class that stands for no label
    - `reduction` (str, default 'mean'): 'mean' of losses that are divided by their target's length, 'sum', or 'none',
      one number for each sequence
    - `zero_infinity` (bool, default False): True turns infinite losses (targets too long for the input) and their
      gradients into 0

    Called as `loss(log_probs, targets, input_lengths, target_lengths)`. Shapes: log_probs (T, N, C) from LogSoftmax, or
    (T, C); targets (N, S), or all joined in one dimension; lengths (N); the result is (), or (N) with 'none'.
    RuntimeError for lengths that do not fit and for targets that are not classes. Source: Graves, Fernández, Gomez and
    Schmidhuber, Connectionist Temporal Classification, 2006.

    Example::

        >>> import ferro
        >>> log_probs = ferro.zeros(4, 1, 2).log_softmax(dim=2)  # 4 steps, each class 1/2
        >>> loss = ferro.nn.CTCLoss(reduction="sum")(log_probs, ferro.tensor([[1]]), ferro.tensor([4]), ferro.tensor([1]))
        >>> (-loss).exp()  # 10 of 16 paths
        tensor(0.6250)
    """

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
    """The cross entropy of softmax(input) and the target: the usual loss of classifiers. The input has scores, not
    probabilities.

    - `weight` (Tensor, default None): (C,), a factor for each class
    - `ignore_index` (int, default -100): targets of this number do not count
    - `reduction` (str, default 'mean'): 'mean' (weighted by `weight`), 'sum', or 'none', one number for each target
    - `label_smoothing` (float, default 0.0): this share of the target is spread evenly over all classes
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: the input is (N, C), (N, C, d1, ...) or (C); the target has class numbers (int64), (N), (N, d1, ...) or (),
    or probabilities in the shape of the input; the result is (), or (N, d1, ...) with 'none'. IndexError if a class is
    not in 0 ... C - 1; RuntimeError for a floating target of class numbers.

    Example::

        >>> import ferro
        >>> scores = ferro.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
        >>> loss = ferro.nn.CrossEntropyLoss()(scores, ferro.tensor([0, 2]))
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
    """The Kullback-Leibler divergence target (log(target) - input), where the input is a log probability.

    - `reduction` (str, default 'mean'): 'batchmean' (the sum divided by N, the divergence of mathematics), 'mean' over
      all elements (with a warning), 'sum' or 'none'
    - `log_target` (bool, default False): the target is a log probability too
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'. Source: Kullback and Leibler,
    On Information and Sufficiency, 1951.

    Example::

        >>> import ferro
        >>> input = ferro.tensor([[0.5, 0.5]]).log()
        >>> ferro.nn.KLDivLoss(reduction="batchmean")(input, ferro.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """

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
    """The binary cross entropy -(y log x + (1 - y) log(1 - x)) of probabilities x and targets y from 0 to 1.

    - `weight` (Tensor, default None): a factor for each element, broadcast
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape, else ValueError; the result is (), or that shape with 'none'. RuntimeError
    for an input outside of [0, 1]. Logarithms below -100 count as -100. BCEWithLogitsLoss of the scores is more exact.

    Example::

        >>> import ferro
        >>> ferro.nn.BCELoss()(ferro.tensor([0.5, 0.5]), ferro.tensor([0.0, 1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The cross entropy of sigmoid(input) and targets from 0 to 1: for labels that are independent of each other.

    - `weight` (Tensor, default None): a factor for each element, broadcast
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `pos_weight` (Tensor, default None): a factor for the positive part of each class
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape, else ValueError; the result is (), or that shape with 'none'. It is more
    exact than a Sigmoid followed by BCELoss.

    Example::

        >>> import ferro
        >>> ferro.nn.BCEWithLogitsLoss()(ferro.tensor([0.0, 100.0]), ferro.tensor([1.0, 1.0]))
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
