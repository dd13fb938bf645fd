"""What all loss layers share: the reduction, its old names, and weights."""

from __future__ import annotations

import warnings

from ferro.tensor import Tensor

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
