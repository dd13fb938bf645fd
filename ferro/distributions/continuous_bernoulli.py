"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.nn.functional import binary_cross_entropy_with_logits
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ByProbability, ExponentialFamily):
    """Densities on [0, 1] in proportion to probs^x (1 - probs)^(1 - x).

    - `probs` (float or Tensor, default None): the probability, from 0 to 1; or
    - `logits` (float or Tensor, default None): its log odds; exactly one of both is given, else ValueError
    - `lims` (two floats, default (0.499, 0.501)): the closed forms cancel at 1/2; for probabilities between these their
      series there are used
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source: Loaiza-Ganem and Cunningham, The Continuous
    Bernoulli: Fixing a Pervasive Error in Variational Autoencoders, 2019.

    Example::

        >>> import ferro
        >>> from ferro.distributions import ContinuousBernoulli
        >>> round(ContinuousBernoulli(0.5).mean.item(), 4)
        0.5
        >>> round(ContinuousBernoulli(0.9).mean.item(), 4)
        0.6699
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        (given,) = broadcast_all(one_of(probs, logits))
        if probs is not None:
            # (checked before the clamp, which makes everything valid)
            if validate_args is not None and not constraints.unit_interval.check(given).all():
                raise ValueError(f"The parameter probs has invalid values: probabilities lie in [0, 1], got\n{given}")
            given = clamp_probs(given)
        self._give("logits" if probs is None else "probs", given)
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:  # type: ignore[override]
        """Probabilities, within the open interval."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _apart(self) -> tuple[Tensor, Tensor]:
        """Where the closed forms hold, and the probabilities with one for which they do in the other places."""
        low, high = self._lims
        apart = (self.probs <= low) | (self.probs > high)
        return apart, ferro.where(apart, self.probs, low)

    def _cont_bern_log_norm(self) -> Tensor:
        """ln C = ln(2 artanh(1 - 2p) / (1 - 2p))."""
        apart, p = self._apart()
        closed = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5) ** 2
        return ferro.where(apart, closed, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        apart, p = self._apart()
        closed = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return ferro.where(apart, closed, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        apart, p = self._apart()
        closed = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / ((-p).log1p() - p.log()) ** 2
        x = (self.probs - 0.5) ** 2
        return ferro.where(apart, closed, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(
            ferro.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        )

    def log_prob(self, value: Any) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return self._cont_bern_log_norm() - binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Any) -> Tensor:
        self._checked(value)
        apart, p = self._apart()
        closed = (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = ferro.where(apart, closed, value)
        return ferro.where(value <= 0.0, 0.0, ferro.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        apart, p = self._apart()
        closed = ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return ferro.where(apart, closed, value)

    def entropy(self) -> Tensor:
        log0, log1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        low, high = (lim - 0.5 for lim in self._lims)
        apart = (x <= low) | (x > high)
        away = ferro.where(apart, x, low)
        closed = away.expm1().abs().log() - away.abs().log()
        return ferro.where(apart, closed, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
