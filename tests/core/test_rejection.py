"""Numbers drawn by rejection and integers: with and without machine code PyTorch's, and parameters at the ends of their ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.twister import machine_code

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)
INF, NAN = float("inf"), float("nan")


def row(m: Any, low: float, high: float, n: int) -> Any:
    return m.from_numpy(np.linspace(low, high, n))


DRAWS: dict[str, Callable[[Any, int], Any]] = {
    "gamma": lambda m, n: m._standard_gamma(row(m, 0.01, 9, n)),
    "poisson": lambda m, n: m.poisson(row(m, 0, 30, n)),
    "binomial": lambda m, n: m.binomial(row(m, 1, 90, n).round(), row(m, 1, 0, n)),
    "binomial of many": lambda m, n: m.binomial(m.full((n,), 1e6), row(m, 0, 1, n).float()),
    "dirichlet": lambda m, n: m._sample_dirichlet(row(m, 0.1, 9, 4 * n).reshape(n, 4)),
    "randint": lambda m, n: m.randint(-3, 7, (n,)),
    "randint of 2^28 - 1": lambda m, n: m.randint(-5, 2**28 - 6, (n,)),
    "randint of 2^28": lambda m, n: m.randint(-5, 2**28 - 5, (n,)),
    "randint, one": lambda m, n: m.randint(5, 6, (n,)),
    "random_ of 64 bits": lambda m, n: m.empty(n, dtype=m.int64).random_(-(2**63), None),
    "random_ of 63 bits": lambda m, n: m.empty(n, dtype=m.int64).random_(),
    "random_ in uint8": lambda m, n: m.empty(n, dtype=m.uint8).random_(),
    "normal_ of a column": lambda m, n: m.empty(n, 2)[:, 0].normal_(3, 2),
}


@pytest.mark.parametrize("by_formulas", [False, True], ids=["machine code", "formulas"])
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_those_of_torch(name: str, by_formulas: bool, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    if by_formulas:
        monkeypatch.setattr(machine_code, "fill", lambda *_: False)
        monkeypatch.setattr(machine_code, "fill_whole", lambda *_: False)
    for n in (1, 3, 700, 5000):
        ours, theirs = [(m.manual_seed(seed), DRAWS[name](m, n).numpy(), m.rand(1).item()) for m in (ferro, torch)]
        np.testing.assert_array_equal(ours[1], theirs[1])
        assert ours[2] == theirs[2], "the stream goes on elsewhere"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("rate", [NAN, INF, -1.0, 1e19, 1e300])
def test_rates_that_are_none_are_refused(rate: float, dtype: str) -> None:
    if rate < INF and dtype != "float64" and rate > torch.finfo(getattr(torch, dtype)).max:
        return  # (there is no such number)
    state = ferro.get_rng_state()
    words = "too large for counts of 64 bits" if rate > 0 else "invalid Poisson rate, expected rate to be non-negative"
    with pytest.raises(RuntimeError, match=words):
        ferro.poisson(ferro.tensor([1.0, rate], dtype=getattr(ferro, dtype)))
    assert ferro.equal(ferro.get_rng_state(), state)


@pytest.mark.parametrize("count", [NAN, INF, -INF])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_counts_that_are_none_are_refused(count: float, p: float) -> None:
    with pytest.raises(RuntimeError, match="expected finite counts"):
        ferro.binomial(ferro.tensor([4.0, count]), ferro.tensor([0.5, p]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_at_the_ends_of_their_ranges(dtype: str) -> None:
    draws = [
        lambda m, t: m.poisson(t([0.0, 1e-320, 1e-30, 9.999999, 10.0, 1e5, 1e12] * 9)),
        lambda m, t: m.binomial(t([0.0, -3.0, 2.5, 10.7, 1e5, 60.5] * 9), t([0.3, 0.3, 0.6, 1.0, 1e-30, 0.5] * 9)),
        lambda m, t: m.binomial(t([1e5, 1e5, 7.0, 7.0] * 9), t([0.0, 1.0, 0.999999, 1e-7] * 9)),
        lambda m, t: m._standard_gamma(t([0.0, 1e-30, 1e-3, 1.0, 1e30, INF] * 9)),
        lambda m, t: m._sample_dirichlet(t([[0.0, 1.0], [1e-30, 1e-30], [1e30, 1.0]])),
    ]
    for draw in draws:
        drawn = []
        for m in (ferro, torch):
            m.manual_seed(4)
            drawn.append(draw(m, lambda v, m=m: m.tensor(v, dtype=getattr(m, dtype))).numpy())
        np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_concentrations_that_are_none_give_nan(dtype: str) -> None:
    bad = ferro.tensor([-1.0, -0.25, NAN], dtype=getattr(ferro, dtype))
    assert ferro._standard_gamma(bad).isnan().all()
    assert ferro._sample_dirichlet(ferro.tensor([[INF, 1.0]], dtype=bad.dtype)).isnan().any()
