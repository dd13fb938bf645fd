"""The relaxed one-hot categorical (Gumbel-softmax) distribution, and that of its logarithm."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .categorical import Categorical, OverCategories
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OverCategories):
    """The distribution of the logarithm of RelaxedOneHotCategorical.

    (Maddison, Mnih and others, "The concrete distribution", 2017; Jang, Gu and Poole, "Categorical reparameterization with
    Gumbel-softmax", 2017.)
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(
            ferro.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device)
        )
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        k = float(self.event_shape[0])
        scale = ferro.full_like(self.temperature, k).lgamma() + (k - 1) * self.temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors with sum 1 that come near a single 1 as the temperature falls, differentiable in the probabilities.

    - `temperature` (Tensor): above 0
    - `probs` (Tensor, default None): (..., C), what each category weighs, divided by their sum; or
    - `logits` (Tensor, default None): (..., C), their logarithms; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., C). Sources: Maddison, Mnih and others, The Concrete Distribution, 2017; Jang, Gu and Poole,
    Categorical Reparameterization with Gumbel-Softmax, 2017.

    Example::

        >>> import ferro
        >>> from ferro.distributions import RelaxedOneHotCategorical
        >>> RelaxedOneHotCategorical(ferro.tensor(0.5), probs=ferro.tensor([1.0, 3.0])).rsample().shape
        ferro.Size([2])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
