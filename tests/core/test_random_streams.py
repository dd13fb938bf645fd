"""PyTorch's streams of random numbers: the table in docs/random.md, row by row, and the states of generators."""

from __future__ import annotations

import copy
import math
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import ROOT, run_python

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)
SAME_ROUNDING = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")  # those for which the table promises bits
SIZES = (0, 1, 7, 15, 16, 17, 31, 1000)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
LOOSE = {"float16": 2e-3, "bfloat16": 2e-2}  # where a step between results is rounded differently

Draw = Callable[[Any, int, Any], Any]


def spread(library: Any, n: int, d: Any, low: float, high: float) -> Any:
    """The same numbers in either library."""
    return library.from_numpy(np.linspace(low, high, n, dtype=np.float32)).to(d)


def turned(library: Any, n: int, d: Any) -> Any:
    """A tensor without gaps that is not in C order."""
    return library.zeros(n, 3, 2, dtype=d).permute(2, 0, 1)


def init(name: str, *args: Any) -> Draw:
    return lambda m, n, d: getattr(m.nn.init, name)(m.empty(n + 1, 7, dtype=d), *args)


def normals_by_tensors(m: Any, n: int, d: Any) -> Any:
    mean, std = spread(m, n, d, -2, 2), spread(m, n, d, 0, 3)
    return [m.normal(mean, std), m.normal(mean, 2.0), m.normal(2.0, std), m.normal(1.5, 0.5, (n,), dtype=d)]


