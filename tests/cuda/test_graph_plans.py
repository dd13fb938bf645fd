"""Plans of graphs on the device "cuda": recorded as CUDA graphs, replayed by one launch each, with eager's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.cuda import driver
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.graph import CaptureError, Graph, capture
from ferro.nn import functional as F

pytestmark = pytest.mark.usefixtures("cuda")


def array(t: Any) -> np.ndarray:
    """The numbers of a tensor on the device."""
    assert type(t._data) is driver.cupy().ndarray
    return t._data.get()


def model_and_loss() -> tuple[Any, Any]:
    """A model on the device, and its loss."""
    ferro.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to("cuda")
    return model, lambda x, y: F.cross_entropy(model(x), y)


def batch(rng: np.random.Generator) -> tuple[Any, Any]:
    """Inputs and classes."""
    x = ferro.tensor(rng.standard_normal((5, 6)).astype(np.float32), device="cuda")
    return x, ferro.tensor(rng.integers(0, 3, 5), device="cuda")


def test_a_step_is_one_launch_with_eagers_bits(launched: list, rng: np.random.Generator) -> None:
    model, loss = model_and_loss()
    joint = capture(loss, *batch(rng)).differentiate().joint.optimise()
    plan, one = joint.plan(), ferro.tensor(1.0, device="cuda")
    assert plan.refusal == ""
    plan.verify()
    for number in range(6):
        x, y = batch(rng)
        LAUNCHES.clear()
        launched.clear()
        found = plan.run(x, y, one)
        # The first run is node by node, the second records and launches, and from then on Python launches no kernel.
        assert len(launched) == (number > 0)
        assert bool(LAUNCHES) == (number < 2)
        value = loss(x, y)
        want = [value, *ferro.autograd.grad(value, list(model.parameters()))]
        assert [array(t).tobytes() for t in found] == [array(t.detach()).tobytes() for t in want]
        with ferro.no_grad():  # (what a replay reads is what the parameters are then)
            for p, g in zip(model.parameters(), want[1:], strict=True):
                p -= 0.1 * g
    assert (plan.runs, plan.replays, plan.recordings) == (6, 5, 1)


def test_results_of_a_run_outlive_the_next_one(launched: list) -> None:
    x = ferro.arange(4.0, device="cuda")
    plan = capture(lambda x: x * 2 + 1, x).plan()
    found = [plan.run(x + i)[0] for i in range(4)]
    for i, t in enumerate(found):
        np.testing.assert_array_equal(array(t), np.arange(4.0, dtype=np.float32) * 2 + 2 * i + 1)
    out = ferro.zeros(4, device="cuda")
    (same,) = plan.run(x, out=[out])
    assert same is out
    np.testing.assert_array_equal(array(out), np.arange(4.0, dtype=np.float32) * 2 + 1)
    with pytest.raises(ValueError, match="shares memory with input 0"):
        plan.run(x, out=[x])


def test_another_array_of_a_parameter_is_recorded_anew(launched: list) -> None:
    w = ferro.ones(3, device="cuda")
    plan = capture(lambda x: x * w, ferro.ones(3, device="cuda")).plan()
    x = ferro.full((3,), 2.0, device="cuda")
    for _ in range(3):
        plan.run(x)
    w.data = ferro.full((3,), 5.0, device="cuda")
    np.testing.assert_array_equal(array(plan.run(x)[0]), [10.0, 10.0, 10.0])
    assert (plan.recordings, plan.replays) == (2, 3)


def test_random_numbers_are_drawn_anew(launched: list) -> None:
    x = ferro.ones(64, device="cuda")
    graph = capture(lambda x: F.dropout(x, 0.5), x)
    plan = graph.plan()
    ferro.manual_seed(3)
    found = [array(plan.run(x)[0]) for _ in range(5)]
    ferro.manual_seed(3)
    want = [array(F.dropout(x, 0.5)) for _ in range(5)]
    np.testing.assert_array_equal(found, want)
    assert len({a.tobytes() for a in found}) == 5
    assert plan.replays == 4


def test_memory_is_that_of_the_plan(launched: list) -> None:
    """While the nodes run no more lives at once than the plan says, results beside it."""
    x = ferro.ones(1000, device="cuda")
    plan = capture(lambda x: ((x * x + 1) * 3 - x).exp() / 2, x).plan()
    assert plan.arena_bytes == 2 * 4032  # an argument and a result
    kept = capture(lambda x: [(x * k).exp() for k in (1.0, 2.0, 3.0)], x).plan()
    assert kept.arena_bytes == 4032
    assert plan.refusal == kept.refusal == ""
    for each in (plan, kept):
        pool = driver.cupy().cuda.MemoryPool()
        with driver.cupy().cuda.using_allocator(pool.malloc):
            found = each.graph.interpret(x)
        results = sum([t._data.nbytes for t in found])
        assert each.lower_bound <= pool.total <= each.lower_bound + results + 64 * len(each.graph.nodes)


def test_what_python_does_runs_node_by_node(launched: list) -> None:
    model = nn.BatchNorm1d(3).to("cuda")
    x = ferro.ones(4, 3, device="cuda")
    plan = capture(model, x).plan()
    before = model.num_batches_tracked.item()
    for _ in range(3):
        plan.run(x)
    assert model.num_batches_tracked.item() == before + 3
    assert "is done by Python" in plan.refusal
    assert plan.replays == 0
    assert not launched


def test_a_graph_is_for_its_device() -> None:
    x = ferro.ones(2, device="cuda")
    graph = capture(lambda x: x + 1, x)
    with pytest.raises(ValueError, match="lies on the device 'cpu', the graph was captured for one on 'cuda'"):
        graph.interpret(ferro.ones(2))
    here = capture(lambda x: x + 1, ferro.ones(2))
    with pytest.raises(ValueError, match="lies on the device 'cuda', the graph was captured for one on 'cpu'"):
        here.interpret(x)
    with pytest.raises(ValueError, match="only 'serial' is allowed"):
        graph.plan("any")


def test_copies_between_devices_are_nodes() -> None:
    w = ferro.full((2,), 3.0)
    graph = capture(lambda x: (x.cpu() * w).to("cuda") + x, ferro.ones(2, device="cuda"))
    assert [node.function for node in graph.nodes].count("to_device") == 2
    (found,) = graph.interpret(ferro.full((2,), 2.0, device="cuda"))
    np.testing.assert_array_equal(array(found), [8.0, 8.0])
    assert "lies on the CPU" in graph.plan().refusal


def test_numbers_of_the_cpu_are_brought_along_and_others_refused() -> None:
    scale = ferro.tensor(4.0)
    graph = capture(lambda x: x * scale, ferro.ones(2, device="cuda"))
    scale.fill_(5.0)
    np.testing.assert_array_equal(array(graph.interpret(ferro.ones(2, device="cuda"))[0]), [5.0, 5.0])
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        capture(lambda x: x + ferro.ones(2), ferro.ones(2, device="cuda"))


@pytest.mark.parametrize("asks", [lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: bool(x.sum() > 0)])
def test_python_that_asks_for_numbers_is_refused(asks: Any) -> None:
    with pytest.raises(CaptureError, match="asks for the numbers of a tensor"):
        capture(lambda x: (asks(x), x)[1], ferro.ones(2, device="cuda"))


def test_a_file_keeps_a_graph_and_its_device(tmp_path: Any, rng: np.random.Generator) -> None:
    table = ferro.tensor(rng.standard_normal((20, 4)).astype(np.float32), device="cuda")
    graph = capture(lambda x: x + ferro.tensor(np.arange(80.0, dtype=np.float32).reshape(20, 4), device="cuda"), table)
    graph.save(tmp_path / "graph")
    read = Graph.load(tmp_path / "graph")
    assert str(read) == str(graph)
    assert " on cuda" in str(read)
    np.testing.assert_array_equal(array(read.interpret(table)[0]), array(graph.interpret(table)[0]))


def test_a_second_derivative_has_eagers_bits() -> None:
    x = ferro.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    cubes = capture(lambda x: (x**3).sum(), x).differentiate()
    curved = cubes.joint.differentiate(f=1, wrt=0)
    v = ferro.tensor([1.0, 10.0], device="cuda")
    one = ferro.tensor(1.0, device="cuda")
    found = curved.joint.interpret(x, one, v)
    np.testing.assert_array_equal(array(found[0].detach()), np.float32(9.0))
    np.testing.assert_array_equal(array(found[1].detach()), [3.0, 12.0])
    np.testing.assert_array_equal(array(found[2].detach()), [6.0, 120.0])


def test_the_arrays_of_both_devices_share_no_memory(rng: np.random.Generator) -> None:
    """Writes are followed on the device as on the CPU: what was written into is read."""
    x = ferro.tensor(rng.standard_normal(4).astype(np.float32), device="cuda")

    def writes(x: Any) -> Any:
        y = ferro.zeros(4, device="cuda")
        y[1:3] = x[:2] * 2
        y.add_(1)
        return y * x

    graph = capture(writes, x)
    other = ferro.tensor(rng.standard_normal(4).astype(np.float32), device="cuda")
    assert array(graph.interpret(other)[0]).tobytes() == array(writes(other)).tobytes()
    plan = graph.plan()
    for _ in range(3):
        assert array(plan.run(other)[0]).tobytes() == array(writes(other)).tobytes()
