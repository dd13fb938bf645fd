"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .utils import broadcast_all

__all__ = ["Binomial"]


def _positive_part(x: Tensor) -> Tensor:
    """max(x, 0), with the gradient 1/2 at 0: both sides of the log odds 0 are alike."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ByProbability):
    """The number of successes in `total_count` trials.

    - `total_count` (int or Tensor, default 1): how many trials
    - `probs` (float or Tensor, default None): the probability, from 0 to 1; or
    - `logits` (float or Tensor, default None): its log odds; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Binomial
        >>> Binomial(4, 0.25).mean, Binomial(4, 0.25).variance
        (tensor(1.), tensor(0.7500))
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        count, given = broadcast_all(total_count, one_of(probs, logits))
        self.total_count = count.to(given.dtype)
        self._give("logits" if probs is None else "probs", given)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with ferro.no_grad():
            return ferro.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        n, k = self.total_count, self._checked(value)
        choices = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
        # n softplus(logits), finite for large logits
        norm = n * _positive_part(self.logits) + n * (-self.logits.abs()).exp().log1p()
        return k * self.logits + choices - norm

    def _one_count(self, what: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return count

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._one_count("enumerate_support")
        return self._enumerated(ferro.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)
