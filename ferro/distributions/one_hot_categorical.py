"""The one-hot categorical distribution, and its straight-through form."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.nn.functional import one_hot
from ferro.tensor import Tensor

from . import constraints
from .categorical import Categorical, OverCategories

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategories):
    """Vectors with a 1 at the number that Categorical(probs, logits) draws, else 0.

    - `probs` (Tensor, default None): (..., C), what each category weighs, divided by their sum; or
    - `logits` (Tensor, default None): (..., C), their logarithms; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., C).

    Example::

        >>> import ferro
        >>> from ferro.distributions import OneHotCategorical
        >>> OneHotCategorical(probs=ferro.tensor([0.0, 1.0])).sample()
        tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(Categorical(probs, logits), validate_args)

    def _one_hot(self, index: Tensor) -> Tensor:
        return one_hot(index, self.event_shape[0]).to(self.probs.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(
            ferro.eye(self.event_shape[0], dtype=self._param.dtype, device=self._param.device), expand
        )


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose rsample takes the gradient of the probabilities for that of the sample.

    - `probs` (Tensor, default None): (..., C), what each category weighs, divided by their sum; or
    - `logits` (Tensor, default None): (..., C), their logarithms; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., C). Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation, 2013.

    Example::

        >>> import ferro
        >>> from ferro.distributions import OneHotCategoricalStraightThrough
        >>> OneHotCategoricalStraightThrough(probs=ferro.tensor([0.0, 1.0])).rsample()
        tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
