"""Fisher and Snedecor's F distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The F distribution: the ratio of two chi-squared numbers, each divided by its degrees of freedom.

    - `df1`, `df2` (float or Tensor): the degrees of freedom above and below, above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import FisherSnedecor
        >>> round(FisherSnedecor(2.0, 4.0).mean.item(), 4)
        2.0
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        tiny = ferro.finfo(self.df1.dtype).tiny
        above = self._gamma1.rsample(sample_shape)
        below = self._gamma2.rsample(sample_shape).clamp(min=tiny)
        return (above / below).clamp(min=tiny)

    def log_prob(self, value: Any) -> Tensor:
        self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        powers = half1 * ratio.log() + (half1 - 1) * ferro.log(value)
        return norm + powers - (half1 + half2) * (ratio * value).log1p()
