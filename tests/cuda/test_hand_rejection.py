"""Gamma, Poisson and binomial numbers on the device: thread by thread beside the CPU's rejection fed with the same words, and beside SciPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import stats

import ferro
from ferro.cpu.kernels import rejection as on_cpu
from ferro.cuda import philox as streams
from ferro.cuda.by_hand import rejection
from tests.cuda import emulated, hand, stand_in
from tests.cuda.test_hand_draws import SIZES, philox

pytestmark = pytest.mark.usefixtures("cuda")
DIGITS = np.uint64((1 << 52) - 1)


class Attempts:
    """The numbers of one element, one by one, as the CPU's functions take them: attempt k has two of (0, 1)."""

    def __init__(self, seed: int, block: int) -> None:
        self.seed, self.block, self.count, self.left = seed, block, 0, []

    def pair(self) -> list[float]:
        self.count += 1
        counter = np.array([[self.block & 0xFFFFFFFF, self.block >> 32, self.count, 0]], np.uint64)
        w = philox(counter, (self.seed & 0xFFFFFFFF, self.seed >> 32))[0]
        v = w[0::2] << np.uint64(32) | w[1::2]
        return (((v & DIGITS) + 0.5) * 2.0**-52).tolist() + [int(v[1] & np.uint64((1 << 53) - 1)) * 2.0**-53]

    def __next__(self) -> float:
        if not self.left:
            self.left = self.pair()[:2]
        return self.left.pop(0)


class OfGamma(Attempts):
    """Those of a gamma number: every uniform one has an attempt of its own, and is taken as 1 - u."""

    def __next__(self) -> float:
        return 1 - self.pair()[0]

    def normal(self) -> float:
        u, _, turn = self.pair()
        return float(np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * turn))


def gamma(seed: int, block: int, alpha: float, tiny: float) -> float:
    raised = alpha + 1 if alpha < 1 else alpha
    return on_cpu.gamma(OfGamma(seed, block), alpha, raised - 1 / 3, 1 / alpha if alpha else np.inf, tiny)


def binomial(seed: int, block: int, n: float, p: float) -> float:
    columns = [float(c) for c in on_cpu.binomial_columns(np.array(n), np.array(p))]
    return on_cpu.binomial(Attempts(seed, block), *columns)


