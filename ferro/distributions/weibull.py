"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull distribution, of scale x^(1 / concentration) with x of Exponential(1).

    - `scale`, `concentration` (float or Tensor): above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Weibull
        >>> round(Weibull(1.0, 1.0).mean.item(), 4)
        1.0
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        transforms = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        base = Exponential(ferro.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """1 / concentration."""
        return self.concentration.reciprocal()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    def _moment(self, n: int) -> Tensor:
        """E[(x / scale) ** n] = Γ(1 + n / concentration)."""
        return (1 + n * self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + (self.scale * reciprocal).log() + 1
