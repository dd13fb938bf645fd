"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import NAMES, ByScale, log_diagonal, scale_of
from .utils import lazy_property

__all__ = ["Wishart"]

TRIES = 10  # how often samples that rounding has made singular are drawn again


class Wishart(ByScale, ExponentialFamily):
    """The distribution of the sum of `df` outer products x xᵀ of normal vectors.

    - `df` (float or Tensor): above n - 1, else ValueError
    - `covariance_matrix` (Tensor, default None): (..., n, n), of the vectors; or
    - `precision_matrix` (Tensor, default None): its inverse; or
    - `scale_tril` (Tensor, default None): its lower Cholesky factor; exactly one of the three is given, else
      AssertionError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., n, n). They come by Bartlett's decomposition: chi-distributed numbers on the diagonal of a
    triangular matrix, normal ones below.

    Example::

        >>> import ferro
        >>> from ferro.distributions import Wishart
        >>> Wishart(3.0, covariance_matrix=ferro.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = zip(NAMES, (scale_tril, covariance_matrix, precision_matrix), strict=True)
        given = [(name, m) for name, m in matrices if m is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            batch_shape = Size(matrix.shape[:-2])
            self.df = ferro.tensor(df, dtype=matrix.dtype, device=matrix.device).expand(batch_shape)
        else:
            batch_shape = Size(ferro.broadcast_shapes(matrix.shape[:-2], df.shape))
            self.df = df.expand(batch_shape)
        n = matrix.shape[-1]
        if (self.df <= n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        if (self.df < n).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, matrix.shape[-2:], validate_args)
        self._unbroadcasted_scale_tril = scale_of(name, matrix)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @property
    def _n(self) -> int:
        return self._event_shape[-1]

    @lazy_property
    def _dist_chi2(self) -> Chi2:
        """The squares of the diagonal of Bartlett's matrix."""
        return Chi2(
            self.df.unsqueeze(-1)
            - ferro.arange(self._n, dtype=self._unbroadcasted_scale_tril.dtype, device=self.df.device)
        )

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._n - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (covariance.pow(2) + outer)

    def _bartlett(self, sample_shape: Any) -> Tensor:
        n = self._n
        eps = ferro.finfo(self._unbroadcasted_scale_tril.dtype).eps
        noise = self._dist_chi2.rsample(sample_shape).sqrt().clamp(min=eps).diag_embed()
        rows, columns = ferro.tril_indices(n, n, offset=-1, device=noise.device)
        shape = Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,)
        noise[..., rows, columns] = ferro.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Random matrices; those that are singular by rounding are drawn again, `max_try_correction` times (10) at most."""
        sample = self._bartlett(sample_shape)
        for _ in range(TRIES if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(sample.detach())
            if not singular.any():
                break
            warnings.warn("Singular sample detected.", stacklevel=2)
            sample = ferro.where(singular[..., None, None], self._bartlett(sample_shape), sample)
        return sample

    def log_prob(self, value: Any) -> Tensor:
        self._checked(value)
        nu, n, factor = self.df, self._n, self._unbroadcasted_scale_tril
        norm = nu * (n * math.log(2) / 2 + log_diagonal(factor)) + ferro.mvlgamma(nu / 2, n)
        log_det = ferro.linalg.slogdet(value).logabsdet
        trace = ferro.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - n - 1) / 2 * log_det - trace / 2 - norm

    def entropy(self) -> Tensor:
        nu, n = self.df, self._n
        scale = (n + 1) * (n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
        digammas = (nu.unsqueeze(-1) / 2 - ferro.arange(n, dtype=nu.dtype, device=nu.device) / 2).digamma().sum(-1)
        return scale + ferro.mvlgamma(nu / 2, n) - (nu - n - 1) / 2 * digammas + nu * n / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._n - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = self._n
        half = y + (n + 1) / 2
        return half * (n * math.log(2) - ferro.linalg.slogdet(-2 * x).logabsdet) + ferro.mvlgamma(half, n)
