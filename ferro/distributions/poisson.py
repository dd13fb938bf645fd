"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts of events that come at a rate.

    - `rate` (float or Tensor): at least 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The shape of the rate is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Poisson
        >>> round(Poisson(2.0).log_prob(ferro.tensor(0.0)).item(), 4)
        -2.0
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with ferro.no_grad():
            return ferro.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return ferro.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp()
