"""Random numbers on the device: they lie there, and come from its generator alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ferro
from ferro import nn
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.nn import functional as F

pytestmark = pytest.mark.usefixtures("cuda")

CASES: dict[str, Callable] = {
    "cauchy_": lambda x: x.cauchy_(),
    "exponential_": lambda x: x.exponential_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "log_normal_": lambda x: x.log_normal_(),
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.T.uniform_(-1, 1),
    "random_": lambda x: x.random_(7),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "kaiming_uniform_": nn.init.kaiming_uniform_,
    "trunc_normal_": nn.init.trunc_normal_,
    "rand_like": ferro.rand_like,
    "randn_like": ferro.randn_like,
    "randint_like": lambda x: ferro.randint_like(x, 9),
    "bernoulli": lambda x: ferro.bernoulli(x.sigmoid()),
    "bernoulli by a number": lambda x: ferro.bernoulli(x, 0.4),
    "binomial": lambda x: ferro.binomial(x.abs().round() + 3, x.sigmoid()),
    "poisson": lambda x: ferro.poisson(x.abs() * 3),
    "multinomial": lambda x: ferro.multinomial(x.abs() + 0.1, 2),
    "normal": lambda x: ferro.normal(x, x.abs()),
    "normal by a number": lambda x: ferro.normal(1.5, x.abs()),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout2d": lambda x: F.dropout2d(x.reshape(1, 3, 2, 2), 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.reshape(1, 3, 2, 2), 0.5, True),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.3, True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "attention with dropout": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3),
    "svd_lowrank": lambda x: ferro.svd_lowrank(x, 2)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_come_from_the_generator_of_the_device(name: str) -> None:
    def drawn() -> Any:
        x = ferro.linspace(-1, 2, 12, dtype=ferro.float64).reshape(3, 4).to("cuda")
        result = CASES[name](x)
        assert result.device.type == "cuda"
        return result.cpu().tolist()

    ferro.manual_seed(3)
    near, there = ferro.get_rng_state(), ferro.cuda.get_rng_state()
    first = drawn()
    assert ferro.equal(ferro.get_rng_state(), near)
    assert not ferro.equal(ferro.cuda.get_rng_state(), there)
    following = [drawn() for _ in range(8)]
    ferro.cuda.set_rng_state(there)
    assert drawn() == first
    assert any(each != first for each in following)


MADE: dict[str, Callable] = {
    "rand": lambda **kw: ferro.rand(5, **kw),
    "randn": lambda **kw: ferro.randn(5, **kw),
    "randint": lambda **kw: ferro.randint(9, (5,), **kw),
    "randperm": lambda **kw: ferro.randperm(50, **kw),
    "normal": lambda **kw: ferro.normal(1.0, 2.0, (5,), **kw),
}


@pytest.mark.parametrize("name", MADE)
def test_a_generator_of_the_device_makes_its_own_numbers(name: str) -> None:
    g = ferro.Generator("cuda").manual_seed(5)
    assert g.device == ferro.device("cuda", 0)
    state = ferro.cuda.get_rng_state()
    first, second = [MADE[name](device="cuda", generator=g) for _ in range(2)]
    assert first.device.type == "cuda"
    assert not ferro.equal(first, second)
    assert ferro.equal(first, MADE[name](device="cuda", generator=ferro.Generator("cuda").manual_seed(5)))
    assert ferro.equal(ferro.cuda.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        MADE[name](device="cuda", generator=ferro.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        MADE[name](generator=g)


def test_the_state_is_a_seed_and_an_offset() -> None:
    g = ferro.Generator(device="cuda").manual_seed(12)
    assert (g.initial_seed(), g.get_offset()) == (12, 0)
    ferro.rand(5, device="cuda", generator=g)
    assert g.get_offset() == 8  # two blocks of four words
    state = g.get_state()
    assert state.dtype is ferro.uint8
    assert state.device.type == "cpu"
    assert state.tolist() == [12, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]
    want = ferro.rand(5, device="cuda", generator=g)
    copy = pickle.loads(pickle.dumps(ferro.Generator("cuda").set_state(state)))
    for other in (copy, copy.clone_state()):
        other.set_offset(8)
        assert ferro.equal(ferro.rand(5, device="cuda", generator=other), want)
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        g.set_offset(6)
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        g.set_state(ferro.get_rng_state())
    with pytest.raises(TypeError, match=r"must be a torch\.ByteTensor"):
        g.set_state(ferro.zeros(16))


def test_seeds_reach_the_device() -> None:
    for seed in (ferro.manual_seed, ferro.cuda.manual_seed, ferro.cuda.manual_seed_all):
        seed(21)
        assert ferro.cuda.initial_seed() == 21
        assert ferro.cuda.get_rng_state_all()[0].tolist()[:9] == [21, *[0] * 8]
    (default,) = ferro.cuda.default_generators
    before = ferro.rand(3, device="cuda")
    default.manual_seed(21)
    assert ferro.equal(ferro.rand(3, device="cuda"), before)
    number = ferro.seed()
    assert ferro.cuda.initial_seed() == number
    ferro.cuda.seed()
    assert ferro.cuda.initial_seed() != number


def test_what_is_drawn_in_a_fork_leaves_no_trace() -> None:
    state = ferro.cuda.get_rng_state()
    with ferro.random.fork_rng():
        ferro.rand(3, device="cuda")
    assert ferro.equal(ferro.cuda.get_rng_state(), state)
    with ferro.random.fork_rng(devices=[]):
        ferro.rand(3, device="cuda")
    assert not ferro.equal(ferro.cuda.get_rng_state(), state)


RECORDED: dict[str, Callable] = {
    "gamma": lambda x: ferro.distributions.Gamma(x + 0.5, 1.0).sample(),
    "dirichlet": lambda x: ferro.distributions.Dirichlet(x + 0.5).sample(),
    "poisson": lambda x: ferro.poisson(x * 20),
    "binomial": lambda x: ferro.binomial(x * 0 + 40, x / 4),
    "multinomial": lambda x: ferro.multinomial(x, 3),
    "multinomial with replacement": lambda x: ferro.multinomial(x, 5, True),
    "rrelu": lambda x: F.rrelu(-x, 0.1, 0.9, True),
}


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_drawn_by_rejection_or_chosen_is_recorded(name: str) -> None:
    ferro.distributions.Distribution.set_default_validate_args(False)  # (which looks at numbers)
    x = ferro.linspace(0.1, 3, 24, device="cuda").reshape(2, 12)
    RECORDED[name](x)
    recorded = ferro.cuda.CUDAGraph()
    with ferro.cuda.graph(recorded):
        out = RECORDED[name](x)
    ferro.distributions.Distribution.set_default_validate_args(True)
    found = []
    for _ in range(6):
        state = ferro.cuda.get_rng_state()
        recorded.replay()
        after = ferro.cuda.get_rng_state()
        ferro.cuda.set_rng_state(state)
        assert ferro.equal(RECORDED[name](x), out)
        assert ferro.equal(ferro.cuda.get_rng_state(), after)
        found.append(out.tolist())
    assert any(each != found[0] for each in found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: ferro.poisson(-x), "invalid Poisson rate"),
        (lambda x: ferro.binomial(x / 0, x), "expected finite counts"),
        (lambda x: ferro.binomial(x, x * 3), "p_in <= 1"),
        (lambda x: ferro.multinomial(-x, 1), "probability entry < 0"),
        (lambda x: ferro.multinomial(x / 0, 1), "infinity or NaN"),
        (lambda x: ferro.multinomial(x * 0, 1), "sum of probabilities <= 0"),
        (lambda x: ferro.multinomial(x, 9), "without replacement: 9 from 3"),
    ],
)
def test_wrong_parameters_raise_before_anything_is_drawn(make: Callable, message: str) -> None:
    state = ferro.cuda.get_rng_state()
    with pytest.raises(RuntimeError, match=message):
        make(ferro.ones(3, device="cuda"))
    assert ferro.equal(ferro.cuda.get_rng_state(), state)


def test_choices_have_the_weights_and_never_a_weight_of_zero() -> None:
    weights = ferro.tensor([[0.0, 1.0, 2.0, 0.0, 5.0, 0.0]], device="cuda")
    ferro.manual_seed(4)
    n = 20_000
    with_replacement = ferro.multinomial(weights, n, True)
    one_each = ferro.multinomial(weights.expand(n, 6), 1)
    for drawn in (with_replacement, one_each):
        assert drawn.device.type == "cuda"
        counts = np.bincount(drawn.cpu().numpy().reshape(-1), minlength=6)
        assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
        assert stats.chisquare(counts[[1, 2, 4]], n * np.array([1, 2, 5]) / 8).pvalue > 1e-3
    # without replacement: the probability of an ordered pair is w_i w_j / (1 - w_i)
    p = np.array([0.2, 0.3, 0.5])
    pairs = ferro.multinomial(ferro.tensor(p, device="cuda").expand(n, 3), 2).cpu().numpy()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    chances = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j}
    counts = [int(((pairs[:, 0] == i) & (pairs[:, 1] == j)).sum()) for i, j in chances]
    assert stats.chisquare(counts, n * np.array([*chances.values()])).pvalue > 1e-3


def test_slopes_of_rrelu_are_uniform_and_carry_the_gradient() -> None:
    ferro.manual_seed(5)
    x = ferro.full((20_000,), -1.0, device="cuda", dtype=ferro.float64, requires_grad=True)
    out = F.rrelu(x, 0.25, 0.5, True)
    (gradient,) = ferro.autograd.grad(out.sum(), x)
    assert ferro.equal(gradient, -out.detach())
    assert stats.kstest(gradient.cpu().numpy(), stats.uniform(0.25, 0.25).cdf).pvalue > 1e-3
    assert F.rrelu(ferro.ones(3, device="cuda"), 0.25, 0.5, True).tolist() == [1.0, 1.0, 1.0]


def test_a_checkpoint_drops_the_same_elements_again() -> None:
    x = ferro.ones(200, device="cuda", requires_grad=True)
    out = ferro.utils.checkpoint.checkpoint(lambda t: F.dropout(t, 0.5) * t, x, use_reentrant=False)
    before = ferro.cuda.get_rng_state()
    out.sum().backward()
    gradient: Any = x.grad
    assert ferro.equal(gradient, 2 * out.detach())
    assert ferro.equal(ferro.cuda.get_rng_state(), before)
    devices, states = ferro.utils.checkpoint.get_device_states(x)
    assert devices == [0]
    ferro.rand(3, device="cuda")
    ferro.utils.checkpoint.set_device_states(devices, states)
    assert ferro.equal(ferro.cuda.get_rng_state(), before)


def test_dropout_is_one_launch_each_way_and_keeps_no_mask() -> None:
    x = ferro.ones(3, 70, device="cuda", requires_grad=True)
    LAUNCHES.clear()
    out = F.dropout(x, 0.25)
    assert dict(LAUNCHES) == {"drop": 1}
    (gradient,) = ferro.autograd.grad(out.sum(), x, create_graph=True)
    assert LAUNCHES["drop"] == 2
    assert ferro.equal(gradient, out.detach())
    assert 100 < int((gradient != 0).sum()) < 200
    (second,) = ferro.autograd.grad((gradient * x).sum(), x)
    assert ferro.equal(second, gradient.detach())
    _, tangent = ferro.func.jvp(lambda t: F.dropout(t, 0.25), (x.detach(),), (x.detach(),))
    assert set(tangent.unique().tolist()) == {0.0, ferro.tensor(1 / 0.75).item()}
    y = ferro.ones(50, device="cuda")
    assert F.dropout(y, 0.5, inplace=True) is y
    assert set(y.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_of_a_number_has_no_dimension(inplace: bool) -> None:
    leaf = ferro.tensor(3.0, dtype=ferro.float64, device="cuda", requires_grad=True)
    x = leaf * 1
    out = F.dropout(x, 0.5, inplace=inplace)
    assert out.shape == ()
    assert out.item() in (0.0, 6.0)
    (gradient,) = ferro.autograd.grad(out, leaf)
    assert gradient.item() == out.item() / 3


def test_each_replay_of_a_graph_draws_on() -> None:
    x = ferro.ones(64, device="cuda", requires_grad=True)
    ferro.cuda.manual_seed(8)
    side = ferro.cuda.Stream()
    with ferro.cuda.stream(side):
        F.dropout(x, 0.5).sum().backward()
    ferro.cuda.synchronize()
    recorded = ferro.cuda.CUDAGraph()
    offset = ferro.cuda.default_generators[0].get_offset()
    with ferro.cuda.graph(recorded):
        noise = ferro.rand(64, device="cuda")
        out = F.dropout(x, 0.5)
        (gradient,) = ferro.autograd.grad(out.sum(), x)
    assert ferro.cuda.default_generators[0].get_offset() == offset
    found = []
    for _ in range(3):
        state = ferro.cuda.get_rng_state()
        recorded.replay()
        assert ferro.equal(gradient, out.detach())
        replayed = [noise.clone(), out.detach().clone()]
        after = ferro.cuda.get_rng_state()
        ferro.cuda.set_rng_state(state)
        eager = [ferro.rand(64, device="cuda"), F.dropout(x, 0.5).detach()]
        assert ferro.equal(ferro.cuda.get_rng_state(), after)
        for got, want in zip(replayed, eager, strict=True):
            assert ferro.equal(got, want)
        found.append(replayed[0])
    assert not ferro.equal(found[0], found[1])
    ferro.cuda.manual_seed(8)
    recorded.replay()
    first = noise.clone()
    ferro.cuda.manual_seed(8)
    recorded.replay()
    assert ferro.equal(noise, first)
