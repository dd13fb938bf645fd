"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """A distribution on (0, 1) much like Beta, whose distribution function 1 - (1 - x^a)^b has a closed inverse.

    - `concentration1`, `concentration0` (float or Tensor): a and b, above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source: Kumaraswamy, A Generalized Probability Density
    Function for Double-Bounded Random Processes, 1980.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Kumaraswamy
        >>> round(Kumaraswamy(1.0, 2.0).mean.item(), 4)
        0.3333
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        a, b = self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        transforms = [
            PowerTransform(exponent=b.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=a.reciprocal()),
        ]
        base = Uniform(ferro.zeros_like(b), ferro.ones_like(b), validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """E[x ** n] = b B(1 + n / a, b)."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