BOTH, CONTINUOUS, DISCRETE = (*FLOATS, *INTEGERS, "bool"), (*FLOATS, "complex64", "complex128"), (*FLOATS, *INTEGERS)
WIDE, FEW = ("float32", "float64"), ("float32", "float64", "bfloat16")
# Of each function in the table, the dtypes in which it is drawn, and draws of n elements.
DRAWS: dict[str, tuple[tuple[str, ...], list[Draw]]] = {
    "rand": (CONTINUOUS, [lambda m, n, d: m.rand(n, dtype=d)]),
    "rand_like": (CONTINUOUS, [lambda m, n, d: m.rand_like(turned(m, n, d))]),
    "uniform_": (
        CONTINUOUS,
        [lambda m, n, d: m.empty(n, dtype=d).uniform_(-0.3, 1.7), lambda m, n, d: turned(m, n, d).uniform_(1, 9)],
    ),
    "randn": (CONTINUOUS, [lambda m, n, d: m.randn(n, dtype=d)]),
    "randn_like": (
        CONTINUOUS,
        [
            lambda m, n, d: m.randn_like(turned(m, n, d)),
            lambda m, n, d: m.randn_like(turned(m, n, d), memory_format=m.contiguous_format),
        ],
    ),
    "normal_": (
        FLOATS,
        [
            lambda m, n, d: m.empty(n, dtype=d).normal_(0.3, 1.7),
            lambda m, n, d: m.empty(n, 2, dtype=d)[:, 0].normal_(3, 2),
        ],
    ),
    "normal": (FLOATS, [normals_by_tensors]),
    "randint": (
        DISCRETE,
        [
            lambda m, n, d: m.randint(0, 101, (n,), dtype=d),
            lambda m, n, d: m.randint(-(2**62), 2**62 + 5, (n,)),
            lambda m, n, d: m.randint(-5, 2**28 - 5, (n,)),
        ],
    ),
    "randint_like": (DISCRETE, [lambda m, n, d: m.randint_like(turned(m, n, d), 3, 99)]),
    "random_": (
        BOTH,
        [
            lambda m, n, d: m.empty(n, dtype=d).random_(),
            lambda m, n, d: m.empty(n, dtype=d).random_(0, 2),
            lambda m, n, d: m.empty(n, dtype=d).random_(1, None),
            lambda m, n, d: m.empty(n, dtype=m.int64).random_(-(2**63), None),
            lambda m, n, d: m.empty(n, dtype=m.float16).random_(-5, 65504),
        ],
    ),
    "randperm": (("int64", "int32", "float32", "float64"), [lambda m, n, d: m.randperm(n, dtype=d)]),
    "bernoulli": (
        FLOATS,
        [lambda m, n, d: m.bernoulli(spread(m, n, d, 0, 1)), lambda m, n, d: m.bernoulli(turned(m, n, d), 0.3)],
    ),
    "bernoulli_": (
        BOTH,
        [
            lambda m, n, d: m.empty(n, dtype=d).bernoulli_(0.3),
            lambda m, n, d: m.empty(n, dtype=d).bernoulli_(spread(m, n, m.float32, 0, 1)),
            lambda m, n, d: m.empty(n, dtype=d).bernoulli_(spread(m, n, m.float64, 0, 1)),
        ],
    ),
    "nn.functional.dropout": (
        FLOATS,
        [
            lambda m, n, d: m.nn.functional.dropout(spread(m, n, d, 1, 2), 0.3),
            lambda m, n, d: m.nn.functional.dropout(turned(m, n, d) + 1, 0.6),
            lambda m, n, d: m.native_dropout(spread(m, n, d, 1, 2), 0.3, True)[0],
            lambda m, n, d: m.nn.functional.dropout(spread(m, n, d, 1, 2), 1.0),
        ],
    ),
    "nn.functional.alpha_dropout": (
        FLOATS,
        [lambda m, n, d: m.nn.functional.alpha_dropout(spread(m, n, d, -2, 2), 0.3, True)],
    ),
    "nn.functional.feature_dropout": (
        WIDE,
        [
            lambda m, n, d: m.nn.functional.dropout1d(m.ones(2, n, 3, dtype=d), 0.3),
            lambda m, n, d: m.nn.functional.feature_alpha_dropout(m.ones(2, n, 3, dtype=d), 0.3, True),
        ],
    ),
    "nn.functional.rrelu": (FEW, [lambda m, n, d: m.nn.functional.rrelu(spread(m, n, d, -3, 3), training=True)]),
    "nn.functional.fractional_max_pool2d": (
        WIDE,
        [
            lambda m, n, d: m.nn.functional.fractional_max_pool2d(
                spread(m, 72, d, 0, 1).reshape(1, 2, 6, 6), 2, output_size=3
            )
        ],
    ),
    "exponential_": (
        FLOATS,
        [lambda m, n, d: m.empty(n, dtype=d).exponential_(1.5), lambda m, n, d: turned(m, n, d).exponential_()],
    ),
    "cauchy_": (FLOATS, [lambda m, n, d: m.empty(n, dtype=d).cauchy_(0.3, 1.7)]),
    "log_normal_": (FLOATS, [lambda m, n, d: m.empty(n, dtype=d).log_normal_(0.3, 0.7)]),
    "geometric_": ((*FLOATS, *INTEGERS), [lambda m, n, d: m.empty(n, dtype=d).geometric_(0.5)]),
    "poisson": (FLOATS, [lambda m, n, d: m.poisson(spread(m, n, d, 0, 30))]),
    "binomial": (WIDE, [lambda m, n, d: m.binomial(m.full((n,), 60, dtype=d), spread(m, n, d, 0, 1))]),
    "distributions.Gamma": (
        WIDE,
        [lambda m, n, d: m.distributions.Gamma(spread(m, n, d, 0.1, 9), spread(m, n, d, 1, 2)).sample()],
    ),
    "distributions.Beta": (
        WIDE,
        [lambda m, n, d: m.distributions.Beta(spread(m, n + 1, d, 0.1, 9), spread(m, n + 1, d, 3, 0.2)).sample()],
    ),
    "distributions.Dirichlet": (
        WIDE,
        [lambda m, n, d: m.distributions.Dirichlet(spread(m, 3 * n + 3, d, 0.1, 9).reshape(-1, 3)).sample()],
    ),
    "multinomial with replacement": (
        FEW,
        [
            lambda m, n, d: m.multinomial(spread(m, n + 1, d, 0.1, 1), n + 3, True),
            lambda m, n, d: m.multinomial(spread(m, 12, d, 0.1, 1).reshape(3, 4), n + 1, True),
        ],
    ),
    "multinomial without replacement": (
        WIDE,
        [
            lambda m, n, d: m.multinomial(spread(m, n + 1, d, 0.1, 1), min(n + 1, 40)),
            lambda m, n, d: m.multinomial(spread(m, 12, d, 0.1, 1).reshape(4, 3).t(), 1),
        ],
    ),
    "nn.functional.gumbel_softmax": (FEW, [lambda m, n, d: m.nn.functional.gumbel_softmax(spread(m, n, d, 0, 1))]),
    "nn.init.uniform_": (WIDE, [init("uniform_", -1.0, 3.0)]),
    "nn.init.xavier_uniform_": (WIDE, [init("xavier_uniform_", 1.5)]),
    "nn.init.kaiming_uniform_": (WIDE, [init("kaiming_uniform_", 5**0.5)]),
    "nn.init.normal_": (WIDE, [init("normal_", 1.0, 2.0)]),
    "nn.init.xavier_normal_": (WIDE, [init("xavier_normal_")]),
    "nn.init.kaiming_normal_": (WIDE, [init("kaiming_normal_", 0, "fan_out", "relu")]),
    "nn.init.trunc_normal_": (
        WIDE,
        [init("trunc_normal_"), init("trunc_normal_", 0.0, 1.0, -1.0, 1.0), init("trunc_normal_", 0.0, 1.0, 1.5, 4.0)],
    ),
    "nn.init.sparse_": (WIDE, [init("sparse_", 0.3)]),
    "nn.init.orthogonal_": (WIDE, [init("orthogonal_", 1.3)]),
}


