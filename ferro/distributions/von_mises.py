"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


def _log_bessel(x: Tensor, order: int) -> Tensor:
    """ln I_0(x) or ln I_1(x), of the scaled functions: no overflow."""
    scaled = ferro.special.i0e(x) if order == 0 else ferro.special.i1e(x)
    return scaled.log() + x


class VonMises(Distribution):
    """Angles in [-π, π) about `loc`, with the density exp(concentration cos(x - loc)) / (2 π I_0(concentration)).

    - `loc` (float or Tensor): the mean angle
    - `concentration` (float or Tensor): above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source of the samples: Best and Fisher, Efficient Simulation
    of the von Mises Distribution, 1979.

    Example::

        >>> import ferro
        >>> from ferro.distributions import VonMises
        >>> round(VonMises(0.0, 1.0).variance.item(), 4)
        0.5536
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Tensor:
        cosine = (self._checked(value) - self.loc).cos()
        return self.concentration * cosine - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy proposal."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # tau - sqrt(2 tau) cancels for small kappa
        return ferro.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with ferro.no_grad():
            loc, kappa, r = self.loc.double(), self.concentration.double(), self._proposal_r
            angle = ferro.zeros(shape, dtype=ferro.float64, device=loc.device)
            done = ferro.zeros(shape, dtype=ferro.bool, device=loc.device)
            while not done.all():
                u1, u2, u3 = ferro.rand((3, *shape), dtype=ferro.float64, device=loc.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = ferro.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accepted
            return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance 1 - I_1(κ) / I_0(κ)."""
        return 1 - ferro.special.i1e(self.concentration) / ferro.special.i0e(self.concentration)
