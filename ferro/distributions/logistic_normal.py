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
    """Vectors of K numbers with sum 1, from K - 1 normal ones by StickBreakingTransform.

    - `loc` (Tensor): (..., K - 1), the means
    - `scale` (Tensor): (..., K - 1), the standard deviations, above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., K).

    Example::

        >>> import ferro
        >>> from ferro.distributions import LogisticNormal
        >>> LogisticNormal(ferro.zeros(2), ferro.ones(2)).sample().shape
        ferro.Size([3])
    """

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
