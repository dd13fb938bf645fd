"""The logistic-normal distribution on the simplex."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Vectors of K numbers on the simplex, from K - 1 normal ones by StickBreakingTransform."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent[Normal]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        normal = Normal(loc, scale, validate_args=validate_args)
        if not normal.batch_shape:
            normal = normal.expand([1])
        super().__init__(normal, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale
