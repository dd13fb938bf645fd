"""Races: what two threads might interleave, forced to the moment between a look and a store, or provoked by quick switches."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from ferro.core import backend, base, engine, node
from ferro.core.graph_task import queue_callback
from ferro.core.op import OPS, Op
from ferro.core.saved_values import Packed
from ferro.utils.checkpoint import checkpoint
from tests.stress.test_threads import in_threads

pytestmark = pytest.mark.timeout(260)


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


class Meeting:
    """Lets the first two callers go on only when both have come; later ones pass."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2)
        self.left = 2
        self.lock = threading.Lock()

    def wait(self) -> None:
        """Waits for the other one (not for ever: it may be kept out by a lock); who came second is the last to go on."""
        with self.lock:
            self.left -= 1
            order = self.left
            if order < 0:
                return
        try:
            self.barrier.wait(timeout=1)
        except threading.BrokenBarrierError:
            return
        if order == 0:
            threading.Event().wait(0.05)


# -- made once: both threads have seen that there is none, and both make one ------------------------------------------


@pytest.fixture
def both_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that make a Version, Meta or NodeMeta at first use meet while they make it."""
    meetings: dict = {kind: Meeting() for kind in (base.Version, base.Meta, node.NodeMeta)}

    def new(cls: type) -> Any:
        if cls in meetings:
            meetings[cls].wait()
        return object.__new__(cls)

    right = node.NodeMeta

    def node_meta() -> Any:
        meetings[right].wait()
        return right()

    monkeypatch.setattr(base, "new", new)
    monkeypatch.setattr(node, "NodeMeta", node_meta)


@pytest.mark.usefixtures("both_make")
def test_one_version_counter_is_made_for_one_storage() -> None:
    x = ferro.ones(3)
    a, b = in_threads(lambda i: x.detach(), 2)
    with ferro.no_grad():
        x.add_(1)
    assert [t._version for t in (x, a, b)] == [1, 1, 1]


@pytest.mark.usefixtures("both_make")
def test_one_counter_is_made_for_views_so_that_a_write_through_one_is_noticed() -> None:
    x = leaf(1.0, 2.0, 3.0).clone()
    a, b = in_threads(lambda i: x[i:], 2)
    loss = (b * b).sum()
    a.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.usefixtures("both_make")
def test_hooks_that_two_threads_register_at_once_on_a_leaf_both_run() -> None:
    x, called = leaf(1.0), []
    in_threads(lambda i: x.register_hook(lambda g: called.append(i)), 2)
    x.sin().backward()
    assert sorted(called) == [0, 1]


@pytest.mark.usefixtures("both_make")
def test_hooks_that_two_threads_register_at_once_on_a_node_both_run() -> None:
    x, called = leaf(1.0).sin(), []
    in_threads(lambda i: x.register_hook(lambda g: called.append(i)), 2)
    x.sum().backward()
    assert sorted(called) == [0, 1]


@pytest.mark.usefixtures("both_make")
def test_a_gradient_is_not_lost_to_a_hook_registered_meanwhile() -> None:
    x, called = leaf(1.0), []
    loss = (x * 2).sum()
    in_threads(lambda i: loss.backward() if i else x.register_hook(called.append), 2)
    assert x.grad.tolist() == [2.0]
    called.clear()
    x.sum().backward()
    assert len(called) == 1


def test_the_plan_of_an_operation_may_be_made_twice() -> None:
    op = Op("test_race", lambda xp, x: x * 3, x=lambda xp, g: g * 3)
    try:
        x = leaf(2.0)

        def work(i: int) -> float:
            op.plans.clear()
            op.table[:] = [None] * 4
            (g,) = ferro.autograd.grad(backend.apply(op, (x,)).sum(), x)
            return g.item()

        assert [r for _ in range(50) for r in in_threads(work, 4)] == [3.0] * 200
    finally:
        del OPS["test_race"]


def test_a_constant_is_read_only_before_another_thread_can_see_it() -> None:
    from ferro.core import operands

    seen: list = []

    class Watched(dict):
        def __setitem__(self, key: Any, value: Any) -> None:
            seen.append(value._data.flags.writeable)
            super().__setitem__(key, value)

    before, operands._constants = operands._constants, Watched()
    try:
        ferro.ones(2) + 0.123456
    finally:
        operands._constants = before
    assert seen == [False]


# -- views ------------------------------------------------------------------------------------------------------------


def test_two_threads_that_first_use_a_view_of_a_changed_base_get_the_same_new_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = leaf(1.0, 1.0, 1.0)
    b = x.clone()
    v = b[:2]
    b.mul_(3)
    begun, right = threading.Event(), backend.apply

    def slow(*args: Any) -> Any:
        begun.set()
        threading.Event().wait(0.1)  # the other thread asks now
        return right(*args)

    monkeypatch.setattr(backend, "apply", slow)

    def work(i: int) -> Any:
        if i:
            assert begun.wait(timeout=10)
        return v.grad_fn

    one, other = in_threads(work, 2)
    monkeypatch.setattr(backend, "apply", right)
    assert one is other
    assert ferro.autograd.grad((v * v).sum(), x)[0].tolist() == [18.0, 18.0, 0.0]


# -- saved values in the hands of hooks ---------------------------------------------------------------------------------


def packed_by_hooks(function: Callable, x: Any) -> Any:
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return function(x)


def packed_by_checkpoint(function: Callable, x: Any) -> Any:
    return checkpoint(function, x, use_reentrant=False)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pack", [packed_by_hooks, packed_by_checkpoint])
def test_a_node_with_packed_values_runs_in_two_threads_at_once(
    pack: Callable, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = leaf(0.5, 1.5)
    loss = pack(lambda x: (x * 1).sin(), x).sum()
    sine = loss.grad_fn.next_functions[0][0]
    meeting, right = Meeting(), cpu.cos

    def cos(a: Any) -> Any:
        meeting.wait()
        return right(a)

    monkeypatch.setattr(cpu, "cos", cos)  # the derivative of sin

    def work(i: int) -> list:
        try:
            return ferro.autograd.grad(loss, x, retain_graph=keep)[0].tolist()
        except RuntimeError as e:
            return [str(e)]

    found = in_threads(work, 2)
    if keep:
        assert found == [np.cos([0.5, 1.5]).tolist()] * 2
        assert [type(v) for v in sine.saved] == [Packed]  # nothing unpacked stays on the node
    else:
        assert any(f == np.cos([0.5, 1.5]).tolist() for f in found)
        assert all(len(f) == 2 or "second time" in f[0] for f in found)
        assert not isinstance(sine.saved, tuple)  # and what was freed stays freed


def test_a_hook_may_run_backward_through_the_node_whose_values_it_unpacks() -> None:
    x = leaf(0.5)
    inner: list = []

    def unpack(t: Any) -> Any:
        if not inner:
            inner.append(None)
            inner[0] = ferro.autograd.grad(y, x, retain_graph=True)[0].item()
        return t

    with saved_tensors_hooks(lambda t: t, unpack):
        y = (x * x).sum()
    y.backward()
    assert (inner, x.grad.tolist()) == ([1.0], [1.0])


def test_packed_values_lead_to_the_node_itself_in_double_backward() -> None:
    x = leaf(0.5)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x.exp()
        z = ferro.stack([x, x * 2]).softmax(0)
    (g,) = ferro.autograd.grad(y, x, create_graph=True)
    assert any(f is y.grad_fn for f, _ in g.grad_fn.next_functions)
    assert ferro.autograd.grad(g, x)[0].item() == np.exp(0.5)
    assert ferro.autograd.gradgradcheck(lambda x: ferro.stack([x, x * 2]).softmax(0), (x,))
    z.sum().backward()


# -- hooks and gradients of threads that share a graph --------------------------------------------------------------------


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_multi_grad_hook_runs_once_in_each_of_the_backwards_that_run_at_once(mode: str) -> None:
    a, b = leaf(1.0), leaf(2.0)
    p, q = a * 1, b * 1
    seen: list = []
    register_multi_grad_hook(
        [p, q], lambda g: seen.append([t.item() for t in g] if mode == "all" else g.item()), mode=mode
    )
    loss = (p * q).sum()
    in_threads(
        lambda i: [ferro.autograd.grad(loss * (i + 1.0), [a, b], retain_graph=True) for _ in range(40)] and None, 4
    )
    # never the gradients of one backward beside those of another; q is younger than p, so its gradient comes first
    each = [[2.0 * i, 1.0 * i] if mode == "all" else 1.0 * i for i in (1, 2, 3, 4)]
    assert sorted(seen) == [g for g in each for _ in range(40)]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_multi_grad_hook_remembers_nothing_of_a_backward_that_failed_or_reached_less(mode: str) -> None:
    a, seen = leaf(1.0), []
    p, q = a * 1, a * 2
    register_multi_grad_hook([p, q], lambda g: seen.append(g), mode=mode)
    broken = [False]

    def fail(g: Any) -> None:
        if broken[0]:
            raise ValueError("once")

    q.register_hook(fail)
    q.sum().backward(retain_graph=True)  # does not reach p
    assert len(seen) == 1
    broken[0] = True
    loss = (p + q).sum()
    with pytest.raises(ValueError, match="once"):
        loss.backward(retain_graph=True)
    assert len(seen) == (1 if mode == "all" else 2)
    broken[0] = False
    seen.clear()
    loss.backward()
    assert len(seen) == 1
    assert mode == "any" or [t.item() for t in seen[0]] == [1.0, 1.0]


@pytest.mark.usefixtures("restless")
def test_hooks_come_and_go_while_other_threads_run_backward() -> None:
    x = leaf(*[1.0] * 8)
    y = x * 2
    loss = y.sum()
    done = threading.Event()

    def work(i: int) -> Any:
        if i < 2:
            try:
                for _ in range(200):
                    loss.backward(retain_graph=True)
            finally:
                done.set()
            return None
        while not done.is_set():
            handles = [
                x.register_hook(lambda g: None),
                y.register_hook(lambda g: g * 1),
                y.grad_fn.register_hook(lambda gi, go: None),
                y.grad_fn.register_prehook(lambda go: None),
                x.register_post_accumulate_grad_hook(lambda t: None),
            ]
            y.retain_grad()
            for h in handles:
                h.remove()
        return None

    in_threads(work, 4)
    assert x.grad.tolist() == [2.0 * 400] * 8


def test_a_hook_added_while_hooks_are_called_sees_the_gradient() -> None:
    seen: list = []

    class Late(dict):
        """Empty when it is first looked at; another thread adds a hook before it is read."""

        def values(self) -> Any:
            self[0] = seen.append
            return super().values()

    y = leaf(1.0, 2.0) * 2
    y.register_hook(lambda g: None).remove()
    y.grad_fn.meta.pre[0] = Late()
    y.sum().backward()
    assert [g.tolist() for g in seen] == [[1.0, 1.0]]


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("threads", [1, 2])
def test_recorded_gradients_of_a_shared_leaf_lose_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    x = leaf(1.0, 2.0)
    loss = (x * x + x).sum()

    def work(i: int) -> None:
        for k in range(40):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ferro.autograd.backward(loss, create_graph=k % 2 == 0, retain_graph=True, num_threads=threads)

    in_threads(work, 4)
    assert x.grad.tolist() == [160 * 3.0, 160 * 5.0]
    x.grad = None


@pytest.mark.usefixtures("restless")
def test_a_hook_that_uses_a_gradient_up_misses_none_of_another_thread() -> None:
    x = leaf(*[0.0] * 4)
    total = np.zeros(4)

    def use(t: Any) -> None:
        nonlocal total
        total = total + t.grad.numpy()
        for _ in range(20):
            len(str(t.shape))  # something takes time
        t.grad = None

    x.register_post_accumulate_grad_hook(use)
    in_threads(
        lambda i: [ferro.autograd.backward(x.sum(), inputs=[x] if i % 2 else None) for _ in range(100)] and None, 4
    )
    assert total.tolist() == [400.0] * 4


def test_a_backward_begun_in_the_turn_of_a_leaf_does_not_wait_for_threads_that_wait_for_the_leaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    x, calls = leaf(1.0, 2.0), []

    def again(t: Any) -> None:
        calls.append(None)
        if len(calls) == 1:
            with ferro.enable_grad():
                loss = (t.sin() + t.cos() + t.exp()).sum()
            ferro.autograd.backward(loss, num_threads=4)

    x.register_post_accumulate_grad_hook(again)
    x.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad.numpy(), [1 + np.cos(v) - np.sin(v) + np.exp(v) for v in (1.0, 2.0)])


@pytest.mark.parametrize("threads", [1, 4])
def test_callbacks_can_be_queued_from_whichever_thread_runs_a_hook(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    x, called, caller = leaf(1.0, 2.0), [], threading.get_ident()
    on_worker, right = threading.Event(), cpu.cos

    def cos(a: Any) -> Any:
        if threading.get_ident() == caller and threads > 1:
            assert on_worker.wait(timeout=20)
        return right(a)

    def hook(g: Any) -> None:
        queue_callback(lambda: called.append((threading.get_ident(), x.grad is not None)))
        if threading.get_ident() != caller:
            on_worker.set()

    total = x.sum() * 0
    for i in range(12):
        y = (x * float(i)).sin()
        y.register_hook(hook)
        total = total + y.sum()
    monkeypatch.setattr(cpu, "cos", cos)  # the derivative of sin
    ferro.autograd.backward(total, num_threads=threads)
    assert called == [(caller, True)] * 12  # all in the thread that called, and when everything has ended


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
import ferro
from ferro.nn import functional as F
x = ferro.linspace(-1, 1, 8 * 3 * 40 * 40).reshape(8, 3, 40, 40)
w = ferro.linspace(-1, 1, 5 * 3 * 3 * 3).reshape(5, 3, 3, 3)
calls = [
    lambda x: F.conv2d(x, w, padding=1).sum(), lambda x: F.max_pool2d(x, 2).sum(), lambda x: x.softmax(1).square().sum(),
    lambda x: F.layer_norm(x, (40, 40)).square().sum(), lambda x: x.cumsum(2).sum(), lambda x: F.gelu(x).sum(),
    lambda x: F.cross_entropy(x[:, :, 0, 0], ferro.tensor([0, 1, 2, 0, 1, 2, 0, 1])), lambda x: ferro.einsum("abcd,abed->ace", x, x).sum(),
    lambda x: x.sort(3).values[..., 0].sum(), lambda x: x.erf().sum(), lambda x: F.batch_norm(x, None, None, training=True).square().sum(),
    lambda x: F.avg_pool2d(x, 2).square().sum(), lambda x: x.logsumexp((1, 2)).sum(), lambda x: x.var(0).sum(),
]
start, found = threading.Barrier(8), [None] * 8
def work(i):
    start.wait(timeout=60)
    got = {}
    for k in range(len(calls)):
        number = (k + 2 * i) % len(calls)
        leaf = x.clone().requires_grad_()
        calls[number](leaf).backward()
        got[number] = leaf.grad.numpy().tobytes()
    found[i] = got
threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join(timeout=200)
assert all(f is not None and f == found[0] for f in found), [f is None for f in found]
print("same")
"""


@pytest.mark.slow
def test_what_is_imported_and_loaded_at_first_use_may_be_first_used_by_eight_threads_at_once() -> None:
    run = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout == "same\n"
