"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.nn.functional import binary_cross_entropy_with_logits
from ferro.tensor import Tensor

from . import constraints
from ._probabilities import ByProbability, one_of
from .utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(ByProbability):
    """The number of failures before the first success.

    - `probs` (float or Tensor, default None): the probability, from 0 to 1; or
    - `logits` (float or Tensor, default None): its log odds; exactly one of both is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Geometric
        >>> Geometric(0.25).mean
        tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._give("logits" if probs is None else "probs", *broadcast_all(one_of(probs, logits)))
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            invalid = self.probs.detach()[self.probs <= 0]
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{invalid}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ferro.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        tiny = ferro.finfo(self.probs.dtype).tiny
        with ferro.no_grad():
            u = ferro.empty(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            ).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        value, probs = broadcast_all(self._checked(value), self.probs)
        # a certain success fails 0 times: 0 ln 0 is 0
        failing = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
