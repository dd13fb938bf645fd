"""Python threads that run forward and backward at the same time, on graphs of their own and on shared ones."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from ferro.core import engine
from ferro.core.node import Node
from ferro.native.thread_pool import in_worker
from ferro.utils.checkpoint import checkpoint

pytestmark = pytest.mark.timeout(280)
N, ITERATIONS = 8, 120
MANY = [ITERATIONS, pytest.param(2500, marks=pytest.mark.slow)]  # iterations of each of the N threads


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Threads take turns a hundred times more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any], n: int = N) -> list:
    """What ``work(0) ... work(n - 1)`` return, run at the same time."""
    results: list = [None] * n
    errors: list = []
    start = threading.Barrier(n)

    def body(i: int) -> None:
        try:
            start.wait(timeout=30)
            results[i] = work(i)
        except BaseException as e:  # noqa: BLE001 (shown below)
            errors.append(e)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=250)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def note_of(values: Any) -> list:
    """The sums of some gradients, as numbers that can be compared."""
    return [None if v is None else float(v.numpy().sum()) for v in values]


def step(w: Any, v: Any, data: Any, hooked: list) -> Any:
    """A loss with fan-out, views, in-place writes, saved-tensor hooks, and hooks on tensors and nodes."""
    h = (data @ w).tanh()
    h.register_hook(lambda g: hooked.append(note_of([g])))
    a, b = h.chunk(2, 1)
    c = (a * b).clone()
    c[0] = v
    c.mul_(b)
    c.register_hook(lambda g: g * 0.5)
    c.grad_fn.register_hook(lambda gi, go: hooked.append(["node", *note_of(gi), *note_of(go)]))
    c.grad_fn.register_prehook(lambda go: (go[0] * 2,))
    register_multi_grad_hook([a, b], lambda gs: hooked.append(["all", *note_of(gs)]))
    register_multi_grad_hook([a, c], lambda g: hooked.append(["any", *note_of([g])]), mode="any")
    with ferro.no_grad():
        scale = c.abs().max()
    with saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), ferro.from_numpy):
        d = (c / (1 + scale)).sin()
    return (d + a.exp()).sum() + checkpoint(lambda w: (w * w).mean(), w, use_reentrant=False)


def training(i: int, iterations: int, threads: int | None = None) -> list:
    """Some iterations from a seed of its own: parameters, losses and what the hooks saw."""
    rng = np.random.default_rng(i)
    w = ferro.from_numpy(rng.standard_normal((5, 8))).requires_grad_()
    v = ferro.from_numpy(rng.standard_normal(4)).requires_grad_()
    hooked: list = []
    losses = []

    def descend(p: Any) -> None:
        with ferro.no_grad():
            p -= 0.01 * p.grad
        p.grad = None

    w.register_post_accumulate_grad_hook(descend)
    v.register_post_accumulate_grad_hook(descend)
    for _ in range(iterations):
        loss = step(w, v, ferro.from_numpy(rng.standard_normal((3, 5))), hooked)
        ferro.autograd.backward(loss, num_threads=threads)
        losses.append(loss.item())
    return [w.detach().numpy().tobytes(), v.detach().numpy().tobytes(), losses, sorted(map(str, hooked))]


def eager(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Hands every graph with two ready nodes to the threaded executor."""
    if threads > 1:
        monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)


