"""Half: the distribution of the absolute value of a symmetric one."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import broadcast_all


class Half(TransformedDistribution):
    """|x| of a distribution `_whole` of location 0 and the given scale: twice its density on the positive side."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the whole distribution."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ferro.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        _, value = broadcast_all(self.scale, self._checked(value))
        inside = self.base_dist.log_prob(value) + math.log(2)
        return ferro.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