@pytest.mark.parametrize("dtype", hand.SOME)
def test_numbers_are_those_of_the_words(dtype: str) -> None:
    d, rng = np.dtype(hand.DTYPES[dtype]), np.random.default_rng(2)
    tiny = float(ml_dtypes.finfo(d).tiny)
    for n in SIZES:
        n = n if n < 300 else 20 + n % 113  # (words one by one in Python are slow)
        alpha = np.exp(rng.uniform(-3, 5, n)).astype(d)
        rate = np.exp(rng.uniform(-3, 7, n)).astype(d)
        count, p = np.floor(np.exp(rng.uniform(0, 6, n))).astype(d), rng.uniform(0, 1, n).astype(d)
        rate[: n // 20], p[: n // 20] = 0, 0

        def run(name: str, *parameters: np.ndarray, n: int = n) -> Any:
            def one() -> Any:
                stream = streams.Philox(31)
                stream.offset = 8
                found = getattr(stream, name)(*[hand.there(a) for a in parameters])
                assert stream.offset == 8 + 4 * n
                return found

            return hand.wide(hand.in_all_orders(one, f"draw_{name}"))

        want = [gamma(31, 2 + i, float(a), tiny) for i, a in enumerate(alpha)]
        np.testing.assert_allclose(
            run("gamma", alpha), np.asarray(want).astype(d).astype(float), rtol=2 * hand.TOLERANCE[dtype]
        )
        want = [on_cpu.poisson(Attempts(31, 2 + i), float(r)) for i, r in enumerate(rate)]
        np.testing.assert_array_equal(run("poisson", rate), np.asarray(want).astype(d).astype(float))
        want = [binomial(31, 2 + i, float(c), float(q)) for i, (c, q) in enumerate(zip(count, p, strict=True))]
        np.testing.assert_array_equal(run("binomial", count, p), np.asarray(want).astype(d).astype(float))


def test_numbers_without_a_distribution_are_nan_and_end() -> None:
    nan, inf = np.nan, np.inf
    s = streams.Philox(0)
    assert s.gamma(hand.there(np.array([0.0]))).get().tolist() == [np.finfo(float).tiny]
    np.testing.assert_array_equal(s.gamma(hand.there(np.array([-1.0, nan]))).get(), [nan, nan])
    np.testing.assert_array_equal(s.poisson(hand.there(np.array([0.0, -1.0, nan, inf]))).get(), [0, nan, nan, nan])
    count, p = np.array([nan, inf, 5.0, 5.0, 5.0, -3.0, 0.0]), np.array([0.5, 0.5, nan, 0.0, 1.0, 0.5, 0.5])
    np.testing.assert_array_equal(s.binomial(hand.there(count), hand.there(p)).get(), [nan, nan, nan, 0, 5, 0, 0])
    for method, parameters in (("gamma", 1), ("poisson", 1), ("binomial", 2)):
        assert getattr(s, method)(*[hand.there(np.zeros((0, 3)))] * parameters).shape == (0, 3)


N = 100_000


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0, 1.7, 30.0, 2e4])
def test_gamma_numbers_have_scipys_distribution(alpha: float) -> None:
    x = streams.Philox(101).gamma(hand.there(np.full(N, alpha))).get()
    assert stats.kstest(x, stats.gamma(alpha).cdf).pvalue > 1e-3


def fits(x: np.ndarray, distribution: Any) -> float:
    """The chi-square test's p-value for whole numbers, in classes of ten expected at least."""
    low, high = int(distribution.ppf(1e-3)), int(distribution.ppf(1 - 1e-3))
    step = max((high - low) // 40, 1)
    edges = [-1, *range(low, high + step, step), np.inf]
    want = N * np.diff(distribution.cdf(edges[:-1]), append=1.0)
    counts = np.histogram(x, [-0.5, *[e + 0.5 for e in edges[1:-1]], np.inf])[0]
    keep = want >= 10
    assert counts.sum() == N
    want, counts = [np.append(a[keep], a[~keep].sum()) for a in (want, counts)]
    used = want > 0
    return float(stats.chisquare(counts[used], want[used]).pvalue)


@pytest.mark.parametrize("rate", [0.2, 3.0, 9.9, 10.0, 47.5, 1e3, 1e6])
def test_poisson_numbers_have_scipys_distribution(rate: float) -> None:
    x = streams.Philox(102).poisson(hand.there(np.full(N, rate))).get()
    assert (x == np.floor(x)).all()
    assert fits(x, stats.poisson(rate)) > 1e-3


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.3), (10, 0.5), (40, 0.02), (40, 0.6), (1000, 0.995), (1000, 0.3), (10**6, 0.45)]
)
def test_binomial_numbers_have_scipys_distribution(n: int, p: float) -> None:
    x = streams.Philox(103).binomial(hand.there(np.full(N, float(n))), hand.there(np.full(N, p))).get()
    assert (x == np.floor(x)).all()
    assert x.min() >= 0
    assert x.max() <= n
    assert fits(x, stats.binom(n, p)) > 1e-3