@cache
def table() -> dict[str, tuple[str, str]]:
    """What docs/random.md says of each function: "bits" or "rounding" in the first dtypes, and in float64."""
    rows = re.findall(
        r"^\| (`.*) \| (\w+) \| (\w+) \|$", (ROOT / "docs" / "random.md").read_text("utf-8"), re.MULTILINE
    )
    return {
        name.strip("`") if "," in names else name.replace("`", ""): (low, wide)
        for names, low, wide in rows
        for name in names.split(", ")
    }


def test_the_table_names_every_function_that_is_compared() -> None:
    assert table().keys() == DRAWS.keys()


def numbers(t: Any) -> np.ndarray:
    t = t.detach()
    return (t.to(t.float().dtype) if "float16" in str(t.dtype) else t).numpy()


def drawn(library: Any, draw: Draw, n: int, d: str, seed: int) -> tuple[list, np.ndarray]:
    """What a draw gives after a seed, and the state it leaves behind."""
    library.default_generator.manual_seed(
        seed
    )  # (torch.manual_seed seeds absent GPUs, too, which takes longer than most draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (of empty weights, and of bounds that a dtype does not hold exactly)
        found = draw(library, n, getattr(library, d))
    return [numbers(t) for t in (found if isinstance(found, list) else [found])], library.get_rng_state().numpy()


