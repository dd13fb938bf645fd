"""What distributions refuse: the errors contain PyTorch's sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import ferro
import ferro.distributions
from tests.distributions.table import like_ferro

# Calls of a library (lib, its distributions, its tensor function) that raise in both.
CALLS: dict[str, Callable] = {
    "scale": lambda lib, D, t: D.Normal(t([0.0, 1.0]), t([1.0, -1.0])),
    "nan": lambda lib, D, t: D.Normal(t(float("nan")), t(1.0)),
    "rate": lambda lib, D, t: D.Gamma(t([1.0]), t([0.0])),
    "simplex": lambda lib, D, t: D.Categorical(t([0.5, -0.5])),
    "probs": lambda lib, D, t: D.Bernoulli(t([0.5, 1.5])),
    "matrix": lambda lib, D, t: D.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])),
    "low-high": lambda lib, D, t: D.Uniform(t([1.0]), t([0.0])),
    "count": lambda lib, D, t: D.Binomial(t([1.5]), t([0.5])),
    "zero-probability": lambda lib, D, t: D.Geometric(t([0.5, 0.0])),
    "both": lambda lib, D, t: D.Bernoulli(t([0.5]), t([0.5])),
    "neither": lambda lib, D, t: D.Categorical(),
    "no-dimension": lambda lib, D, t: D.Categorical(t(0.5)),
    "no-logits": lambda lib, D, t: D.Categorical(logits=t(0.5)),
    "dirichlet": lambda lib, D, t: D.Dirichlet(t(0.5)),
    "dim": lambda lib, D, t: D.LKJCholesky(1),
    "loc": lambda lib, D, t: D.MultivariateNormal(t(0.0), t([[1.0]])),
    "one-matrix": lambda lib, D, t: D.MultivariateNormal(t([0.0]), t([[1.0]]), t([[1.0]])),
    "a-vector": lambda lib, D, t: D.MultivariateNormal(t([0.0]), t([1.0])),
    "factor": lambda lib, D, t: D.LowRankMultivariateNormal(t([0.0]), t([1.0]), t([1.0])),
    "factor-shape": lambda lib, D, t: D.LowRankMultivariateNormal(t([0.0]), t([[1.0], [1.0]]), t([1.0])),
    "diagonal-shape": lambda lib, D, t: D.LowRankMultivariateNormal(t([0.0]), t([[1.0]]), t([1.0, 1.0])),
    "df": lambda lib, D, t: D.Wishart(t(0.5), t([[1.0, 0.0], [0.0, 1.0]])),
    "counts": lambda lib, D, t: D.Multinomial(t(3), t([0.5, 0.5])),
    "strings": lambda lib, D, t: D.Normal("0", 1.0),
    "independent": lambda lib, D, t: D.Independent(D.Normal(t([0.0]), 1.0), 2),
    "enumerated": lambda lib, D, t: D.Independent(D.Bernoulli(t([0.5])), 1).enumerate_support(),
    "mixture": lambda lib, D, t: D.MixtureSameFamily(D.Normal(t([0.0]), 1.0), D.Normal(t([0.0]), 1.0)),
    "components": lambda lib, D, t: D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), D.Normal(t([0.0]), 1.0)),
    "no-component": lambda lib, D, t: D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), 1),
    "base": lambda lib, D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
    "outside": lambda lib, D, t: D.Beta(t([1.0]), t([1.0])).log_prob(t([1.5])),
    "not-whole": lambda lib, D, t: D.Poisson(t([1.0])).log_prob(t([0.5])),
    "event": lambda lib, D, t: D.Dirichlet(t([1.0, 1.0])).log_prob(t([1.0, 0.0, 0.0])),
    "batch": lambda lib, D, t: D.Normal(t([0.0, 1.0]), 1.0).log_prob(t([0.0, 1.0, 2.0])),
    "a-number": lambda lib, D, t: D.Normal(0.0, 1.0).log_prob(1.0),
    "inhomogeneous": lambda lib, D, t: D.Binomial(t([1.0, 2.0]), t([0.5, 0.5])).enumerate_support(),
    "no-rsample": lambda lib, D, t: D.Bernoulli(0.5).rsample(),
    "no-mean": lambda lib, D, t: D.LogisticNormal(t([0.0]), t([1.0])).mean,
    "no-cdf": lambda lib, D, t: D.Beta(1.0, 1.0).cdf(t(0.5)),
}


def said(call: Callable, lib: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(lib, lib.distributions, lib.tensor)
    return caught.value  # type: ignore[return-value]


@pytest.mark.parametrize("name", CALLS)
def test_errors_contain_the_sentences_of_torch(name: str, torch: Any) -> None:
    torch.distributions.Distribution.set_default_validate_args(True)  # (torch's tracer switches it off for good)
    ours, theirs = said(CALLS[name], ferro), said(CALLS[name], torch)
    assert type(ours) is type(theirs)
    sentence = str(theirs).partition("tensor(")[0]
    for part in re.split(r"torch\.|Parameter", sentence):
        assert like_ferro(part).strip() in str(ours), f"{ours!s}\nlacks\n{theirs!s}"


@pytest.mark.parametrize("name", ["scale", "simplex", "probs", "low-high"])
def test_without_validation_they_are_made(name: str) -> None:
    D = ferro.distributions
    try:
        D.Distribution.set_default_validate_args(False)
        assert isinstance(CALLS[name](ferro, D, ferro.tensor), D.Distribution)
    finally:
        D.Distribution.set_default_validate_args(__debug__)


def test_a_distribution_without_constraints_warns() -> None:
    class Bare(ferro.distributions.Distribution):
        def log_prob(self, value: Any) -> Any:
            return self._checked(value)

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    with pytest.warns(UserWarning, match="does not define `support` to enable sample validation"):
        bare.log_prob(ferro.tensor(1.0))
