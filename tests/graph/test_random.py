"""Random numbers in graphs: a replay draws what eager draws from the same state, and leaves the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F

OWN = ferro.Generator().manual_seed(5)


def drawn_in_place(x: Any) -> Any:
    y = ferro.empty(3)
    y.uniform_(1, 2)
    z = x.clone().t().normal_(0.0, 2.0)  # (drawn in the order of memory)
    return y, z, ferro.empty(4).exponential_(), ferro.empty(4, dtype=ferro.int64).random_(0, 9)


def seeded(x: Any) -> Any:
    first = ferro.rand(2)
    ferro.manual_seed(11)
    return first, ferro.randn(2) + x[0, 0]


def kept(x: Any) -> Any:
    state = ferro.get_rng_state()
    first = ferro.rand(3)
    ferro.set_rng_state(state)
    return first, ferro.rand(3), x * ferro.rand(())


def forked(x: Any) -> Any:
    with ferro.random.fork_rng():
        y = ferro.rand(3)
    return y, x * ferro.rand(())


def in_a_checkpoint(x: Any) -> Any:
    x = x.detach().requires_grad_()
    y = ferro.utils.checkpoint.checkpoint(lambda x: F.dropout(x.exp()), x, use_reentrant=False)
    return y, *ferro.autograd.grad(y.sum(), x)


PROGRAMS: dict[str, Callable] = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout of a transposed tensor": lambda x: F.dropout(x.t(), 0.3),
    "dropout of features": lambda x: F.dropout2d(x[None, :, :, None], 0.5),
    "dropout in place": lambda x: F.dropout(x.clone(), 0.5, inplace=True),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.2, training=True),
    "two dropouts of unequal size": lambda x: F.dropout(x) + F.dropout(x[0]),
    "rand": lambda x: ferro.rand(3) + x[0, 0],
    "randn": lambda x: ferro.randn(2, 17, dtype=ferro.float64) * x[0, 0],
    "randint": lambda x: ferro.randint(0, 7, (5,)),
    "randperm": lambda x: x[:, ferro.randperm(4)],
    "likes": lambda x: (ferro.rand_like(x), ferro.randn_like(x.t()), ferro.randint_like(x, 3)),
    "normal of tensors": lambda x: ferro.normal(x, x.abs() + 1),
    "bernoulli": lambda x: (ferro.bernoulli(x.sigmoid()), ferro.bernoulli(x, 0.25)),
    "binomial and poisson": lambda x: (ferro.binomial(x.exp().ceil(), x.sigmoid()), ferro.poisson(x.exp())),
    "gumbel softmax": lambda x: F.gumbel_softmax(x, 0.7),
    "gamma": lambda x: ferro.distributions.Gamma(x.exp(), ferro.ones(3, 4), validate_args=False).rsample(),
    "in place": drawn_in_place,
    "a generator of its own": lambda x: (ferro.rand(2, generator=OWN), F.dropout(x, generator=OWN), ferro.rand(1)),
    "seeded": seeded,
    "kept state": kept,
    "forked": forked,
    "in a checkpoint": in_a_checkpoint,
}


def listed(found: Any) -> list:
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("fast", [False, True], ids=["PyTorch's stream", "fast stream"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_draw_what_eager_draws(name: str, fast: bool) -> None:
    function = PROGRAMS[name]
    ferro.random.use_fast_streams(fast)
    try:
        ferro.manual_seed(1)
        graph = capture(function, ferro.randn(3, 4))
        for seed in (2, 3):
            x = ferro.randn(3, 4)
            ferro.manual_seed(seed)
            OWN.manual_seed(seed)
            ferro.randn(seed)  # (leaves half a pair)
            state, own = ferro.get_rng_state(), OWN.get_state()
            want = listed(function(x))
            after = ferro.get_rng_state(), OWN.get_state()
            ferro.set_rng_state(state)
            OWN.set_state(own)
            got = graph.interpret(x)
            assert len(got) == len(want)
            assert all(same_bits(g._data, w._data) for g, w in zip(got, want, strict=True))
            assert all(ferro.equal(a, b) for a, b in zip(after, (ferro.get_rng_state(), OWN.get_state()), strict=True))
            assert graph.compare(function, x) is None
        assert str(Graph.parse(str(graph))) == str(graph)
    finally:
        ferro.random.use_fast_streams(False)


def test_what_draws_is_marked() -> None:
    graph = capture(lambda x: F.dropout(x), ferro.ones(3))
    (node,) = [node for node in graph.nodes if node.function == "random.coins"]
    assert node.effect
    assert node.args[0] is None
    graph = capture(lambda x: ferro.rand(2, generator=OWN), ferro.ones(3))
    (node,) = graph.nodes
    assert (node.args[0].kind, node.args[0].name, node.args[0].thing) == ("generator", "OWN", OWN)


def test_a_graph_that_was_read_wants_its_generators() -> None:
    graph = Graph.parse(str(capture(lambda x: ferro.rand(2, generator=OWN), ferro.ones(3))))
    with pytest.raises(ValueError, match=r"the generator of the program \(OWN\) is not here"):
        graph.interpret(ferro.ones(3))
    graph.nodes[0].args[0].thing = ferro.Generator().manual_seed(3)
    want = ferro.rand(2, generator=ferro.Generator().manual_seed(3))
    assert same_bits(graph.interpret(ferro.ones(3))[0]._data, want._data)


def test_numbers_that_nobody_reads_are_drawn_all_the_same() -> None:
    def function(x: Any) -> Any:
        ferro.rand(5)
        return ferro.rand(2)

    gradient = capture(lambda x, w: (function(x) * w).sum(), ferro.ones(1), ferro.ones(2, requires_grad=True))
    ferro.manual_seed(3)
    want = function(None)
    ferro.manual_seed(3)
    got = gradient.differentiate().joint.interpret(ferro.ones(1), ferro.ones(2), ferro.tensor(1.0))
    assert same_bits(got[1]._data, want._data)


def test_replays_ask_for_possible_parameters() -> None:
    graph = capture(ferro.bernoulli, ferro.tensor([0.5, 0.2]))
    state = ferro.get_rng_state()
    with pytest.raises(RuntimeError, match="There are values outside") as caught:
        graph.interpret(ferro.tensor([0.5, 1.2]))
    assert "test_random.py" in caught.value.__notes__[0]
    assert ferro.equal(ferro.get_rng_state(), state)


def test_how_many_numbers_are_drawn_must_not_depend_on_the_data() -> None:
    with pytest.raises(CaptureError, match=r"at .*test_random\.py"):
        capture(lambda x: F.rrelu(x, training=True), ferro.randn(3))
    with pytest.raises(CaptureError, match=r"seeded from the operating system at .*test_random\.py"):
        capture(lambda x: ferro.seed() and x, ferro.randn(3))