def same_state(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether states agree, the normal number kept for the next draw to rounding."""
    (before, kept, after), (meant_before, meant, meant_after) = [np.split(s, (5024, 5032)) for s in (ours, theirs)]
    near = math.isclose(kept.view(np.float64)[0], meant.view(np.float64)[0], rel_tol=1e-13)
    return near and np.array_equal(before, meant_before) and np.array_equal(after, meant_after)


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_functions_draw_what_torch_draws(name: str, seed: int) -> None:
    kinds, draws = DRAWS[name]
    for d in kinds:
        says = table()[name][d in ("float64", "complex128")]
        for k, draw in enumerate(draws):
            for n in SIZES:
                (ours, after), (theirs, meant) = [drawn(library, draw, n, d, seed) for library in (ferro, torch)]
                where = f"{name}, draw {k} of {n} in {d}"
                for a, b in zip(ours, theirs, strict=True):
                    if says == "bits" and SAME_ROUNDING:
                        np.testing.assert_array_equal(a, b, where)
                    else:
                        np.testing.assert_allclose(
                            a, b, LOOSE.get(d, 3e-6 if d in ("float32", "complex64") else 1e-9), 1e-6, err_msg=where
                        )
                assert same_state(after, meant), f"{where}: another state is left behind"


def test_draws_in_mixed_order_go_on_where_torch_goes_on(seed: int) -> None:
    order = np.random.default_rng(seed).choice(sorted(set(DRAWS) - {"nn.init.orthogonal_"}), 60)
    for library in (ferro, torch):
        library.manual_seed(seed)
    for i, name in enumerate(order):
        kinds, draws = DRAWS[name]
        d, n = kinds[i % len(kinds)], SIZES[i % len(SIZES)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for library in (ferro, torch):
                draws[0](library, n, getattr(library, d))
        assert same_state(ferro.get_rng_state().numpy(), torch.get_rng_state().numpy()), (i, name)


@pytest.mark.parametrize(
    "name",
    [
        "rand",
        "randn",
        "normal_",
        "randint",
        "randperm",
        "bernoulli_",
        "random_",
        "exponential_",
        "poisson",
        "binomial",
        "distributions.Gamma",
    ],
)
def test_large_draws_agree(name: str, seed: int) -> None:
    n = (
        5003 if "." in name or "oisson" in name or name == "binomial" else 100_003
    )  # (without machine code those are drawn one by one)
    (ours, after), (theirs, meant) = [drawn(m, DRAWS[name][1][0], n, DRAWS[name][0][0], seed) for m in (ferro, torch)]
    if SAME_ROUNDING:
        assert np.mean(ours[0] != theirs[0]) < 1e-4
    np.testing.assert_allclose(ours[0], theirs[0], 1e-5, 1e-6)
    assert same_state(after, meant)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["normal_", "cauchy_", "log_normal_"])
def test_infinite_and_large_parameters(name: str, dtype: str) -> None:
    inf = float("inf")
    for count in (3, 20):
        for parameters in ((inf, 0.5), (-inf, 0.5), (0.0, inf), (1e300, 1e305)):
            drawn = []
            for library in (torch, ferro):
                library.manual_seed(1)
                filled = library.empty(count, dtype=getattr(library, dtype))
                drawn.append(getattr(filled, name)(*parameters).numpy())
            np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-6 if dtype == "float32" else 1e-12)


def test_many_seeds_give_the_numbers_of_torch() -> None:
    for seed in (0, 1, -1, 2**32, 2**32 + 1, 2**63, 2**64 - 1, -(2**63), 67280421310721):
        ours, theirs = [m.Generator().manual_seed(seed) for m in (ferro, torch)]
        assert ours.initial_seed() == theirs.initial_seed()
        np.testing.assert_array_equal(ferro.rand(5, generator=ours).numpy(), torch.rand(5, generator=theirs).numpy())
    assert ferro.rand(3, generator=ferro.Generator()).tolist() == torch.rand(3, generator=torch.Generator()).tolist()


# -- states


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 623, 624, 625, 1000])
def test_states_are_read_by_the_other_library(n: int) -> None:
    ours, theirs = [m.Generator().manual_seed(11) for m in (ferro, torch)]
    for library, g in ((ferro, ours), (torch, theirs)):
        library.randn(n, generator=g)
        library.randn(3, generator=g)  # leaves a normal number over
    state = ours.get_state().numpy()
    assert same_state(state, theirs.get_state().numpy())
    there = torch.Generator().set_state(torch.from_numpy(state.copy()))
    here = ferro.Generator().set_state(ferro.from_numpy(theirs.get_state().numpy().copy()))
    assert here.initial_seed() == there.initial_seed() == 11
    np.testing.assert_allclose(ferro.randn(5, generator=here).numpy(), torch.randn(5, generator=there).numpy(), 1e-6)
    np.testing.assert_array_equal(ferro.rand(9, generator=here).numpy(), torch.rand(9, generator=there).numpy())


def test_states_that_are_none_are_refused_and_change_nothing() -> None:
    g = ferro.Generator().manual_seed(3)
    before = g.get_state()
    broken = before.clone()
    broken[8:16] = 0
    for state, error, words in (
        (
            ferro.zeros(3, dtype=ferro.uint8),
            RuntimeError,
            "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 3",
        ),
        (ferro.zeros(56, dtype=ferro.uint8), RuntimeError, "use_fast_streams"),
        (broken, RuntimeError, "Invalid mt19937 state"),
        (ferro.zeros(5056), TypeError, "RNG state must be a torch.ByteTensor"),
        (3, TypeError, "expected a torch.ByteTensor"),
    ):
        with pytest.raises(error, match=words):
            g.set_state(state)
    assert ferro.equal(g.get_state(), before)
    assert g.initial_seed() == 3


def test_generators_have_the_methods_of_those_on_the_cpu() -> None:
    g = ferro.Generator().manual_seed(3)
    assert {n for n in dir(torch.Generator()) if n[0] != "_"} <= set(dir(g))
    clone = g.clone_state()
    assert ferro.rand(4, generator=clone).tolist() == ferro.rand(4, generator=g).tolist()
    for refused in (g.get_offset, lambda: g.set_offset(1)):
        with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
            refused()
    for refused in (g.graphsafe_get_state, lambda: g.graphsafe_set_state(clone)):
        with pytest.raises(NotImplementedError, match="is not supported in this Generator"):
            refused()
    assert g.seed() == g.initial_seed()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_of_a_generator_go_on_by_themselves(copied: Callable[[Any], Any]) -> None:
    g = ferro.Generator().manual_seed(8)
    ferro.randn(3, generator=g)
    other = copied(g)
    numbers = ferro.randn(40, generator=other)
    assert ferro.equal(numbers, ferro.randn(40, generator=g))
    assert other.initial_seed() == 8


def test_fork_rng_leaves_the_numbers_that_follow_alone() -> None:
    def run(library: Any) -> list:
        library.manual_seed(2)
        library.randn(3)
        with library.random.fork_rng():
            inside = library.randn(20).sum()
            library.manual_seed(5)
        return [inside.item(), *library.randn(3).tolist()]

    np.testing.assert_allclose(run(ferro), run(torch), 1e-5)


def test_threads_that_share_a_generator_draw_different_numbers() -> None:
    g, found = ferro.Generator().manual_seed(1), []
    threads = [threading.Thread(target=lambda: found.append(ferro.randn(1000, 33, generator=g))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    rows = ferro.cat(found).numpy()
    assert len(np.unique(rows[:, 0])) == len(rows) == 4000
    whole = ferro.randn(4, 1000, 33, generator=ferro.Generator().manual_seed(1)).numpy()
    assert set(np.unique(whole[0])) & set(np.unique(rows))


# -- the other streams


def test_fast_streams_are_others_until_they_are_switched_off() -> None:
    ferro.manual_seed(3)
    theirs = ferro.rand(4).tolist()
    try:
        ferro.random.use_fast_streams()
        ferro.manual_seed(3)
        first = ferro.randn(50, dtype=ferro.float64)
        assert np.array_equal(first.numpy(), np.random.Generator(np.random.PCG64(3)).standard_normal(50))
        state = ferro.get_rng_state()
        assert state.shape == (56,)
        a = ferro.rand(5)
        ferro.set_rng_state(state)
        assert ferro.equal(a, ferro.rand(5))
        for name, (kinds, draws) in DRAWS.items():
            if "orthogonal" not in name:
                for draw in draws:
                    (ours, _), (meant, _) = drawn(ferro, draw, 17, kinds[0], 3), drawn(torch, draw, 17, kinds[0], 3)
                    assert [(v.shape, v.dtype) for v in ours] == [(v.shape, v.dtype) for v in meant], name
        with pytest.raises(RuntimeError, match="PyTorch's"):
            ferro.set_rng_state(ferro.zeros(5056, dtype=ferro.uint8))
        ferro.manual_seed(3)
    finally:
        ferro.random.use_fast_streams(False)
    assert ferro.rand(4).tolist() == theirs


def test_a_forked_child_draws_on() -> None:
    code = """
import os, warnings, ferro
warnings.simplefilter("ignore")  # (of threads that a forked child loses: Python 3.12 and later)
ferro.manual_seed(0); ferro.rand(3)
child = os.fork()
if child == 0:
    os._exit(0 if ferro.rand(2).tolist() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(code, FERRO_KERNELS="off") == "0"
