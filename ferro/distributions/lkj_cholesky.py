"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M, with densities in proportion to det(M)^(concentration - 1).

    - `dim` (int): the matrices are dim x dim; ValueError below 2
    - `concentration` (float or Tensor, default 1.0): above 0; 1 is uniform
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are lower triangular (..., dim, dim). Source: Lewandowski, Kurowicka and Joe, Generating Random Correlation
    Matrices Based on Vines and Extended Onion Method, 2009.

    Example::

        >>> import ferro
        >>> from ferro.distributions import LKJCholesky
        >>> LKJCholesky(3).sample((2,)).shape
        ferro.Size([2, 3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # the squared length of row i > 0 below the diagonal: Beta(i / 2, concentration + (dim - 1 - i) / 2)
        dtype = self.concentration.dtype
        before = ferro.arange(dim - 1, dtype=dtype, device=self.concentration.device)
        offset = ferro.cat([before.new_zeros((1,)), before])
        other = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(offset * 0.5 + 0.5, other)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with ferro.no_grad():
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            normal = ferro.randn(self._extended_shape(sample_shape), dtype=squared.dtype, device=squared.device).tril(
                -1
            )
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0  # (nothing is left of the diagonal there)
            below = squared.sqrt() * direction
            left = (1 - (below**2).sum(-1)).clamp(min=ferro.finfo(below.dtype).tiny)
            return below + left.sqrt().diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        rows = ferro.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + ferro.mvlgamma(alpha - 0.5, n) - alpha.lgamma() * n
        return (powers * diagonal.log()).sum(-1) - norm
