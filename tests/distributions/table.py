"""The distributions under test: class, parameters, and the distribution of SciPy that is the same where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A class of `distributions`, its parameters (lists become float64 tensors), and SciPy's frozen distribution."""

    name: str
    params: dict[str, Any]
    scipy: Callable | None = None
    id: str = ""


A, B = [[0.3, 1.7, 4.0], [2.5, 0.8, 30.0]], [1.2, 0.6, 3.0]
LOC, SCALE = [[-1.0, 0.5, 2.0], [0.1, 3.0, -0.7]], [0.4, 1.0, 2.5]
PROBS, LOGITS = [[0.1, 0.5, 0.9], [0.25, 0.499, 0.7]], [[-2.0, 0.0, 1.5], [0.3, -0.7, 4.0]]
CHOICES = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
FACTOR = [[1.4, 0.0], [0.35, 0.9]]

CASES = [
    Case("Bernoulli", {"probs": PROBS}, lambda s, p: s.bernoulli(p["probs"])),
    Case("Bernoulli", {"logits": LOGITS}, id="logits"),
    Case(
        "Beta",
        {"concentration1": A, "concentration0": B},
        lambda s, p: s.beta(p["concentration1"], p["concentration0"]),
    ),
    Case("Binomial", {"total_count": 7, "probs": PROBS}, lambda s, p: s.binom(7, p["probs"])),
    Case("Binomial", {"total_count": 3, "logits": LOGITS}, id="logits"),
    Case("Categorical", {"probs": CHOICES}),
    Case("Categorical", {"logits": LOGITS}, id="logits"),
    Case("Cauchy", {"loc": LOC, "scale": SCALE}, lambda s, p: s.cauchy(p["loc"], p["scale"])),
    Case("Chi2", {"df": A}, lambda s, p: s.chi2(p["df"])),
    Case("ContinuousBernoulli", {"probs": PROBS}),
    Case("ContinuousBernoulli", {"logits": LOGITS}, id="logits"),
    Case("Dirichlet", {"concentration": [[0.5, 2.0, 3.0], [0.3, 0.2, 0.4]]}),
    Case("Exponential", {"rate": A}, lambda s, p: s.expon(scale=1 / p["rate"])),
    Case("FisherSnedecor", {"df1": A, "df2": [5.0, 3.0, 9.0]}, lambda s, p: s.f(p["df1"], p["df2"])),
    Case("Gamma", {"concentration": A, "rate": B}, lambda s, p: s.gamma(p["concentration"], scale=1 / p["rate"])),
    Case(
        "GeneralizedPareto",
        {"loc": LOC, "scale": SCALE, "concentration": [0.3, 0.0, -0.6]},
        lambda s, p: s.genpareto(p["concentration"], p["loc"], p["scale"]),
    ),
    Case("Geometric", {"probs": PROBS}, lambda s, p: s.geom(p["probs"], loc=-1)),
    Case("Geometric", {"logits": LOGITS}, id="logits"),
    Case("Gumbel", {"loc": LOC, "scale": SCALE}, lambda s, p: s.gumbel_r(p["loc"], p["scale"])),
    Case("HalfCauchy", {"scale": SCALE}, lambda s, p: s.halfcauchy(scale=p["scale"])),
    Case("HalfNormal", {"scale": SCALE}, lambda s, p: s.halfnorm(scale=p["scale"])),
    Case(
        "InverseGamma",
        {"concentration": [3.0, 0.7, 5.0], "rate": B},
        lambda s, p: s.invgamma(p["concentration"], scale=p["rate"]),
    ),
    Case("Kumaraswamy", {"concentration1": A, "concentration0": B}),
    Case("LKJCholesky", {"dim": 3, "concentration": [0.5, 1.0, 3.0]}),
    Case("Laplace", {"loc": LOC, "scale": SCALE}, lambda s, p: s.laplace(p["loc"], p["scale"])),
    Case("LogNormal", {"loc": LOC, "scale": SCALE}, lambda s, p: s.lognorm(p["scale"], scale=np.exp(p["loc"]))),
    Case("LogisticNormal", {"loc": LOC, "scale": SCALE}),
    Case(
        "LowRankMultivariateNormal",
        {"loc": LOC, "cov_factor": [[0.5, 1.0], [-0.3, 0.2], [1.0, 0.1]], "cov_diag": SCALE},
    ),
    Case("Multinomial", {"total_count": 5, "probs": CHOICES}),
    Case("Multinomial", {"total_count": 2, "logits": LOGITS}, id="logits"),
    Case("MultivariateNormal", {"loc": [[0.5, -1.0], [0.0, 2.0]], "covariance_matrix": MATRIX}),
    Case("MultivariateNormal", {"loc": [0.5, -1.0], "precision_matrix": MATRIX}, id="precision"),
    Case("MultivariateNormal", {"loc": [[0.5, -1.0]], "scale_tril": [FACTOR, FACTOR]}, id="scale_tril"),
    Case("NegativeBinomial", {"total_count": 4.0, "probs": PROBS}, lambda s, p: s.nbinom(4, 1 - p["probs"])),
    Case("NegativeBinomial", {"total_count": [0.5, 2.0, 7.0], "logits": LOGITS}, id="logits"),
    Case("Normal", {"loc": LOC, "scale": SCALE}, lambda s, p: s.norm(p["loc"], p["scale"])),
    Case("Normal", {"loc": 1.0, "scale": 2.0}, id="numbers"),
    Case("OneHotCategorical", {"probs": CHOICES}),
    Case("OneHotCategoricalStraightThrough", {"logits": LOGITS}),
    Case(
        "Pareto",
        {"scale": B, "alpha": [[0.7, 1.5, 3.0], [2.5, 4.0, 2.0]]},
        lambda s, p: s.pareto(p["alpha"], scale=p["scale"]),
    ),
    Case("Poisson", {"rate": A}, lambda s, p: s.poisson(p["rate"])),
    Case("RelaxedBernoulli", {"temperature": [0.7], "probs": PROBS}),
    Case("RelaxedOneHotCategorical", {"temperature": [0.7], "logits": LOGITS}),
    Case(
        "StudentT", {"df": [3.0, 0.8, 1.5], "loc": LOC, "scale": SCALE}, lambda s, p: s.t(p["df"], p["loc"], p["scale"])
    ),
    Case("Uniform", {"low": LOC, "high": [2.5, 4.0, 7.0]}, lambda s, p: s.uniform(p["low"], p["high"] - p["low"])),
    Case("VonMises", {"loc": LOC, "concentration": SCALE}, lambda s, p: s.vonmises(p["concentration"], p["loc"])),
    Case(
        "Weibull",
        {"scale": SCALE, "concentration": [0.7, 1.0, 3.0]},
        lambda s, p: s.weibull_min(p["concentration"], scale=p["scale"]),
    ),
    Case("Wishart", {"df": 3.5, "covariance_matrix": MATRIX}),
    Case("Wishart", {"df": [4.0, 6.0], "scale_tril": FACTOR}, id="batch"),
]

IDS = [f"{c.name}-{c.id}" if c.id else c.name for c in CASES]

# rsample by implicit reparametrisation: PyTorch's derivatives are right to about three digits only
IMPLICIT = {"Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT", "Wishart"}


def parameters(case: Case, lib: Any, requires_grad: bool = False, dtype: str = "float64") -> dict[str, Any]:
    """The parameters as a library's tensors."""
    made = {}
    for name, value in case.params.items():
        if isinstance(value, list):
            value = lib.tensor(value, dtype=getattr(lib, dtype), requires_grad=requires_grad)
        made[name] = value
    return made


def build(case: Case, lib: Any, **options: Any) -> Any:
    """The distribution of a library."""
    return getattr(lib.distributions, case.name)(**parameters(case, lib, **options))


def like_ferro(text: str) -> str:
    """PyTorch's words with ferro's names."""
    return text.replace("torch.", "ferro.")