@pytest.mark.filterwarnings("ignore:dirichlet_grad is not there on device")
def test_distributions_of_the_library_draw_on_the_device() -> None:
    ferro.manual_seed(6)
    where = {"device": "cuda", "dtype": ferro.float64}
    make = ferro.distributions
    cases = [
        (make.Gamma(ferro.tensor(2.5, **where), ferro.tensor(4.0, **where)), stats.gamma(2.5, scale=0.25)),
        (make.Beta(ferro.tensor(0.7, **where), ferro.tensor(2.0, **where)), stats.beta(0.7, 2.0)),
        (make.Chi2(ferro.tensor(3.0, **where)), stats.chi2(3)),
        (make.StudentT(ferro.tensor(5.0, **where)), stats.t(5)),
        (make.InverseGamma(ferro.tensor(3.0, **where), ferro.tensor(2.0, **where)), stats.invgamma(3, scale=2)),
        (make.Laplace(ferro.tensor(1.0, **where), ferro.tensor(2.0, **where)), stats.laplace(1, 2)),
        (make.Cauchy(ferro.tensor(1.0, **where), ferro.tensor(2.0, **where)), stats.cauchy(1, 2)),
        (make.Gumbel(ferro.tensor(1.0, **where), ferro.tensor(2.0, **where)), stats.gumbel_r(1, 2)),
        (make.VonMises(ferro.tensor(0.5, **where), ferro.tensor(2.0, **where)), stats.vonmises(2.0, 0.5)),
    ]
    for distribution, want in cases:
        x = distribution.sample((5000,))
        assert x.device.type == "cuda"
        assert stats.kstest(x.cpu().numpy(), want.cdf).pvalue > 1e-3, distribution
    concentration = ferro.tensor([0.5, 2.0, 3.0], **where).requires_grad_()
    shares = make.Dirichlet(concentration).rsample((4000,))
    np.testing.assert_allclose(shares.sum(-1).detach().cpu().numpy(), 1, rtol=1e-12)
    assert stats.kstest(shares.detach().cpu().numpy()[:, 0], stats.beta(0.5, 5.0).cdf).pvalue > 1e-3
    (slope,) = ferro.autograd.grad(shares[:, 1].mean(), concentration)
    # d E[x_1] / d a of a Dirichlet distribution: (delta_1j total - a_1) / total^2
    np.testing.assert_allclose(slope.cpu().numpy(), np.array([-2.0, 3.5, -2.0]) / 5.5**2, atol=0.02)


@cache
def numbers_for_faults(n: int) -> list[float]:
    """Gamma, Poisson and binomial numbers one by one in Python, which is slow: once for all faults."""
    numbers = [gamma(3, i, 0.4, 0.0) for i in range(n)]
    numbers += [on_cpu.poisson(Attempts(3, i), 4.0 if i % 2 else 40.0) for i in range(n)]
    return numbers + [binomial(3, i, 30.0, 0.8) for i in range(n)]


FAULTS = [
    ("++count, 0)", "++count, 1)"),
    ("b += 1;", ""),
    ("scale * b * v", "b * v"),
    ("return p > 0.5 ? n - k : k;", "return k;"),
    ("* log_rate - rate", "* log_rate"),
    ("product *= inner(w, 1);", "product *= inner(w, 0);"),
    ("blockIdx.x * (place)blockDim.x", "blockIdx.x"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = rejection.texts("float64")
    wrong = hand.planted(text, (before, after), FAULTS)
    n, agrees = 600, []
    alpha, rate = np.full(n, 0.4), np.where(np.arange(n) % 2, 4.0, 40.0)
    count, p = np.full(n, 30.0), np.full(n, 0.8)
    want = numbers_for_faults(n)
    for each in (text, wrong):
        source = np.int64(n), np.int64(3), np.int64(0), stand_in.there(np.zeros(0, np.int64))
        found = []
        for name, parameters in (
            ("gamma", (stand_in.there(alpha), np.float64(0))),
            ("poisson", (stand_in.there(rate),)),
            ("binomial", (stand_in.there(count), stand_in.there(p))),
        ):
            out = stand_in.there(np.zeros(n))
            emulated.Kernel(each, f"draw_{name}")((3,), (256,), (*source, *parameters, out))
            found += out.near.tolist()
        agrees.append(bool(np.allclose(found, want, rtol=1e-11)))
    assert agrees == [True, False]
