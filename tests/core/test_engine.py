"""The engine: accumulation, absent gradients, errors, deep and wide graphs, and equality of the executors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferro
from ferro.core import engine, parallel
from ferro.core.graph_task import queue_callback


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


def test_gradients_accumulate_over_calls_and_uses() -> None:
    x = leaf(1.0, 2.0)
    (x * x + x).sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_a_gradient_is_never_shared_with_the_seed_another_leaf_or_a_saved_value() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = ferro.ones(2, dtype=ferro.float64)
    (x + y).backward(seed)
    arrays = [x.grad.numpy(), y.grad.numpy(), seed.numpy()]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_a_second_backward_says_what_to_do() -> None:
    loss = (leaf(1.0) * leaf(2.0)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"second time.*MulBackward0.*detach\(\).*retain_graph=True"):
        loss.backward()


def test_retain_graph_allows_a_second_backward() -> None:
    x = leaf(3.0)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == [12.0]


def test_nodes_that_save_nothing_can_run_twice() -> None:
    x = leaf(1.0)
    total = (x + x).sum()
    total.backward()
    total.backward()
    assert x.grad.tolist() == [4.0]


def test_an_inplace_change_of_a_saved_value_is_found() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*'mul' .*saved at.*version 1; expected version 0.*'add_'"
    ):
        z.sum().backward()


def test_an_inplace_change_of_a_saved_result_is_found_also_through_a_view() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.detach()[0] = 5.0
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*'exp' .*saved.*of detach\)"):
        y.sum().backward()


def test_unneeded_branches_are_not_run() -> None:
    ran = []

    class Noisy(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            ran.append(1)
            return g

    x, y = leaf(1.0), leaf(2.0)
    out = (x * 3 + Noisy.apply(y)).sum()
    (g,) = ferro.autograd.grad(out, x)
    assert g.tolist() == [3.0]
    assert ran == []
    assert y.grad is None


@pytest.mark.parametrize("threads", [1, 2])
def test_absent_gradients_release_what_waits_for_them(threads: int) -> None:
    class Nothing(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    x = ferro.ones(50_000, requires_grad=True)
    y = x * 2
    out = sum([(Nothing.apply(y * k) + y * k).sum() for k in range(4)])
    out.backward(num_threads=threads)
    assert float(x.grad[0]) == 2.0 * (0 + 1 + 2 + 3)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_exception_in_a_formula_reaches_the_caller_and_the_engine_still_works(threads: int) -> None:
    class Broken(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError("broken on purpose")

    x = ferro.ones(100_000, requires_grad=True)
    before = threading.active_count()
    branches = [(Broken.apply(x * k) if k == 3 else x * k * x) for k in range(8)]
    with pytest.raises(ZeroDivisionError, match="broken on purpose") as caught:
        sum([b.sum() for b in branches]).backward(num_threads=threads)
    assert any("BrokenBackward" in note for note in caught.value.__notes__)
    x.grad = None
    sum([(x * k * x).sum() for k in range(8)]).backward(num_threads=threads)
    assert float(x.grad[0]) == 2 * 28
    assert threading.active_count() <= max(before, threads + before)


def test_a_million_operations_run_and_are_freed_without_recursion() -> None:
    x = ferro.ones(2, requires_grad=True)
    h = x
    for _ in range(1_000_000):
        h = -h
    h.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del h


def random_graph(seed: int, size: int) -> tuple:
    """Leaves and a scalar computed from them through a random graph with fan-out, views and broadcasting."""
    rng = np.random.default_rng(seed)
    leaves = [ferro.tensor(rng.standard_normal(size).astype("f4"), requires_grad=True) for _ in range(3)]
    scale = ferro.tensor(np.float32(0.5), requires_grad=True)
    nodes = list(leaves)
    for _ in range(60):
        a, b = (nodes[i] for i in rng.integers(0, len(nodes), 2))
        kind = rng.integers(0, 6)
        if kind == 0:
            t = a * b
        elif kind == 1:
            t = a + b * scale
        elif kind == 2:
            t = (a.reshape(-1, 50) * b.reshape(-1, 50)).reshape(size)
        elif kind == 3:
            t = a * a
        elif kind == 4:
            first, second = a.reshape(2, -1).unbind(0)
            t = (first * second).reshape(1, -1).expand(2, -1).reshape(size)
        else:
            t = -a
        nodes.append(t * 0.7)
    total = nodes[-1]
    for t in nodes[-20:-1]:
        total = total + t
    return [*leaves, scale], total.sum()


@pytest.mark.parametrize("seed", range(12))
def test_parallel_gradients_equal_serial_ones_bit_for_bit(seed: int) -> None:
    found = []
    for threads in (1, 2, 4, 8):
        leaves, loss = random_graph(seed, 50_000)
        loss.backward(num_threads=threads)
        found.append([b"" if t.grad is None else t.grad.numpy().tobytes() for t in leaves])
    assert all(f == found[0] for f in found[1:])


@given(st.integers(0, 2**31))
def test_random_graphs_equal_torch(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle")
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (3, 4))
    plan = [(int(rng.integers(0, 5)), int(rng.integers(0, 3 + i)), int(rng.integers(0, 3 + i))) for i in range(12)]
    found = []
    for library in (ferro, torch):
        leaves = [library.tensor(v, requires_grad=True) for v in values.tolist()]
        nodes = list(leaves)
        for kind, i, j in plan:
            a, b = nodes[i], nodes[j]
            nodes.append([a * b, a + b, -a, a.reshape(2, 2).reshape(4) + a, (a + 0).mul_(b)][kind])
        loss = sum([(n * n).sum() for n in nodes[-4:]])
        found.append(library.autograd.grad(loss, leaves, allow_unused=True))
    for g, w in zip(*found, strict=True):
        assert (g is None) == (w is None)
        if g is not None:
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5)


def test_backward_inside_a_hook() -> None:
    x = leaf(2.0)
    inner = leaf(3.0)
    y = x * x

    def hook(g: Any) -> None:
        with ferro.enable_grad():
            (inner * inner).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert inner.grad.tolist() == [6.0]
    assert x.grad.tolist() == [4.0]


def test_several_threads_share_a_leaf_without_losing_updates() -> None:
    x = ferro.zeros(1000, requires_grad=True)

    def work() -> None:
        for _ in range(50):
            (x * 1.0).sum().backward()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert float(x.grad[0]) == 200.0


def test_hooks_replace_observe_and_leave() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    seen: list = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [30.0, 30.0]
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1


def test_a_hook_on_a_leaf_changes_what_is_accumulated_and_post_hooks_run_after() -> None:
    x = leaf(1.0)
    order: list = []
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda t: order.append(t.grad.tolist()))
    (x * 5).sum().backward()
    assert order == [[10.0]]


def test_a_hook_that_returns_the_wrong_shape_is_refused() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="changed the size of value"):
        y.sum().backward()


def test_retain_grad_keeps_the_gradient_of_a_result() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0]


def test_create_graph_gives_gradients_of_any_order() -> None:
    x = leaf(2.0)
    y = x * x * x * x
    for expected in (32.0, 48.0, 48.0, 24.0):
        (y,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == [expected]


def test_backward_with_inputs_touches_only_these() -> None:
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    (z * z).sum().backward(inputs=[x, z])
    assert x.grad.tolist() == [36.0]
    assert z.grad.tolist() == [12.0]
    assert y.grad is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: leaf(1.0, 2.0).mul(2).backward(),
            r"implicitly created only for scalar outputs, but tensor 0 has shape \[2\]",
        ),
        (lambda: ferro.ones(1).backward(), "does not require grad and does not have a grad_fn"),
        (
            lambda: leaf(1.0, 2.0).mul(2).backward(ferro.ones(3)),
            r"grad_output\[0\] has a shape of ferro.Size\(\[3\]\) and output\[0\] has a shape of ferro.Size\(\[2\]\)",
        ),
        (
            lambda: ferro.autograd.grad(leaf(1.0).sum(), leaf(1.0)),
            r"index 0 appears to not have been used in the graph.*allow_unused=True",
        ),
        (lambda: ferro.autograd.grad(leaf(1.0).sum(), ferro.ones(1)), r"does not require grad \(inputs\[0\]"),
    ],
)
def test_errors_tell_what_to_do(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_queued_callbacks_run_once_the_backward_has_ended() -> None:
    x = leaf(2.0)
    y = x * x
    seen: list = []
    y.register_hook(lambda g: queue_callback(lambda: seen.append(x.grad.tolist())))
    y.backward()
    assert seen == [[4.0]]
    with pytest.raises(RuntimeError, match="only be queued while a backward is running"):
        queue_callback(seen.clear)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes were ready whenever a backward was offered to several threads, which decline."""
    found: list[int] = []

    def decline(run: Any, ready: list) -> bool:
        found.append(len(ready))
        return False

    monkeypatch.setattr(parallel, "execute", decline)
    return found


