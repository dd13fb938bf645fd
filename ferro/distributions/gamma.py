"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution on (0, inf), with the power concentration - 1 of x times exp(-rate x).

    - `concentration`, `rate` (float or Tensor): above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source of the gradients: Figurnov, Mohamed and Mnih,
    Implicit Reparameterization Gradients, 2018.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Gamma
        >>> Gamma(2.0, 4.0).mean, Gamma(2.0, 4.0).variance
        (tensor(0.5000), tensor(0.1250))
        >>> concentration = ferro.tensor(2.0, requires_grad=True)
        >>> Gamma(concentration, 1.0).rsample((3,)).sum().backward()
        >>> concentration.grad is None
        False
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = ferro._standard_gamma(self.concentration.expand(shape)) / self.rate
        return value.clamp(
            min=ferro.finfo(value.dtype).tiny
        )  # (0, for which log_prob may be infinite, by rounding only)

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(ferro.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        a, rate = self.concentration, self.rate
        return ferro.xlogy(a, rate) + ferro.xlogy(a - 1, value) - rate * value - a.lgamma()

    def cdf(self, value: Any) -> Tensor:
        return ferro.special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return (x + 1).lgamma() - (x + 1) * (-y).log()
