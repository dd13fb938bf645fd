"""The categorical distribution, and what distributions over its categories share."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .distribution import Distribution

__all__ = ["Categorical"]


class Categorical(ByProbability):
    """The number of a category, from 0 to C - 1, as drawn from an urn.

    - `probs` (Tensor, default None): (..., C), what each category weighs, divided by their sum; or
    - `logits` (Tensor, default None): (..., C), their logarithms; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The leading dimensions are `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Categorical
        >>> Categorical(probs=ferro.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
        >>> round(Categorical(probs=ferro.tensor([1.0, 3.0])).log_prob(ferro.tensor(1)).item(), 4)
        -0.2877
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given, name = one_of(probs, logits), "logits" if probs is None else "probs"
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        normalised = given - given.logsumexp(-1, keepdim=True) if probs is None else given / given.sum(-1, keepdim=True)
        self._give(name, normalised)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self._constant(math.nan, self.probs)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self._constant(math.nan, self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = ferro.multinomial(rows, Size(sample_shape).numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        index = self._checked(value).long().unsqueeze(-1)
        index, log_probs = ferro.broadcast_tensors(index, self.logits)
        return log_probs.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # -inf * 0 would be nan
        logits = self.logits.clamp(min=ferro.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ferro.arange(self._num_events, device=self._param.device), expand)


class OverCategories(Distribution):
    """Distributions of vectors with one element for each category of an inner `_categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, categorical: Categorical, validate_args: bool | None = None) -> None:
        self._categorical = categorical
        super().__init__(categorical.batch_shape, categorical.param_shape[-1:], validate_args)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities along the last dimension."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log probabilities along the last dimension."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape
