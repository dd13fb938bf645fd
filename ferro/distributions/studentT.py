"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro.tensor import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution of real numbers, with heavy tails.

    - `df` (float or Tensor): the degrees of freedom, above 0
    - `loc` (float or Tensor, default 0.0): the middle
    - `scale` (float or Tensor, default 1.0): how wide, above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import StudentT
        >>> round(StudentT(1.0).log_prob(ferro.tensor(0.0)).item(), 4)
        -1.1447
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df.masked_fill(self.df <= 2, 3.0)
        finite = self.scale.pow(2) * df / (df - 2)
        return finite.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * x * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def _log_beta(self) -> Tensor:
        """ln B(df / 2, 1 / 2)."""
        return (0.5 * self.df).lgamma() + math.lgamma(0.5) - (0.5 * (self.df + 1)).lgamma()

    def log_prob(self, value: Any) -> Tensor:
        y = (self._checked(value) - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * (y**2.0 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        slopes = half * (half.digamma() - (0.5 * self.df).digamma())
        return self.scale.log() + slopes + 0.5 * self.df.log() + self._log_beta()
