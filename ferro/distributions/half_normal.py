"""The half-normal distribution."""

from __future__ import annotations

import math

from ferro.tensor import Tensor

from ._half import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The distribution of |x| with x of Normal(0, scale).

    - `scale` (float or Tensor): above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The shape of the scale is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import HalfNormal
        >>> round(HalfNormal(1.0).mean.item(), 4)
        0.7979
    """

    base_dist: Normal
    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
