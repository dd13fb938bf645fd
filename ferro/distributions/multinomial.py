"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .binomial import Binomial
from .categorical import Categorical, OverCategories
from .utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(OverCategories):
    """How often each category comes in `total_count` draws of Categorical(probs, logits).

    - `total_count` (int, default 1): one for the whole batch, else NotImplementedError
    - `probs` (Tensor, default None): (..., C), what each category weighs, divided by their sum; or
    - `logits` (Tensor, default None): (..., C), their logarithms; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., C).

    Example::

        >>> import ferro
        >>> from ferro.distributions import Multinomial
        >>> Multinomial(4, probs=ferro.tensor([1.0, 3.0])).mean
        tensor([1., 3.])
    """

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: it is one int for the whole batch, got {total_count!r}"
            )
        self.total_count = total_count
        super().__init__(Categorical(probs, logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = ferro.zeros(self._extended_shape(Size(sample_shape)), dtype=drawn.dtype, device=drawn.device)
        return counts.scatter_add_(-1, drawn, ferro.ones_like(drawn)).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)  # (0 ln 0 is 0)
        choices = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return choices + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        # E[ln k!] of each count, which is binomial
        counts = Binomial(self.total_count, probs=self.probs)
        k = counts.enumerate_support(expand=False)[1:]
        expected = (counts.log_prob(k).exp() * (k + 1).lgamma()).sum((0, -1))
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + expected
