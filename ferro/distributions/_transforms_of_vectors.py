"""Transforms of vectors and matrices: onto simplices, triangular factors and positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.nn.functional import logsigmoid, pad, softplus

from . import constraints
from ._transform import Transform, need_dims
from ._transforms_of_numbers import clipped_sigmoid
from .utils import tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform",
           "StickBreakingTransform"]  # fmt: skip


def _behind_one(x: Any) -> Any:
    """A vector whose first element is 1 and whose last one is dropped."""
    return pad(x[..., :-1], [1, 0], value=1)


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 numbers to Cholesky factors of D x D correlation matrices.

    tanh of the numbers are partial correlations r; a row of the factor is r times the square root of what the elements
    before leave of the row's unit length (Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based
    on vines and extended onion method", 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = ferro.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        return (r + ferro.eye(r.shape[-1], dtype=r.dtype, device=r.device)) * _behind_one(left)

    def _inverse(self, y: Any) -> Any:
        left = _behind_one(1 - (y * y).cumsum(-1))
        return (tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        # every element of a row is scaled by what those before it leave: the Jacobian is triangular
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        slopes = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + slopes

    def forward_shape(self, shape: Any) -> Any:
        need_dims(len(shape), 1)
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError(f"Input is not a flattened lower-diagonal number: {n} is no D (D - 1) / 2")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(len(shape), 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: its last dimensions are {shape[-2]} and {shape[-1]}")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(Transform):
    """Vectors to the simplex by softmax, which forgets a constant: not bijective."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    _compared = ()

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        need_dims(len(shape), 1)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


class StickBreakingTransform(Transform):
    """Vectors of K - 1 numbers to the simplex of K: each takes its share, a sigmoid, of what those before it left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _compared = ()

    @staticmethod
    def _centred(x: Any) -> Any:
        """Zeros would share the stick evenly: the k-th number is shifted by the log of the number of pieces to come."""
        n = x.shape[-1]
        return x - ferro.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        share = clipped_sigmoid(self._centred(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=ferro.finfo(y.dtype).tiny)
        return pieces.log() - left.log() - self._centred(ferro.zeros_like(pieces))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = self._centred(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        need_dims(len(shape), 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(len(shape), 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones with a positive diagonal, the exponential of the given one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones, L Lᵀ of what LowerCholeskyTransform makes of them."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _compared = ()

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(ferro.linalg.cholesky(y))