@pytest.mark.parametrize("iterations", MANY)
@pytest.mark.parametrize("threads", [1, 2])
def test_separate_graphs_give_the_numbers_of_one_thread(
    threads: int, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager(monkeypatch, threads)
    alone = [training(i, iterations, 1) for i in range(N)]
    assert in_threads(lambda i: training(i, iterations, threads)) == alone


@pytest.mark.parametrize("iterations", MANY)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_shared_graph_runs_in_all_threads_at_once(
    threads: int, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager(monkeypatch, threads)
    rng = np.random.default_rng(0)
    w = ferro.from_numpy(rng.standard_normal((5, 8))).requires_grad_()
    v = ferro.from_numpy(rng.standard_normal(4)).requires_grad_()
    hooked: list = []
    loss = step(w, v, ferro.from_numpy(rng.standard_normal((3, 5))), hooked)
    want = [g.numpy().tobytes() for g in ferro.autograd.grad(loss, [w, v], retain_graph=True)]
    each = sorted(map(str, hooked))

    def work(i: int) -> int:
        same = 0
        for _ in range(iterations):
            found = ferro.autograd.grad(loss, [w, v], retain_graph=True, num_threads=threads)
            same += [g.numpy().tobytes() for g in found] == want
        return same

    assert in_threads(work) == [iterations] * N
    assert len(each) >= 4
    assert sorted(map(str, hooked)) == sorted(each * (N * iterations + 1))


@pytest.mark.parametrize("iterations", MANY)
@pytest.mark.parametrize("threads", [1, 2])
def test_no_update_of_a_shared_leaf_is_lost(threads: int, iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    eager(monkeypatch, threads)
    x = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
    calls, seen = [], []
    x.register_post_accumulate_grad_hook(lambda t: calls.append(1))
    x.register_hook(lambda g: seen.append(float(g.numpy()[0])))
    shared = (x * 2 + x.clone() * 3).sum()

    def work(i: int) -> None:
        for k in range(iterations):
            if k % 3 == 0:
                ferro.autograd.backward(shared, retain_graph=True, num_threads=threads)
            elif k % 3 == 1:
                ferro.autograd.backward((x * 2 + x[:].clone() * 3).sum(), num_threads=threads)
            else:
                ferro.autograd.backward((x * 2 + x.view(64).clone() * 3).sum(), inputs=[x], num_threads=threads)

    in_threads(work)
    assert x.grad.tolist() == [5.0 * N * iterations] * 64
    assert len(calls) == N * iterations
    assert seen == [5.0] * (N * iterations)


def test_retained_gradients_of_a_shared_graph_lose_nothing() -> None:
    x = ferro.ones(16, dtype=ferro.float64, requires_grad=True)
    y = x.sin()
    y.retain_grad()
    loss = (y * 3).sum()
    in_threads(lambda i: [ferro.autograd.backward(loss, retain_graph=True) for _ in range(ITERATIONS)] and None)
    assert y.grad.tolist() == [3.0 * N * ITERATIONS] * 16


def test_create_graph_in_all_threads() -> None:
    x = ferro.tensor([0.5, 1.5], dtype=ferro.float64, requires_grad=True)
    y = (x.sin() * x.exp()).sum()

    def work(i: int) -> set:
        found = set()
        for _ in range(ITERATIONS // 3):
            (g,) = ferro.autograd.grad(y, x, create_graph=True)
            (h,) = ferro.autograd.grad((g * g).sum(), x, retain_graph=True)
            found.add((g.detach().numpy().tobytes(), h.numpy().tobytes()))
        return found

    results = in_threads(work)
    assert all(r == results[0] and len(r) == 1 for r in results)


def test_a_graph_freed_once_raises_in_every_other_thread() -> None:
    for _ in range(30):
        x = ferro.ones(4, dtype=ferro.float64, requires_grad=True)
        loss = (x.sin() * x.cos()).exp().sum()

        def work(i: int, loss: Any = loss) -> str:
            try:
                loss.backward()
            except RuntimeError as e:
                return str(e)
            return ""

        for message in in_threads(work, 4):
            assert not message or "second time" in message


def test_modes_belong_to_their_thread() -> None:
    def work(i: int) -> bool:
        right = ferro.is_grad_enabled()  # a new thread records, whatever its maker does
        for k in range(ITERATIONS):
            with ferro.set_grad_enabled((i + k) % 2 == 0):
                x = ferro.ones(2, requires_grad=True)
                right &= (x * 2).requires_grad == ((i + k) % 2 == 0)
                with ferro.enable_grad():
                    right &= (x * 2).requires_grad
        return right

    with ferro.no_grad():
        assert all(in_threads(work))


def test_nothing_stays_alive() -> None:
    def nodes() -> int:
        return sum(issubclass(type(o), Node) for o in gc.get_objects())

    in_threads(lambda i: training(i, 40))
    gc.collect()
    gc.disable()
    try:
        before, threads = nodes(), threading.active_count()
        in_threads(lambda i: training(i, 40) and None)
        assert nodes() == before
        assert threading.active_count() == threads
    finally:
        gc.enable()


def test_the_last_branch_goes_back_to_one_thread_whose_kernels_all_may_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    ended = threading.Event()
    shared: list[bool] = []

    def gradients(threads: int) -> bytes:
        def wait(_: Any) -> None:
            assert threads == 1 or ended.wait(60)

        ended.clear()
        shared.clear()
        x = ferro.linspace(-1, 1, 50_000).requires_grad_()
        y = ferro.ones(50_000, requires_grad=True)
        y.register_post_accumulate_grad_hook(lambda _: ended.set())
        h = x
        for k in range(200):
            h = ferro.tanh(h + x)
            if k == 198:  # of the long branch's nodes the first to run
                h.register_hook(wait)
            else:
                h.register_hook(lambda _: shared.append(in_worker()))
        ferro.autograd.backward(h.sum() + y.sum(), num_threads=threads)
        return x.grad.numpy().tobytes() + y.grad.numpy().tobytes()

    alone = gradients(1)
    assert not any(shared)
    assert gradients(2) == alone
    assert shared[0]
    assert not shared[-1]
