"""The multivariate normal distribution with a covariance matrix of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv, log_diagonal
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _plus_identity(matrix: Tensor) -> Tensor:
    return matrix + ferro.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with the covariance matrix W Wᵀ + diag(D).

    - `loc` (Tensor): (..., n), the mean
    - `cov_factor` (Tensor): W, (..., n, m); ValueError where it does not fit
    - `cov_diag` (Tensor): D, (..., n), above 0
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Work grows with the rank m of W, not with n cubed: the determinant lemma and Woodbury's identity need the Cholesky
    factor of the m x m capacitance matrix I + Wᵀ D⁻¹ W only.

    Example::

        >>> import ferro
        >>> from ferro.distributions import LowRankMultivariateNormal
        >>> d = LowRankMultivariateNormal(ferro.zeros(3), ferro.ones(3, 1), ferro.ones(3))
        >>> d.covariance_matrix
        tensor([[2., 1., 1.],
                [1., 2., 1.],
                [1., 1., 2.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = ferro.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except (RuntimeError, ValueError) as e:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from e
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = ferro.linalg.cholesky(_plus_identity(self._scaled_factor() @ cov_factor))
        super().__init__(batch_shape, event_shape, validate_args)

    def _scaled_factor(self) -> Tensor:
        """Wᵀ D⁻¹."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _log_det(self) -> Tensor:
        """ln det of the covariance matrix."""
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        """xᵀ (W Wᵀ + diag(D))⁻¹ x."""
        whole = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return whole - _batch_mahalanobis(self._capacitance_tril, _batch_mv(self._scaled_factor(), x))

    def _half_precision(self) -> Tensor:
        """The (m, n) matrix A with the precision matrix D⁻¹ - Aᵀ A."""
        return ferro.linalg.solve_triangular(self._capacitance_tril, self._scaled_factor(), upper=False)

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance matrix, through that of D^-½ W Wᵀ D^-½ + I: well conditioned."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._spread(root * ferro.linalg.cholesky(_plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_cov_factor
        return self._spread(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        half = self._half_precision()
        return self._spread(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        along = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        across = _standard_normal(shape, self.loc.dtype, self.loc.device)
        moved = self.loc + _batch_mv(self._unbroadcasted_cov_factor, along)
        return moved + self._unbroadcasted_cov_diag.sqrt() * across

    def log_prob(self, value: Any) -> Tensor:
        distance = self._mahalanobis(self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
