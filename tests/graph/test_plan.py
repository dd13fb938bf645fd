"""Memory plans: eager's bits from a poisoned arena, what lies where, what is refused, and what the plan's check finds."""

from __future__ import annotations

import ctypes
import gc
import json
import math
import re
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.core.apply import apply
from ferro.core.op import OPS, Op
from ferro.core.samples import Arg, Sample
from ferro.cpu.memory import empty_cache
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.graph.errors import PlanError
from ferro.graph.planning import folding, offsets, places, plan, recording
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.folding import candidates_of
from ferro.graph.planning.plan import Plan
from ferro.native import arena, pages, readiness
from tests.graph.test_steps import ALL, state_of

pytestmark = pytest.mark.skipif(bool(arena.refusal()), reason=f"no arenas here: {arena.refusal()}")


def leaf(*shape: int, seed: int = 0) -> Any:
    return ferro.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


def chain(x: Any) -> Any:
    return (x * x + 1) * 3 - x


def network() -> tuple[Graph, tuple]:
    """A joint graph of a small network, and its arguments."""
    ferro.manual_seed(0)
    nn = ferro.nn
    model = nn.Sequential(
        nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 40), nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 5)
    )
    x, t = ferro.randn(64, 30), ferro.arange(64) % 5
    graph = capture(lambda x, t: ferro.nn.functional.cross_entropy(model(x), t), x, t)
    return graph.differentiate(), (x, t, ferro.tensor(1.0))


def assert_same(found: list, wanted: list) -> None:
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert same_bits(got._data, want._data)


def runs_as_interpreted(made: Plan, *inputs: Any, times: int = 4) -> None:
    """The first run may be recorded again; those behind it follow the plan."""
    want = made.graph.interpret(*inputs)
    for _ in range(times):
        assert_same(made.run(*inputs, poison=True), want)
    assert made.missed <= 2
    made.verify()


# -- what lies where ---------------------------------------------------------------------------------------------------


def test_places_are_used_again_and_results_take_those_of_arguments() -> None:
    graph = capture(chain, ferro.ones(1000))
    every, no_fold, no_reuse = graph.plan(), graph.plan(fold=False), graph.plan(fold=False, reuse=False)
    assert (every.arena_bytes, no_fold.arena_bytes, no_reuse.arena_bytes) == (4032, 8064, 12096)
    assert no_reuse.arena_bytes == sum(offsets.rounded(a.size) for a in no_reuse.allocations if a.offset is not None)
    assert sum(row.folded for row in every.table()) == 2
    assert not any(row.folded for row in no_fold.table())
    for made in (every, no_fold, no_reuse):
        runs_as_interpreted(made, ferro.randn(1000))


def test_the_first_run_follows_the_plan_that_was_made_ahead() -> None:
    graph = capture(chain, ferro.ones(1000))
    made = graph.plan()
    made.run(ferro.randn(1000))
    assert (made.runs, made.recordings, made.missed) == (1, 0, 0)
    assert made.outside == 4000  # the result


def test_arguments_others_read_and_views_keep_their_places() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        z = y + 1  # y is read once more
        part = (x * 2)[10:]
        w = part + 3  # part is a view
        return (y * z).sum() + w.sum()

    graph = capture(function, ferro.ones(500))
    made = graph.plan()
    of = {
        made.graph.nodes[r.node].function: made.graph.nodes[a.node].function
        for r, a in candidates_of(graph, made.allocations).items()
    }
    assert of == {"mul": "exp"}  # of the product alone, since y ends there; neither y + 1, nor part + 3
    runs_as_interpreted(made, ferro.randn(500))


def test_an_argument_that_is_read_once_more_without_an_allocation_keeps_its_place() -> None:
    held = ferro.zeros(1000)

    def function(x: Any) -> Any:
        y = x.sin()
        z = y * 2
        held.copy_(y)
        return z.sum()

    x = ferro.rand(1000)
    made = capture(function, x).optimise().plan()
    made.verify()
    made.run(x)
    assert ferro.equal(held, x.sin())


