"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.nn.functional import logsigmoid
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .gamma import Gamma
from .utils import broadcast_all, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ByProbability):
    """The number of successes before `total_count` failures.

    - `total_count` (float or Tensor): at least 0
    - `probs` (float or Tensor, default None): the probability, of a success, below 1; or
    - `logits` (float or Tensor, default None): its log odds; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import NegativeBinomial
        >>> NegativeBinomial(3.0, 0.5).mean
        tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        count, given = broadcast_all(total_count, one_of(probs, logits))
        self.total_count = count.to(given.dtype)
        self._give("logits" if probs is None else "probs", given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ferro.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with ferro.no_grad():
            return ferro.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        n, k = self.total_count, self._checked(value)
        powers = n * logsigmoid(-self.logits) + k * logsigmoid(self.logits)
        choices = (n + k).lgamma() - (1.0 + k).lgamma() - n.lgamma()
        return powers + choices.masked_fill(n + k == 0.0, 0.0)
