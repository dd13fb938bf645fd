"""Divergences of two distributions of one family, and of multivariate normal ones."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.nn.functional import softplus
from ferro.tensor import Tensor

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis, log_diagonal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    # ln p and ln(1 - p) are -softplus of -logits and logits; a term of probability 0 is 0, one that q excludes is inf
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return ones + zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented: it has no closed form"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    ours = p._cont_bern_log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + ours - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    norms = q.concentration * (p.rate / q.rate).log() + q.concentration.lgamma() - p.concentration.lgamma()
    slope = (p.concentration - q.concentration) * p.concentration.digamma()
    return norms + slope + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + ratio * euler_constant + ((1 + ratio).lgamma() - shift).exp() - (1 + euler_constant)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale - ratio.log() + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    """(Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions", 2019.)"""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL(p || q) of transformed distributions is implemented for equal transforms and event shapes, got {p.transforms} of "
            f"{p.event_shape} and {q.transforms} of {q.event_shape}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    dims = p.reinterpreted_batch_ndims
    if dims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL(p || q) of Independent distributions is implemented for equal reinterpreted_batch_ndims, got "
            f"{dims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), dims)


# -- multivariate normal distributions: ½ (ln det Q - ln det P + tr(Q⁻¹ P) + (μ_q - μ_p)ᵀ Q⁻¹ (μ_q - μ_p) - n) ---------


def _gaussian(log_dets: Tensor, trace: Tensor, distance: Tensor, p: Any, q: Any) -> Tensor:
    return 0.5 * (log_dets + trace + distance - p.event_shape[0])


def _same_event(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {names} with different event shapes cannot be computed: got {p.event_shape} "
            f"and {q.event_shape}"
        )


def _trace(matrix: Tensor) -> Tensor:
    """tr(M Mᵀ)."""
    return matrix.pow(2).sum((-2, -1))


def _solved(factor: Tensor, matrix: Tensor) -> Tensor:
    """L⁻¹ M, batches broadcast."""
    batch = ferro.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    factor, matrix = (m.expand((*batch, *m.shape[-2:])) for m in (factor, matrix))
    return ferro.linalg.solve_triangular(factor, matrix, upper=False)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "Multivariate Normals")
    ours, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    log_dets = 2 * (log_diagonal(theirs) - log_diagonal(ours))
    return _gaussian(log_dets, _trace(_solved(theirs, ours)), _batch_mahalanobis(theirs, q.loc - p.loc), p, q)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_and_full(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "(Low Rank) Multivariate Normals")
    theirs = q._unbroadcasted_scale_tril
    root = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = _trace(_solved(theirs, p._unbroadcasted_cov_factor)) + _trace(_solved(theirs, root))
    return _gaussian(2 * log_diagonal(theirs) - p._log_det(), trace, _batch_mahalanobis(theirs, q.loc - p.loc), p, q)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_and_low_rank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "(Low Rank) Multivariate Normals")
    ours, half = p._unbroadcasted_scale_tril, q._half_precision()
    trace = _trace(ours * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)) - _trace(half @ ours)
    return _gaussian(q._log_det() - 2 * log_diagonal(ours), trace, q._mahalanobis(q.loc - p.loc), p, q)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "Low Rank Multivariate Normals")
    factor, diagonal = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    theirs, half = q._unbroadcasted_cov_diag, q._half_precision()
    whole = (diagonal / theirs).sum(-1) + _trace(factor * theirs.rsqrt().unsqueeze(-1))
    trace = whole - _trace(half * diagonal.sqrt().unsqueeze(-2)) - _trace(half @ factor)
    return _gaussian(q._log_det() - p._log_det(), trace, q._mahalanobis(q.loc - p.loc), p, q)