def test_a_view_lengthens_the_life_of_its_base() -> None:
    def function(x: Any) -> Any:
        base = x * 2
        view = base[::2]
        other = (x + 1).exp() * 3
        return (view * other[::2]).sum()

    made = capture(function, ferro.ones(400)).plan()
    rows = made.table()
    base = next(row for row in rows if row.kind == "arena")
    view = next(row for row in rows if row.kind == "view")
    assert view.offset == base.offset
    overlapping = [r for r in rows if r.kind == "arena" and r is not base and r.offset == base.offset]
    assert all(r.first >= view.last for r in overlapping)
    runs_as_interpreted(made, ferro.randn(400))


def test_a_place_is_filled_with_zeros_behind_its_last_tenant() -> None:
    def function(x: Any) -> Any:
        (g,) = ferro.autograd.grad((x.exp() * x)[3:70].sum(), x, create_graph=True)
        return (g * 2).sum()

    graph = capture(function, leaf(200)).optimise()
    made = graph.plan()
    assert made.lower_bound < sum(a.size for a in made.allocations if a.offset is not None)
    runs_as_interpreted(made, leaf(200, seed=1))


def test_small_arrays_share_the_place_of_a_large_one() -> None:
    def function(x: Any) -> Any:
        y = (x.exp() * 2).sum()
        a, b, c = x[:100] + y, x[100:200] + y, x[200:300] + y
        return (a * b * c).sum()

    made = capture(function, ferro.ones(4000)).plan(fold=False)
    large = [r for r in made.table() if r.kind == "arena" and r.bytes == 16000]
    small = [r for r in made.table() if r.kind == "arena" and r.bytes == 400]
    assert sum(r.offset < max(b.offset + b.bytes for b in large) for r in small) >= 3
    assert made.arena_bytes <= 1.05 * made.lower_bound
    runs_as_interpreted(made, ferro.randn(4000))


def test_backward_uses_places_of_forward() -> None:
    gradient, inputs = network()
    joint = gradient.joint.plan()
    kept = sum(
        [
            v.dtype.itemsize * math.prod(v.shape)
            for v in {*gradient.forward.outputs} - {gradient.forward.outputs[0]}
            if v.node
        ]
    )
    assert joint.arena_bytes < gradient.forward.plan().arena_bytes + kept + gradient.backward.plan().arena_bytes
    runs_as_interpreted(joint, *inputs)


def test_results_and_captures_lie_outside() -> None:
    gradient, inputs = network()
    made = gradient.forward.plan()
    kinds = {row.name.split()[0]: row.kind for row in made.table()}
    assert {kinds[repr(v)] for v in gradient.forward.outputs if v.node is not None} == {"result"}
    made.run(*inputs[:2])
    first = made.run(*inputs[:2])
    before = [t._data.copy() for t in first]
    made.run(ferro.randn(64, 30), inputs[1], poison=True)
    for got, want in zip(first, before, strict=True):
        assert same_bits(got._data, want)


