"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from ferro.tensor import Tensor

from ._half import Half
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The distribution of |x| with x of Cauchy(0, scale)."""

    base_dist: Cauchy
    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return self._constant(math.inf, self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
