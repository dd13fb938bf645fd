"""The one-hot categorical distribution, and its straight-through form."""

from __future__ import annotations

from typing import Any

import ferro
from ferro.nn.functional import one_hot
from ferro.tensor import Tensor

from . import constraints
from .categorical import Categorical, OverCategories

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategories):
    """Vectors with a 1 at the index that Categorical(probs, logits) draws."""

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
        return self._enumerated(ferro.eye(self.event_shape[0], dtype=self._param.dtype), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose rsample takes the gradient of the probabilities for that of the sample.

    (Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic neurons", 2013: biased.)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