@pytest.mark.parametrize(("size", "shared"), [(256, True), (16, False)])
def test_heavy_branches_that_end_in_means_are_offered_to_several_threads(
    size: int, shared: bool, asked: list[int]
) -> None:
    x = ferro.ones(size, size, requires_grad=True)
    total: Any = 0.0
    for _ in range(4):
        total = total + (x @ x).tanh().mean()
    total.backward()
    assert bool(asked) == shared


@pytest.mark.parametrize(("size", "threads", "shared"), [(192, None, True), (128, None, False), (128, 2, True)])
def test_branches_at_hand_are_offered_to_several_threads_where_they_are_worth_it(
    size: int, threads: int | None, shared: bool, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "get_num_threads", lambda: 2)
    x = ferro.ones(size, size, requires_grad=True)
    ferro.cat([x @ x for _ in range(6)]).sum().backward(num_threads=threads)
    assert bool(asked) == shared


def test_hooks_and_guards_of_one_node_are_both_seen() -> None:
    seen: list[list] = []
    w, x = leaf(2.0), leaf(3.0)
    with ferro.no_grad():
        w.mul_(2.0)  # (the node below guards a version that is not 0)
    y = w * x
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.backward()
    assert (seen, float(w.grad), float(x.grad)) == ([[1.0]], 3.0, 4.0)
    y = w * x
    assert y.grad_fn is not None
    y.grad_fn.metadata["mine"] = 1
    with ferro.no_grad():
        w.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
