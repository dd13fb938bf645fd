"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of loc - scale ln(-ln u) with u uniform on (0, 1): of the largest of many.

    - `loc` (float or Tensor): the mode
    - `scale` (float or Tensor): how wide, above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    The parameters broadcast; their shape is `batch_shape`.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Gumbel
        >>> round(Gumbel(0.0, 1.0).mean.item(), 4)
        0.5772
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = ferro.finfo(self.loc.dtype)
        uniform = Uniform(
            ferro.full_like(self.loc, info.tiny), ferro.full_like(self.loc, 1 - info.eps), validate_args=validate_args
        )
        minus_log = [ExpTransform().inv, AffineTransform(loc=0, scale=-ferro.ones_like(self.scale))]
        last = [ExpTransform().inv, AffineTransform(loc=self.loc, scale=-self.scale)]
        super().__init__(uniform, minus_log + last, validate_args=validate_args)

    def log_prob(self, value: Any) -> Tensor:
        y = (self.loc - self._checked(value)) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
