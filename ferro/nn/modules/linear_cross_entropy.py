"""LinearCrossEntropyLoss: the last layer of a classifier and its loss in one."""

from __future__ import annotations

import math
from typing import Any

from ferro.ops.linear_entropy import LinearCrossEntropyOptions
from ferro.tensor import Tensor

from .. import functional as F
from .linear import Linear
from .loss import _WeightedLoss


class LinearCrossEntropyLoss(_WeightedLoss):
    """A Linear layer and CrossEntropyLoss in one, so that the scores of large vocabularies never lie in memory all at
    once.

    - `in_features` (int): the size of the last dimension of the input
    - `num_classes` (int): C
    - `out_features` (integers, default ()): further dimensions d1, ... of the scores; the weight has C d1 ... rows
    - `bias` (bool, default False): True adds a number to each score
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each target
    - `weight` (Tensor, default None): (C,), a factor for each class
    - `ignore_index` (int, default None): targets of this number do not count
    - `label_smoothing` (float, default 0.0): this share of the target is spread evenly over all classes
    - `options` (LinearCrossEntropyOptions, default None): how the batch is cut

    Shapes: the input is (N, in_features), the target (N) or (N, d1, ...), of integers; the result is (), or the
    target's shape with 'none'.

    Example::

        >>> import ferro
        >>> loss = ferro.nn.LinearCrossEntropyLoss(4, num_classes=8)
        >>> round(loss(ferro.zeros(3, 4), ferro.tensor([0, 3, 7])).item(), 4)
        2.0794
    """

    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float
    options: LinearCrossEntropyOptions | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
