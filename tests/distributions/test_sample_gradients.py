"""Derivatives of gamma and beta samples by their concentrations: against mpmath, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro


def exact(cdf: Any, log_density: Any, at: Any, mp: Any) -> Any:
    """-(∂F/∂a) / (∂F/∂x), by a central difference with 50 digits."""
    h = at * mp.mpf(10) ** -16
    return -(cdf(at + h) - cdf(at - h)) / (2 * h) / mp.exp(log_density)


@pytest.mark.parametrize("a", [1e-3, 0.5, 1.0, 2.5, 19.9, 20.1, 300.0])
def test_gamma_to_twelve_digits(a: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    from scipy.special import gammaincinv

    with mpmath.workdps(50):
        for u in (1e-4, 0.1, 0.5, 0.9, 1 - 1e-6):
            x = float(gammaincinv(a, u))
            if x < 1e-290:
                continue
            concentration, at = mpmath.mpf(a), mpmath.mpf(x)
            density = (concentration - 1) * mpmath.log(at) - at - mpmath.loggamma(concentration)
            want = exact(lambda s, at=at: mpmath.gammainc(s, 0, at, regularized=True), density, concentration, mpmath)
            got = ferro._standard_gamma_grad(*(ferro.tensor(v, dtype=ferro.float64) for v in (a, x)))
            assert abs(got.item() / want - 1) < 1e-12, (a, u)


@pytest.mark.parametrize("a", [1e-2, 0.5, 3.0, 300.0])
@pytest.mark.parametrize("b", [1e-2, 0.5, 50.0])
def test_beta_to_ten_digits(a: float, b: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    from scipy.special import betaincinv

    with mpmath.workdps(50):
        for u in (1e-4, 0.3, 0.9, 1 - 1e-6):
            x = float(betaincinv(a, b, u))
            if x < 1e-200 or x > 1 - 1e-9:
                continue
            one, other, at = mpmath.mpf(a), mpmath.mpf(a + b) - mpmath.mpf(a), mpmath.mpf(x)
            norm = mpmath.loggamma(one + other) - mpmath.loggamma(one) - mpmath.loggamma(other)
            density = (one - 1) * mpmath.log(at) + other * mpmath.log(1 - at) + norm  # (the density times 1 - x)
            want = exact(lambda s, o=other, at=at: mpmath.betainc(s, o, 0, at, regularized=True), density, one, mpmath)
            got = ferro._dirichlet_grad(*(ferro.tensor(v, dtype=ferro.float64) for v in (x, a, a + b)))
            assert abs(got.item() / want - 1) < 1e-10, (a, b, u)


def test_torch_agrees_to_its_three_digits(torch: Any, rng: np.random.Generator) -> None:
    a, b = rng.uniform(0.05, 30, 300), rng.uniform(0.05, 30, 300)
    x, y = rng.gamma(a).clip(1e-300), rng.beta(a, b).clip(1e-300, 1 - 1e-16)
    got = [
        ferro._standard_gamma_grad(ferro.from_numpy(a), ferro.from_numpy(x)),
        ferro._dirichlet_grad(*map(ferro.from_numpy, (y, a, a + b))),
    ]
    want = [
        torch._standard_gamma_grad(torch.from_numpy(a), torch.from_numpy(x)),
        torch._dirichlet_grad(*map(torch.from_numpy, (y, a, a + b))),
    ]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=3e-3)


def test_the_gradient_of_the_mean_of_samples_is_that_of_the_mean() -> None:
    """E[x] of Gamma(a, 1) is a, E[x₀] of Dirichlet(c) is c₀ / Σ c: their derivatives are the means of the samples'."""
    ferro.manual_seed(0)
    a = ferro.tensor([0.3, 2.0, 15.0], dtype=ferro.float64, requires_grad=True)
    ferro._standard_gamma(a.expand(4000, 3)).mean(0).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 1.0, rtol=0.15)
    c = ferro.tensor([0.7, 2.0, 3.0], dtype=ferro.float64, requires_grad=True)
    ferro._sample_dirichlet(c.expand(4000, 3))[:, 0].mean().backward()
    total = 5.7
    np.testing.assert_allclose(c.grad.numpy(), np.array([1 / total, 0, 0]) - 0.7 / total**2, atol=0.01)


@pytest.mark.parametrize("name", ["_standard_gamma", "_sample_dirichlet"])
def test_a_second_derivative_raises(name: str) -> None:
    a = ferro.tensor([2.0, 3.0], requires_grad=True)
    weights = ferro.tensor([1.0, 2.0])
    (g,) = ferro.autograd.grad((getattr(ferro, name)(a) * weights).sum(), a, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"derivative for '_.*_grad: .*' is not implemented"):
        ferro.autograd.grad(g.sum(), a)


def test_outside_of_the_domain_and_at_its_edge() -> None:
    a, x = (ferro.tensor(v, dtype=ferro.float64) for v in ([1.0, -1.0, 1.0, 2.0], [0.0, 1.0, -1.0, 1.0]))
    np.testing.assert_array_equal(ferro._standard_gamma_grad(a, x).isnan().numpy(), [False, True, True, False])
    assert ferro._standard_gamma_grad(a, x)[0].item() == 0
    ends = ferro._dirichlet_grad(ferro.tensor([0.0, 1.0]), ferro.tensor([2.0, 2.0]), ferro.tensor([5.0, 5.0]))
    assert ends[0].item() == 0
    assert ends[1].isfinite().item()
    with pytest.raises(RuntimeError, match="one shape and dtype"):
        ferro._standard_gamma_grad(ferro.ones(2), ferro.ones(3))
    with pytest.raises(NotImplementedError, match="floating-point"):
        ferro._standard_gamma(ferro.ones(2, dtype=ferro.int64))


def test_under_vmap_every_slice_is_that_of_the_whole() -> None:
    a, x = ferro.rand(3, 4) + 0.5, ferro.rand(3, 4) + 0.1
    np.testing.assert_allclose(
        ferro.vmap(ferro._standard_gamma_grad)(a, x).numpy(), ferro._standard_gamma_grad(a, x).numpy(), rtol=1e-6
    )
