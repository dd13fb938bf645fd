"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from ferro.tensor import Tensor

from ._half import Half
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The distribution of |x| with x of Cauchy(0, scale).

    - `scale` (float or Tensor): above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The shape of the scale is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import HalfCauchy
        >>> round(HalfCauchy(1.0).cdf(ferro.tensor(1.0)).item(), 4)
        0.5
    """

    base_dist: Cauchy
    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return self._constant(math.inf, self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
