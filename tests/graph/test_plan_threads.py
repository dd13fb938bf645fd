"""Plans for nodes in any order: the same bits in random orders on one to eight threads, errors of the first node, state as eager leaves it."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.core.apply import apply
from ferro.graph import capture
from ferro.graph.compare import same_bits
from ferro.graph.errors import PlanError
from ferro.graph.planning import threads
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.order import Order
from ferro.graph.planning.plan import Plan
from ferro.native import arena, readiness
from tests.graph.test_plan import assert_same, leaf, network, operation
from tests.graph.test_steps import state_of

pytestmark = pytest.mark.skipif(bool(arena.refusal()), reason=f"no arenas here: {arena.refusal()}")


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = ferro.get_num_threads()
    yield
    ferro.set_num_threads(before)


def branches(x: Any) -> Any:
    """Independent chains of several lengths, some of which meet, with views, scratch and a gradient inside."""
    found = []
    for i in range(6):
        y = (x * (i + 1)).exp() + i
        z = y[::2].sin()
        if i % 2:
            (g,) = ferro.autograd.grad((x.tanh() * (i + 2)).sum(), x, create_graph=True)
            z = z * g[1::2]
        found.append(ferro.softmax(z, 0))
    return ferro.cat(found[:3]).sum() * found[3].sum(), sum(found[4:])


def test_200_random_orders() -> None:
    graph = capture(branches, leaf(400)).optimise()
    made = graph.plan(order="any")
    made.verify()
    rng = random.Random(0)
    x = leaf(400, seed=1)
    want = graph.interpret(x)
    seen = set()
    for i in range(200):
        ferro.set_num_threads(1 + i % 8)
        rank = [rng.random() for _ in graph.nodes]
        made.priority = rank.__getitem__
        ran: list[int] = []
        functions = list(made.tasks.functions)
        for k, f in enumerate(functions):
            made.tasks.functions[k] = lambda *a, k=k, f=f, ran=ran: (ran.append(k), f(*a))[1]
        try:
            assert_same(made.run(x, poison=True), want)
        finally:
            made.tasks.functions[:] = functions
        seen.add(tuple(ran))
    assert len(seen) > 150
    assert made.missed <= 1
    assert made.runs == 200


def test_places_are_used_again_only_along_the_order() -> None:
    graph = capture(branches, leaf(400))
    serial, free = graph.plan(), graph.plan(order="any")
    assert serial.arena_bytes <= free.arena_bytes < graph.plan(reuse=False).arena_bytes
    order = Order(graph)
    for i, a in enumerate(free.allocations):
        for b in free.allocations[:i]:
            if a.offset is None or b.offset is None or a.node == b.node:
                continue
            if a.offset < b.offset + b.size and b.offset < a.offset + a.size:
                first, second = (a, b) if a.node < b.node else (b, a)
                assert order.ancestors[second.node] >> first.node & 1


def test_an_edge_that_is_dropped_is_found() -> None:
    graph = capture(branches, leaf(400))
    found = 0
    for i in range(len(graph.nodes)):
        made = graph.plan(order="any")
        waits = made.tasks.order.after[i]
        if not waits:
            continue
        waits.discard(max(waits))
        with pytest.raises(PlanError, match="does not wait"):
            made.verify()
        found += 1
    assert found >= 10


@pytest.mark.parametrize("name", WORKLOADS)
def test_steps_of_training(name: str) -> None:
    state = initial_state(WORKLOADS[name], ferro)
    eager, mine = Trainer(WORKLOADS[name], ferro, state), Trainer(WORKLOADS[name], ferro, state)
    batches = WORKLOADS[name].batches()
    want = [eager.step(*eager.load(next(batches))).detach() for _ in range(4)]
    batches = WORKLOADS[name].batches()
    graph = capture(mine.step, *mine.load(next(batches)))
    made = Plan(graph.optimise(), "any", Options(), ahead=False)
    rng = random.Random(0)
    rank = [rng.random() for _ in made.graph.nodes]
    for step in range(1, 4):
        ferro.set_num_threads(step + 1)
        made.priority = rank.__getitem__
        (loss,) = made.run(*mine.load(next(batches)), poison=True)
        assert same_bits(loss._data, want[step]._data), f"step {step}"
    for (a, version), (b, its) in zip(state_of(mine), state_of(eager), strict=True):
        assert same_bits(a, b)
        assert version == its
    made.verify()
    assert made.missed <= (3 if readiness.MODE == "off" else 1)


def test_the_error_of_the_first_node_is_raised_and_nothing_behind_it_is_written() -> None:
    def raises(number: int) -> Any:
        def forward(xp: Any, x: Any) -> Any:
            if float(x.flat[0]) < 0:
                raise ValueError(f"planted {number}")
            return x + 1

        return operation(f"tests.plan.raises{number}", forward)

    ops = [raises(i) for i in range(4)]
    state = ferro.zeros(3)

    def function(x: Any) -> Any:
        made = [apply(op, (x * (i + 1),)) for i, op in enumerate(ops)]
        state.add_(1)
        return sum(made)

    x = ferro.ones(3)
    made = capture(function, x).plan(order="any")
    made.run(x)
    before = state.clone()
    for seed in range(20):
        ferro.set_num_threads(1 + seed % 4)
        rng = np.random.default_rng(seed)
        rank = rng.permutation(len(made.graph.nodes)).tolist()
        made.priority = rank.__getitem__
        with pytest.raises(ValueError, match="planted 0") as caught:
            made.run(-x)
        assert any("tests.plan.raises0" in note for note in caught.value.__notes__)
        assert ferro.equal(state, before)
    assert_same(made.run(x), [function(x)])


def test_random_numbers_come_in_eagers_order() -> None:
    def function(x: Any) -> Any:
        return ferro.dropout(x, 0.5, True).exp(), ferro.dropout(x[:3] * 2, 0.3, True), ferro.randn(4)

    x = ferro.ones(50)
    made = capture(function, x).plan(order="any")
    for seed in range(10):
        ferro.set_num_threads(1 + seed % 3)
        made.priority = [-i for i in range(len(made.graph.nodes))].__getitem__
        ferro.manual_seed(seed)
        want, after = function(x), ferro.get_rng_state()
        ferro.manual_seed(seed)
        assert_same(made.run(x), list(want))
        assert ferro.equal(ferro.get_rng_state(), after)


def test_a_run_within_a_worker_stays_on_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient, inputs = network()
    made = gradient.joint.plan(order="any")
    counts: list[int] = []
    run_workers = threads.run_workers
    monkeypatch.setattr(threads, "run_workers", lambda fn, n, stop: (counts.append(n), run_workers(fn, n, stop)))
    ferro.set_num_threads(3)
    want = gradient.joint.interpret(*inputs)
    assert_same(made.run(*inputs), want)
    monkeypatch.setattr(threads, "in_worker", lambda: True)
    assert_same(made.run(*inputs), want)
    assert counts == [3, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupt_ends_all_threads_and_the_next_run_is_right(count: int) -> None:
    graph = capture(branches, leaf(400))
    made = graph.plan(order="any")
    x = leaf(400, seed=1)
    want = graph.interpret(x)
    assert_same(made.run(x), want)
    ferro.set_num_threads(count)
    for at in range(0, len(graph.nodes), 7):
        function = made.tasks.functions[at]

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        made.tasks.functions[at] = interrupted
        with pytest.raises(KeyboardInterrupt):
            made.run(x)
        made.tasks.functions[at] = function
        assert_same(made.run(x, poison=True), want)


def test_an_interrupt_between_nodes_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = capture(branches, leaf(400))
    made = graph.plan(order="any")
    x = leaf(400, seed=1)
    want = graph.interpret(x)
    ferro.set_num_threads(3)
    main, take, count = threading.get_ident(), threads.Run._take, [0]

    def interrupted(run: Any) -> Any:
        if threading.get_ident() == main:
            count[0] += 1
            if count[0] == 4:
                raise KeyboardInterrupt
        return take(run)

    monkeypatch.setattr(threads.Run, "_take", interrupted)
    for _ in range(20):  # (how many nodes the main thread takes is up to the others)
        count[0] = 0
        try:
            made.run(x)
        except KeyboardInterrupt:
            break
    else:
        pytest.fail("the main thread took no four nodes in any run")
    monkeypatch.undo()
    assert_same(made.run(x, poison=True), want)