@pytest.mark.parametrize("name", ALL)
def test_steps_of_training_run_by_plan(name: str) -> None:
    """The nine steps from an arena full of nan: eager's bits, an arena near the bound, and nothing else outside than what stays."""
    state = initial_state(ALL[name], ferro)
    eager, mine = Trainer(ALL[name], ferro, state), Trainer(ALL[name], ferro, state)
    batches = ALL[name].batches()
    ferro.manual_seed(5)
    want = [eager.step(*eager.load(next(batches))).detach() for _ in range(5)]
    batches = ALL[name].batches()
    ferro.manual_seed(5)
    graph = capture(mine.step, *mine.load(next(batches)))
    made = Plan(graph.optimise(), "serial", Options(), ahead=False)
    for step in range(1, 5):
        (loss,) = made.run(*mine.load(next(batches)), poison=True)
        assert same_bits(loss._data, want[step]._data), f"step {step}"
    for (a, version), (b, its) in zip(state_of(mine), state_of(eager), strict=True):
        assert same_bits(a, b)
        assert version == its
    made.verify()
    assert made.arena_bytes <= 1.05 * made.lower_bound + 64 * 40
    if readiness.MODE == "off":  # (functions that take turns in Python make arrays as the turns fall)
        return
    assert made.missed == made.recordings - 1 <= 1
    stays = sum(a.size for a in made.allocations if a.offset is None)
    total = sum(a.size for a in made.allocations)
    assert made.outside - stays <= 0.05 * total


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        [
            (n, ctypes.c_size_t)
            for n in [
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            ]
        ]
    )


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library does not tell of its heap")
def test_the_heap_sees_little_of_a_planned_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library's own count, asked behind each node."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Mallinfo

    def in_use() -> int:
        found = ask()
        return found.uordblks + found.hblkhd

    most = [0]

    class Sampler:
        def __init__(self, *_: Any) -> None:
            most[0] = in_use()
            self.begin = most[0]

        def __call__(self, *_: Any) -> None:
            most[0] = max(most[0], in_use() - self.begin)

    monkeypatch.setattr(plan, "Poison", Sampler)
    ferro.manual_seed(0)
    model = ferro.nn.Sequential(*[ferro.nn.Linear(200, 200), ferro.nn.Tanh()] * 6)
    graph = capture(lambda x: model(x).sum(), ferro.randn(300, 200))
    made = graph.plan()
    x = ferro.randn(300, 200)
    for _ in range(3):
        made.run(x)
    gc.collect()
    empty_cache()  # (blocks that wait to be used again count as used)
    sampler = Sampler()
    sampler.begin, most[0] = in_use(), 0
    graph.interpret(x, on_node=sampler)
    plain = most[0]
    assert plain >= 2 * 300 * 200 * 4
    most[0] = 0

    class Fresh(Sampler):
        def __init__(self, *_: Any) -> None:
            self.begin, most[0] = in_use(), 0

    monkeypatch.setattr(plan, "Poison", Fresh)
    made.run(x, poison=True)
    assert most[0] <= 0.05 * plain


# -- what differs from the plan ----------------------------------------------------------------------------------------


def operation(name: str, function: Any) -> Op:
    return OPS.get(name) or Op(name, function, x=lambda xp, g, x: g, samples=[Sample(Arg(3))], path=name)


def test_arrays_that_depend_on_the_data_cost_memory_not_numbers() -> None:
    def forward(xp: Any, x: Any) -> Any:
        part = x[x > 0]  # (its size differs from run to run)
        return x * (part.sum() + 1)

    op = operation("tests.plan.varying", forward)
    made = capture(lambda x: (apply(op, (x,)).exp() + 1).sum(), ferro.randn(300)).plan()
    for seed in range(12):
        ferro.manual_seed(seed)
        x = ferro.randn(300)
        assert_same(made.run(x, poison=True), made.graph.interpret(x))
    assert made.missed == 2
    assert made.recordings == 2
    after = [a for a in made.allocations if a.node > 0 and a.offset is not None]
    assert len(after) >= 2  # exp and what is added to it: the node whose arrays vary does no harm to them
    x = ferro.randn(300)
    made.run(x)
    varying = sum(a.size for a in made.allocations if a.node == 0)
    assert made.outside <= varying + 300 * 4 + 4


def test_an_array_that_somebody_keeps_is_not_written_over() -> None:
    kept: list = []

    def forward(xp: Any, x: Any) -> Any:
        y = x * 2
        if kept:
            kept.append(y)
        return y + 1

    op = operation("tests.plan.keeping", forward)
    made = capture(lambda x: apply(op, (x,)).exp().sum(), ferro.ones(300)).plan()
    x = ferro.randn(300)
    made.run(x)
    kept.append(None)
    for _ in range(4):
        assert_same(made.run(x, poison=True), [(x * 2 + 1).exp().sum()])
    assert len(kept) == 5
    for y in kept[1:]:
        assert same_bits(y, (x * 2)._data)


def test_an_error_midway_leaves_the_next_run_right() -> None:
    fails = [False]

    def forward(xp: Any, x: Any) -> Any:
        y = x + 1
        if fails[0]:
            raise ValueError("planted")
        return y

    op = operation("tests.plan.failing", forward)
    made = capture(lambda x: (apply(op, (x.exp(),)) * 2).sum(), ferro.ones(300)).plan()
    x = ferro.randn(300)
    want = made.run(x)
    fails[0] = True
    with pytest.raises(ValueError, match="planted") as caught:
        made.run(x)
    fails[0] = False
    assert_same(made.run(x, poison=True), want)  # (the traceback still holds arrays of the run before)
    del caught
    assert_same(made.run(x, poison=True), want)
    assert_same(made.run(x, poison=True), want)


