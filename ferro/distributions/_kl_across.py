"""Divergences of distributions of different families."""

from __future__ import annotations

import math
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

INF = math.inf

# Where p has mass outside of the support of q; the parameter of p that has the shape of the batch.
_INFINITE: dict[tuple[type, str], tuple[type, ...]] = {
    (Beta, "concentration1"): (Pareto,),
    (ContinuousBernoulli, "probs"): (Pareto,),
    (Exponential, "rate"): (Beta, ContinuousBernoulli, Pareto, Uniform),
    (Gamma, "concentration"): (Beta, ContinuousBernoulli, Pareto, Uniform),
    (Gumbel, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Laplace, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Normal, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Pareto, "scale"): (Beta, ContinuousBernoulli, Uniform),
    (Poisson, "rate"): (Bernoulli, Binomial),
}


def _register_infinite(type_p: type, parameter: str, type_q: type) -> None:
    @register_kl(type_p, type_q)
    def infinite(p: Any, q: Any) -> Tensor:
        return ferro.full_like(getattr(p, parameter), INF)


for (_p, _parameter), _others in _INFINITE.items():
    for _q in _others:
        _register_infinite(_p, _parameter, _q)


# E_p[-ln q] for the families q whose log density needs few moments of p


def _cross_exponential(mean: Tensor, q: Any) -> Tensor:
    return q.rate * mean - q.rate.log()


def _cross_gamma(mean: Tensor, mean_log: Tensor, q: Any) -> Tensor:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * mean_log + q.rate * mean


def _cross_normal(mean: Tensor, variance: Tensor, q: Any) -> Tensor:
    spread = (variance + (mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + spread


def _cross_gumbel(mean: Tensor, mean_exp: Tensor, q: Any) -> Tensor:
    """`mean_exp`: E[exp(-x / scale)]."""
    return q.scale.log() + (mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp


def _cross_continuous_bernoulli(mean: Tensor, q: Any) -> Tensor:
    return -mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _moments(p: Any) -> tuple[Tensor, Tensor]:
    return p.mean, p.variance


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _into_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    result = _cross_continuous_bernoulli(p.mean, q) - p.entropy()
    if isinstance(p, Beta):
        return result
    # (as PyTorch has it: the ends themselves count as outside)
    return ferro.where((p.high >= 1) | (p.low <= 0), INF, result)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _into_exponential(p: Any, q: Any) -> Tensor:
    return _cross_exponential(p.mean, q) - p.entropy()


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _into_normal(p: Any, q: Any) -> Tensor:
    return _cross_normal(*_moments(p), q) - p.entropy()


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return _cross_gamma(p.mean, mean_log, q) - p.entropy()


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    result = (q.high - q.low).log() - p.entropy()
    return result.masked_fill((q.low > 0) | (q.high < 1), INF)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Tensor:
    result = (q.high - q.low).log() - p.entropy()
    # (as PyTorch has it: infinite unless low < 0 and high > 1)
    return ferro.where((q.low >= 0) | (q.high <= 1), INF, result)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return _cross_gamma(p.mean, -p.rate.log() - euler_constant, q) - p.entropy()


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    return _cross_gumbel(p.mean, product / (product + 1), q) - p.entropy()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    mean_exp = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return _cross_gumbel(p.mean, mean_exp, q) - p.entropy()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    # exp(-x / scale) is log-normal; in one exponent, so that a far location does not overflow
    exponent = (q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)
    return q.scale.log() + (p.loc - q.loc) / q.scale + exponent.exp() - p.entropy()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    distance = p.loc - q.loc
    z = distance / p.scale
    mean_distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp() + distance * (math.sqrt(0.5) * z).erf()
    return (2 * q.scale).log() + mean_distance / q.scale - p.entropy()


def _pareto_mean(p: Any) -> Tensor:
    """The mean, finite (and unused) where it is infinite."""
    return p.alpha * p.scale / (p.alpha - 1)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    result = _cross_exponential(_pareto_mean(p), q) - p.entropy()
    return result.masked_fill(p.alpha <= 1, INF)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    result = _cross_gamma(_pareto_mean(p), mean_log, q) - p.entropy()
    return result.masked_fill(p.alpha <= 1, INF)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    variance = p.alpha * (p.scale / (p.alpha - 1)).pow(2) / (p.alpha - 2)
    result = _cross_normal(_pareto_mean(p), variance, q) - p.entropy()
    return result.masked_fill(p.alpha <= 2, INF)


# -- from a uniform distribution ---------------------------------------------------------------------------------------


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E[ln x] of the uniform distribution on [low, high]."""
    return (ferro.xlogy(high, high) - ferro.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    result = log_beta - (a - 1) * _mean_log(p.low, p.high) - (b - 1) * _mean_log(1 - p.high, 1 - p.low) - p.entropy()
    return result.masked_fill((p.high > 1) | (p.low < 0), INF)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    return (_cross_exponential(p.mean, q) - p.entropy()).masked_fill(p.low < 0, INF)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    return (_cross_gamma(p.mean, _mean_log(p.low, p.high), q) - p.entropy()).masked_fill(p.low < 0, INF)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    tail = ((-low).exp() - (-high).exp()) / (high - low)
    return q.scale.log() + 0.5 * (low + high) + tail - p.entropy()


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    result = (q.alpha + 1) * _mean_log(p.low, p.high) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return result.masked_fill(p.low < q.scale, INF)
