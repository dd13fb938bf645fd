"""The relaxed Bernoulli distribution, and that of its logits."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ByProbability):
    """The distribution of the logits of RelaxedBernoulli: a logistic number, moved by the log odds, over `temperature`.

    (Maddison, Mnih and others, "The concrete distribution", 2017.)
    """

    support = constraints.real
    has_rsample = False  # (as PyTorch says it of this one, though rsample is there)

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._give("logits" if probs is None else "probs", *broadcast_all(one_of(probs, logits)))
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ferro.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that come near 0 and 1 as the temperature falls, differentiable in the probability.

    - `temperature` (Tensor): above 0
    - `probs` (float or Tensor, default None): the probability, from 0 to 1; or
    - `logits` (float or Tensor, default None): its log odds; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`. Source: Maddison, Mnih and others, The Concrete Distribution: A
    Continuous Relaxation of Discrete Random Variables, 2017.

    Example::

        >>> import ferro
        >>> from ferro.distributions import RelaxedBernoulli
        >>> RelaxedBernoulli(ferro.tensor(0.5), probs=ferro.tensor([0.25, 0.5])).rsample().shape
        ferro.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