def test_two_threads_and_a_run_within_a_run() -> None:
    both, inner = threading.Barrier(2, timeout=60), [0]

    def forward(xp: Any, x: Any) -> Any:
        y = x * 3
        if inner[0] == 1:
            both.wait()
        if inner[0] == 2:
            inner[0] = 0
            assert_same(made.run(other), want_other)
        return y - 1

    op = operation("tests.plan.meeting", forward)
    made = capture(lambda x: (apply(op, (x.exp(),)) * 2).sum(), ferro.ones(300)).plan()
    x, other = ferro.randn(300), ferro.randn(300)
    want, want_other = made.run(x), made.run(other)
    found: list = []
    inner[0] = 1
    threads = [threading.Thread(target=lambda a=a: found.append((a, made.run(a)))) for a in (x, other)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    inner[0] = 2
    found.append((x, made.run(x)))
    for given, got in found:
        assert_same(got, want if given is x else want_other)
    assert len(found) == 3


# -- where results are written -----------------------------------------------------------------------------------------


def test_results_are_written_where_the_caller_says() -> None:
    graph = capture(lambda x: (x.exp() + 1, x.sum(), (x * 2).t()), ferro.ones(20, 30))
    made = graph.plan()
    x = ferro.randn(20, 30)
    want = graph.interpret(x)
    out = [ferro.zeros(20, 30), None, ferro.zeros(30, 20)]
    for _ in range(3):
        found = made.run(x, out=out)
        assert found[0] is out[0]
        assert found[2] is out[2]
        assert_same(found, want)
        for t in (out[0], out[2]):
            t.fill_(7.0)
    assert_same(made.run(x), want)
    assert made.missed == 0
    made.run(x)
    plain = made.outside
    made.run(x, out=out)
    assert plain - made.outside == 20 * 30 * 4  # the first is bound; the last, a view, is copied


def test_what_cannot_be_written_is_refused() -> None:
    made = capture(lambda x: (x.exp(), x + 1), ferro.ones(20)).plan()
    x, z = ferro.randn(40), ferro.zeros(20)
    y = x[:20]
    before = x._data.copy()
    for out, error, said in (
        ([z], ValueError, "out has 1 entries, the graph has 2 outputs"),
        ([z, ferro.zeros(21)], ValueError, r"out\[1\] is float32\[21\], the output is float32\[20\]"),
        ([z.double(), None], ValueError, r"out\[0\] is float64\[20\], the output is float32\[20\]"),
        ([x[10:30], None], ValueError, r"out\[0\] shares memory with input 0"),
        ([z, z], ValueError, r"out\[1\] shares memory with out\[0\]"),
        ([z._data, None], TypeError, r"out\[0\] is a ndarray"),
    ):
        with pytest.raises(error, match=said):
            made.run(y, out=out)
    assert same_bits(x._data, before)
    assert not z.any()
    with pytest.raises(ValueError, match="expected 1 inputs"):
        made.run(y, y)
    with pytest.raises(ValueError, match="input 0"):
        made.run(ferro.ones(21))


# -- the check, the pictures, the end ----------------------------------------------------------------------------------


def test_planted_errors_are_found() -> None:
    gradient, _ = network()

    def made() -> Plan:
        found = gradient.joint.plan()
        found.verify()
        return found

    def placed(some: Plan) -> list:
        return sorted([a for a in some.allocations if a.offset is not None and a.values], key=lambda a: -a.size)

    wrong = 0
    for i in range(len(placed(made()))):
        some = made()
        a = placed(some)[i]
        others = [b for b in placed(some) if b is not a and b.node <= a.last and a.node <= b.last and b.folded is not a]
        if a.folded is not None or not others:
            continue
        a.offset = others[0].offset
        with pytest.raises(PlanError, match="the same place at the same time"):
            some.verify()
        wrong += 1
    assert wrong >= 4
    some = made()
    placed(some)[0].offset += 4
    with pytest.raises(PlanError, match="cache line"):
        some.verify()
    some = made()
    placed(some)[0].offset = some.arena_bytes
    with pytest.raises(PlanError, match="does not lie within"):
        some.verify()
    some = made()
    result = next(a for a in some.allocations if a.reason == "result")
    result.offset = 0
    with pytest.raises(PlanError, match="is a result"):
        some.verify()


def test_a_life_that_is_too_short_is_found() -> None:
    gradient, _ = network()
    found = 0
    for i, whole in enumerate(gradient.joint.plan(fold=False).allocations):
        made = gradient.joint.plan(fold=False)
        a = made.allocations[i]
        if whole.death is None or whole.last <= a.node + 1:
            continue
        a.death = a.birth + 1
        chains = places.chains_of(made.allocations)
        where, made.arena_bytes = offsets.offsets(places.blocks_of(made.graph, chains))
        for own, place in zip(chains, where, strict=True):
            own[0].offset = place
        beside = [b for b in made.allocations if b.values and b.offset is not None and a.node < b.node < whole.last]
        if any(a.offset < b.offset + b.size and b.offset < a.offset + a.size for b in beside):
            with pytest.raises(PlanError, match="the same place"):
                made.verify()
            found += 1
    assert found >= 2


def test_the_map_shows_the_plan(tmp_path: Path) -> None:
    gradient, inputs = network()
    made = gradient.joint.plan()
    rectangles = re.findall(r'data-offset="(\d+)" data-bytes="(\d+)" data-first="(\d+)" data-last="(\d+)"', made.svg())
    want = [(a.offset, a.size, a.node, a.last) for a in made.allocations if a.offset is not None]
    assert [tuple(map(int, r)) for r in rectangles] == want
    assert f"{made.arena_bytes} bytes" in made.svg()
    assert "test_plan.py" in made.svg()
    made.html(tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text("utf-8")
    assert all(f"<td>{row.offset}</td>" in text for row in made.table())
    made.run(*inputs)
    made.run(*inputs)
    report = made.report()
    assert f"arena: {made.arena_bytes} bytes; most that live at once: {made.lower_bound}" in report
    assert "runs: 2" in report
    x = next(row for row in made.table() if row.kind == "input")
    assert x.address == inputs[0]._data.ctypes.data


def test_a_plan_gives_its_arena_back(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    give_back = pages.give_back
    monkeypatch.setattr(pages, "give_back", lambda start, size: (returned.append(start), give_back(start, size)))
    graph = capture(chain, ferro.ones(1000))
    made = graph.plan()
    x = ferro.randn(1000)
    (result,) = made.run(x)
    start = made.start
    before = len(returned)
    made.release()
    assert returned[before:] == [start]
    with pytest.raises(RuntimeError, match="was released"):
        made.run(x)
    other = graph.plan()
    other.run(x)
    start, there = other.start, weakref.ref(other)
    del other
    assert there() is None
    assert returned[-1] == start
    assert_same([result], graph.interpret(x))


def test_compiled_functions_run_by_plan() -> None:
    ferro.manual_seed(0)
    model = ferro.nn.Sequential(*[ferro.nn.Linear(256, 256), ferro.nn.Tanh()] * 3)

    def loss(x: Any) -> Any:
        return (model(x) ** 2).mean()

    compiled = ferro.compile(loss)
    for i in range(6):
        x = leaf(256, 256, seed=i)
        want = loss(x)
        (g,) = ferro.autograd.grad(want, x)
        got = compiled(x)
        assert same_bits(got._data, want._data)
        assert same_bits(ferro.autograd.grad(got, x)[0]._data, g._data)
    forward, backward = compiled.explain().plans
    for made in (forward, backward):
        made.verify()
        assert made.runs >= 3
        assert made.missed == 0
    assert f"memory: <Plan: {forward.arena_bytes} bytes" in str(compiled.explain())


def test_plans_are_deterministic() -> None:
    gradient, _ = network()
    first, second = gradient.joint.plan(), gradient.joint.plan()
    assert [(a.size, a.offset) for a in first.allocations] == [(a.size, a.offset) for a in second.allocations]
    gc.collect()


def test_offsets_are_near_the_bound_for_random_lives() -> None:
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(30):
        births = rng.integers(0, 200, 80)
        lives = rng.integers(1, 40, 80)
        sizes = rng.integers(1, 60, 80) * 64
        blocks = [offsets.Block(int(s), int(b), int(b + n)) for s, b, n in zip(sizes, births, lives, strict=True)]
        where, size = offsets.offsets(blocks)
        ratios.append(size / offsets.lower_bound(blocks))
        for i, (a, x) in enumerate(zip(where, blocks, strict=True)):
            assert a % 64 == 0
            for b, y in zip(where[:i], blocks[:i], strict=True):
                apart = x.death <= y.birth or y.death <= x.birth
                assert apart or a + x.size <= b or b + y.size <= a
    assert np.mean(ratios) <= 1.05


def test_workloads_are_those_of_the_benchmarks() -> None:
    assert set(WORKLOADS) < set(ALL)


@pytest.mark.parametrize("order", ["serial", "any"])
def test_without_a_handler_the_graph_alone_is_planned(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gradient, inputs = network()
    seen = gradient.joint.plan(order=order)
    for module in (plan, folding):
        monkeypatch.setattr(module, "refusal", lambda: "planted")
    monkeypatch.setattr(recording, "Arena", None)  # (which other processors have not)
    monkeypatch.setattr(folding, "Arena", None)
    made = gradient.joint.plan(order=order)
    made.verify()
    assert seen.arena_bytes / 2 < made.arena_bytes <= seen.arena_bytes  # (scratch is not known)
    assert_same(made.run(*inputs), gradient.joint.interpret(*inputs))
    assert "arrays do not lie in the arena here: planted" in made.report()
    assert capture(chain, ferro.ones(1000)).plan(order=order).arena_bytes == 4032

    def looped(x: Any, n: Any) -> Any:
        _, y = ferro.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, (y * x).sin()), (n * 0, x * 2))
        return ferro.cond(y.sum() > 0, lambda y: y.exp(), lambda y: y * 3, (y,)).sum()

    given = ferro.rand(1000), ferro.tensor(3)
    some = capture(looped, *given).plan(order=order)
    some.verify()
    assert some.arena_bytes >= 4032  # (what branches and trips make is not known)
    assert_same(some.run(*given), [looped(*given)])


@pytest.mark.parametrize("order", ["serial", "any"])
def test_a_trace_has_every_node(order: str, tmp_path: Path) -> None:
    gradient, inputs = network()
    made = gradient.joint.plan(order=order)
    for _ in range(3):
        made.run(*inputs)
    made.trace(tmp_path / "trace.json", *inputs)
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    assert sorted(e["args"]["node"] for e in events) == list(range(len(made.graph.nodes)))
    assert all(e["name"] == made.graph.nodes[e["args"]["node"]].function for e in events)
    assert any("test_plan.py" in e["args"]["line"] for e in events)
    by_lane: dict[int, float] = {}
    for e in events:
        assert e["ts"] >= by_lane.get(e["tid"], 0)
        by_lane[e["tid"]] = e["ts"] + e["dur"]


def test_a_pending_backward_keeps_its_captures_alone() -> None:
    ferro.manual_seed(0)
    model = ferro.nn.Sequential(*[ferro.nn.Linear(256, 256), ferro.nn.Tanh()] * 3)
    compiled = ferro.compile(lambda x: ((model(x) * 2).exp() + 1).sum())
    x = leaf(300, 256)
    for _ in range(5):
        compiled(x).backward()
    (forward, _) = compiled.explain().plans
    gc.collect()
    tracemalloc.start()
    try:
        loss = compiled(x)
        held = tracemalloc.get_traced_memory()[0]
        _, kept, *_ = loss.grad_fn.saved
        captured = sum(a.nbytes for a in kept)
        assert captured >= 3 * 300 * 256 * 4
        assert captured <= held <= captured + 20_000
        del loss, kept
        assert tracemalloc.get_traced_memory()[0] <= 20_000
    finally:
        tracemalloc.stop()
    assert forward.missed == 0


def test_arrays_that_are_used_together_do_not_begin_a_multiple_of_4_kilobytes_apart() -> None:
    blocks = [offsets.Block(1 << 20, 0, 9), offsets.Block(1 << 20, 1, 9, (0,)), offsets.Block(1 << 20, 2, 9, (0, 1))]
    where, size = offsets.offsets(blocks)
    assert size <= 3 * (1 << 20) + 3 * 512
    for i, a in enumerate(where):
        assert all((a - b) % 4096 for b in where[:i])
