"""Divergences of every registered pair, and which function answers for subclasses."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributions as D
from ferro.distributions.kl import _KL_REGISTRY
from tests.distributions.table import CASES, Case, build, parameters

# second parameters, other than the table's, by the names of the arguments
OTHER = {
    "loc": [0.3, -0.4, 1.1],
    "scale": [[0.9, 1.6, 0.5]],
    "probs": [[0.3, 0.45, 0.25]],
    "logits": [[0.2, 1.0, -1.0]],
    "concentration1": [0.7, 2.0, 1.5],
    "concentration0": [2.0, 0.9, 0.4],
    "concentration": [[1.5, 0.4, 2.2]],
    "rate": [0.8, 2.0, 1.1],
    "alpha": [1.8, 3.0, 2.5],
    "low": [[-2.0, 0.2, -1.0]],
    "high": [[3.0, 5.0, 8.0]],
    "covariance_matrix": [[1.0, -0.2], [-0.2, 3.0]],
    "df": [[2.0, 3.0, 5.0]],
    "cov_factor": [[0.1, 0.4], [0.9, -0.2], [0.3, 0.3]],
    "cov_diag": [1.5, 0.8, 1.1],
}


def second(case: Case, lib: Any) -> Any:
    """A distribution of the same class with other parameters."""
    given = parameters(case, lib)
    for name, value in OTHER.items():
        if name in given and not isinstance(given[name], (int, float)):
            shape = np.asarray(value).shape
            if name == "loc" and given[name].shape[-1] == 2:
                value, shape = [0.3, -0.4], (2,)
            if name == "concentration" and case.name == "LKJCholesky":
                continue
            whole = np.broadcast_shapes(shape, tuple(given[name].shape))  # (PyTorch masks without broadcasting)
            given[name] = lib.tensor(value, dtype=lib.float64).expand(whole)
    return getattr(lib.distributions, case.name)(**given)


FIRST = {c.name: c for c in reversed(CASES)}  # the first case of each class
PAIRS = sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY if p.__name__ in FIRST and q.__name__ in FIRST)


def test_the_registered_pairs_are_those_of_torch(torch: Any) -> None:
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    ours = {(p.__name__, q.__name__) for p, q in _KL_REGISTRY if p.__module__.startswith("ferro")}
    assert ours == theirs


@pytest.mark.parametrize(("name_p", "name_q"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_divergences_are_those_of_torch(name_p: str, name_q: str, torch: Any) -> None:
    found = []
    for lib in (ferro, torch):
        p, q = build(FIRST[name_p], lib), second(FIRST[name_q], lib)
        if p.event_shape != q.event_shape:  # (a two-dimensional and a three-dimensional normal)
            q = (
                lib.distributions.LowRankMultivariateNormal(
                    *(lib.tensor(v, dtype=lib.float64) for v in ([0.1, 0.2], [[0.5], [1.0]], [1.0, 2.0]))
                )
                if name_q.startswith("Low")
                else q
            )
            p = (
                lib.distributions.LowRankMultivariateNormal(
                    *(lib.tensor(v, dtype=lib.float64) for v in ([0.1, 0.2], [[0.5], [1.0]], [1.0, 2.0]))
                )
                if name_p.startswith("Low")
                else p
            )
        found.append(lib.distributions.kl_divergence(p, q).numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-10)
    assert np.isnan(found[0]).any() == np.isnan(found[1]).any()


@pytest.mark.parametrize("name", ["Bernoulli", "Beta", "Dirichlet", "Exponential", "Gamma", "Normal", "Poisson"])
def test_of_a_family_it_is_the_divergence_of_bregman(name: str) -> None:
    p, q = build(FIRST[name], ferro), second(FIRST[name], ferro)
    bregman = D.kl._kl_expfamily_expfamily(p, q)
    np.testing.assert_allclose(D.kl_divergence(p, q).numpy(), bregman.detach().numpy(), rtol=1e-8)
    entropy = D.ExponentialFamily.entropy
    if name in (
        "Bernoulli",
        "Exponential",
        "Gamma",
        "Normal",
    ):  # (the mean of the others' carrier measure is not there)
        np.testing.assert_allclose(entropy(p).detach().numpy(), p.entropy().numpy(), rtol=1e-8)


@pytest.mark.parametrize(
    ("name_p", "name_q"),
    [
        ("Exponential", "Gumbel"),
        ("Gamma", "Normal"),
        ("Normal", "Laplace"),
        ("Uniform", "Gumbel"),
        ("Exponential", "Gamma"),
    ],
)
def test_a_divergence_is_the_mean_of_the_difference_of_the_log_densities(name_p: str, name_q: str) -> None:
    p, q = build(FIRST[name_p], ferro), second(FIRST[name_q], ferro)
    ferro.manual_seed(4)
    x = p.sample((3000,))
    differences = p.log_prob(x) - q.log_prob(x)
    error = 5 * differences.std(0) / math.sqrt(3000)
    assert ((differences.mean(0) - D.kl_divergence(p, q)).abs() < error).all()


def test_what_is_excluded_is_infinitely_far() -> None:
    one, half = D.Bernoulli(ferro.tensor([1.0, 0.0])), D.Bernoulli(ferro.tensor([0.5, 0.5]))
    assert D.kl_divergence(half, one).isinf().all()
    np.testing.assert_allclose(D.kl_divergence(one, half).numpy(), math.log(2), rtol=1e-6)
    wide, narrow = D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)
    assert D.kl_divergence(wide, narrow).item() == math.inf
    assert D.kl_divergence(D.Pareto(1.0, 0.5), D.Exponential(1.0)).item() == math.inf
    assert D.kl_divergence(
        D.Categorical(ferro.tensor([1.0, 0.0])), D.Categorical(ferro.tensor([0.5, 0.5]))
    ).item() == pytest.approx(math.log(2))


def test_wrapped_distributions() -> None:
    p, q = D.Normal(ferro.zeros(2, 3), 1.0), D.Normal(ferro.ones(2, 3), 2.0)
    each = D.kl_divergence(p, q)
    whole = D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1))
    np.testing.assert_allclose(whole.numpy(), each.sum(-1).numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.LogNormal(1.0, 2.0)).numpy(), each[0, 0].numpy()
    )
    with pytest.raises(NotImplementedError, match="reinterpreted_batch_ndims"):
        D.kl_divergence(D.Independent(p, 1), D.Independent(q, 2))
    with pytest.raises(NotImplementedError, match="equal transforms"):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.HalfNormal(1.0))
    with pytest.raises(NotImplementedError, match="total_count"):
        D.kl_divergence(D.Binomial(3, ferro.tensor(0.5)), D.Binomial(4, ferro.tensor(0.5)))
    with pytest.raises(
        NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type Geometric"
    ):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Geometric(0.5))
    with pytest.raises(NotImplementedError, match="cross KL-divergence between different exponential families"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Dirichlet(ferro.ones(2)))


def test_a_base_that_is_no_distribution_may_be_registered(torch: Any) -> None:
    for d in (ferro.distributions, torch.distributions):
        mixin = type("Mixin", (), {})
        mine = type("Mine", (mixin, d.Distribution), {})
        before = dict(d.kl._KL_REGISTRY)
        try:
            d.register_kl(mixin, mixin)(lambda p, q: "mixin")
            assert d.kl_divergence(mine(validate_args=False), mine(validate_args=False)) == "mixin"
        finally:
            d.kl._KL_REGISTRY.clear()
            d.kl._KL_REGISTRY.update(before)
            d.kl._KL_MEMOIZE.clear()


def test_the_nearest_classes_answer_and_a_tie_is_said() -> None:
    class Base(D.Distribution):
        pass

    class Left(Base):
        pass

    class Right(Left):
        pass

    before = dict(_KL_REGISTRY)
    try:
        D.register_kl(Base, Base)(lambda p, q: "base")
        D.register_kl(Right, Base)(lambda p, q: "left")
        D.register_kl(Base, Right)(lambda p, q: "right")
        made = {c: c(validate_args=False) for c in (Base, Left, Right)}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(made[Left], made[Left]) == "base"  # type: ignore[comparison-overlap]
            assert D.kl_divergence(made[Right], made[Left]) == "left"  # type: ignore[comparison-overlap]
        with pytest.warns(
            RuntimeWarning, match=r"Ambiguous kl_divergence\(Right, Right\). Please register_kl\(Right, Right\)"
        ):
            assert D.kl_divergence(made[Right], made[Right]) == "left"  # type: ignore[comparison-overlap]
        wrong: Any
        for wrong in itertools.permutations((D.Normal, 3)):
            with pytest.raises(TypeError, match="to be a Distribution subclass but got 3"):
                D.register_kl(*wrong)
    finally:
        _KL_REGISTRY.clear()
        _KL_REGISTRY.update(before)
        D.kl._KL_MEMOIZE.clear()
