"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over `loc` with the tail index `concentration`: exponential where it is 0, bounded below 0.

    - `loc` (float or Tensor): the least value
    - `scale` (float or Tensor): how wide, above 0
    - `concentration` (float or Tensor): the tail index
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source: Pickands, Statistical Inference Using Extreme Order
    Statistics, 1975.

    Example::

        >>> import ferro
        >>> from ferro.distributions import GeneralizedPareto
        >>> round(GeneralizedPareto(0.0, 1.0, 0.5).mean.item(), 4)
        2.0
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        top = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ferro.where(self.concentration < 0, top, math.inf))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(ferro.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _exponential(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 in those places, so that it divides."""
        zero = ferro.isclose(self.concentration, ferro.zeros_like(self.concentration))
        return zero, self.concentration.masked_fill(zero, 1)

    def log_prob(self, value: Any) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        zero, concentration = self._exponential()
        power = 1 / concentration + 1
        # at concentration -1 the density is constant: 0 ln 0 is 0
        tail = ferro.where(power.eq(0), ferro.zeros_like(z), power * (concentration * z).log1p())
        return -self.scale.log() - ferro.where(zero, z, tail)

    def log_survival_function(self, value: Any) -> Tensor:
        """ln(1 - cdf(value))."""
        z = (self._checked(value) - self.loc) / self.scale
        zero, concentration = self._exponential()
        return ferro.where(zero, -z, -(concentration * z).log1p() / concentration)

    def log_cdf(self, value: Any) -> Tensor:
        """ln cdf(value)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Tensor:
        zero, concentration = self._exponential()
        log_survival = ferro.log1p(-value)
        tail = self.scale / concentration * (-concentration * log_survival).expm1()
        return self.loc + ferro.where(zero, -self.scale * log_survival, tail)

    @property
    def mean(self) -> Tensor:
        valid = self.concentration < 1
        mean = self.loc + self.scale / (1 - self.concentration.masked_fill(~valid, 0.5))
        return mean.masked_fill(~valid, math.nan)

    @property
    def variance(self) -> Tensor:
        valid = self.concentration < 0.5
        c = self.concentration.masked_fill(~valid, 0.25)
        return (self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))).masked_fill(~valid, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
