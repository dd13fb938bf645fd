"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.nn.functional import one_hot
from ferro.tensor import Tensor

from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors of positive numbers with sum 1, with the powers concentration - 1 of their elements.

    - `concentration` (Tensor): (..., K), above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The last dimension is `event_shape`, the others `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Dirichlet
        >>> Dirichlet(ferro.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return ferro._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        a = self.concentration
        powers = ferro.xlogy(a - 1.0, self._checked(value)).sum(-1)
        return powers + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # without a concentration of 1 or more all density is at the corners
        corner = one_hot(mode.argmax(dim=-1), above.shape[-1]).to(mode.dtype)
        return ferro.where((self.concentration < 1).all(dim=-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (a.shape[-1] - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
