"""The half-normal distribution."""

from __future__ import annotations

import math

from ferro.tensor import Tensor

from ._half import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The distribution of |x| with x of Normal(0, scale)."""

    base_dist: Normal
    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
