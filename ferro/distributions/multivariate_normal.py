"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Products of (..., n, m) matrices and (..., m) vectors."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def log_diagonal(matrix: Tensor) -> Tensor:
    """The sum of the logarithms of the diagonal, of (..., n, n) matrices."""
    return matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _batch_mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """xᵀ (L Lᵀ)⁻¹ x of (..., n, n) triangular factors L and (..., n) vectors x, batches broadcast.

    The batch dimensions that L has not, or has of size 1, become columns of one solve: each L is read once.
    """
    n, batch = factor.shape[-1], factor.shape[:-2]
    shape = ferro.broadcast_shapes(batch, x.shape[:-1])
    x = x.expand(shape + (n,))
    batch = (1,) * (len(shape) - len(batch)) + tuple(batch)
    own = [d for d, size in enumerate(batch) if size != 1]  # the dimensions of L
    shared = [d for d, size in enumerate(batch) if size == 1]
    columns = x.permute((*own, len(shape), *shared))
    flat = columns.reshape((*(shape[d] for d in own), n, -1))
    matrix = factor.reshape((*(shape[d] for d in own), n, n))
    squares = ferro.linalg.solve_triangular(matrix, flat, upper=False).pow(2).sum(-2)
    order = own + shared
    result = squares.reshape(tuple(shape[d] for d in order))
    return result.permute(tuple(order.index(d) for d in range(len(shape))))


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The lower triangular L with L Lᵀ = P⁻¹: the Cholesky factor of P read backwards is that of its inverse, inverted."""
    flipped = ferro.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    identity = ferro.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return ferro.linalg.solve_triangular(flipped, identity, upper=False)


NAMES = ("scale_tril", "covariance_matrix", "precision_matrix")


def scale_of(name: str, matrix: Tensor) -> Tensor:
    """The scale_tril that belongs to a matrix given by one of NAMES."""
    if name == "scale_tril":
        return matrix
    return ferro.linalg.cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)


class ByScale(Distribution):
    """Distributions given by one of `covariance_matrix`, `precision_matrix` and `scale_tril`; the others are computed.

    `_unbroadcasted_scale_tril` is the factor as it was given, without the batch dimensions of other parameters.
    """

    _unbroadcasted_scale_tril: Tensor

    def _matrix_shape(self) -> Any:
        return self._batch_shape + self._event_shape[-1:] * 2

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor L of the covariance matrix L Lᵀ."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return ferro.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())


class MultivariateNormal(ByScale):
    """The normal distribution of vectors.

    - `loc` (Tensor): (..., n), the mean
    - `covariance_matrix` (Tensor, default None): (..., n, n), symmetric and positive definite; or
    - `precision_matrix` (Tensor, default None): its inverse; or
    - `scale_tril` (Tensor, default None): its lower Cholesky factor; exactly one of the three is given, else ValueError
    - `validate_args` (bool, default None): whether parameters and values are checked (ValueError); None asks
      `Distribution.set_default_validate_args`

    Samples are (..., n). With scale_tril nothing has to be factorised.

    Example::

        >>> import ferro
        >>> from ferro.distributions import MultivariateNormal
        >>> round(MultivariateNormal(ferro.zeros(2), covariance_matrix=ferro.eye(2)).log_prob(ferro.zeros(2)).item(), 4)
        -1.8379
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = zip(NAMES, (scale_tril, covariance_matrix, precision_matrix), strict=True)
        given = [(name, m) for name, m in matrices if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = ferro.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = scale_of(name, matrix)  # (after the validation, which says more)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Tensor:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, self._checked(value) - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + distance) - log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1.0 + math.log(2 * math.pi)) + log_diagonal(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
