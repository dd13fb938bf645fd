"""The fault table: what goes wrong inside a backward reaches the user as it is, and leaves nothing behind.

| fault | the user sees | afterwards |
|---|---|---|
| exception in a formula, a custom backward, a hook, unpack, a recomputation | that exception, noting the node | the engine works |
| KeyboardInterrupt, SystemExit, GeneratorExit there | that exception | likewise |
| StopIteration, RecursionError there | that exception, not taken for the end of something | likewise |
| MemoryError in a kernel | that exception, with a note that names the node | likewise |
| exception in pack, in a formula of forward | that exception; nothing is recorded | likewise |
| exception in a queued callback | that exception; gradients are there, later callbacks are dropped | likewise |
| exception in a hook before a callback runs | that exception; the callback never runs | likewise |
| any of them on a worker thread | the same, on the calling thread; the other threads stop | no thread beyond the pool |
| error at the bottom of a hundred nested backward calls | that exception | modes as before |
| nested backward without end | RecursionError | likewise |
| Ctrl-C at any moment | KeyboardInterrupt | modes, locks and pool as before |
"""

from __future__ import annotations

import _thread
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from ferro.core import accumulate, engine, history, mode
from ferro.core.graph_task import STATE, queue_callback
from ferro.core.node import Node
from ferro.core.op import OPS
from ferro.native import blas
from ferro.native import thread_pool as _threads
from ferro.utils.checkpoint import checkpoint

pytestmark = pytest.mark.timeout(60)
THREADS = (1, 4)


@pytest.fixture(autouse=True)
def _eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)


@pytest.fixture(autouse=True)
def _no_thread_and_no_object_left() -> Iterator[None]:
    """The threads after a test are those of the pool, and without the cycle collector no node or array stays alive."""
    works(4)  # the pool exists before
    before, active = set(threading.enumerate()), list(mode.ACTIVE)
    gc.collect()
    gc.disable()
    nodes = live_nodes()
    try:
        yield
        assert live_nodes() == nodes
    finally:
        gc.enable()
    assert set(threading.enumerate()) <= before
    assert (STATE.run, STATE.turns, mode.ACTIVE, mode.MODE.get()) == (None, 0, active, None)
    no_lock_is_held()
    works(1)
    works(4)


def live_nodes() -> int:
    """How many nodes of the tape there are."""
    return sum(issubclass(type(o), Node) for o in gc.get_objects())


def no_lock_is_held() -> None:
    """Asserts that another thread could take every lock of the engine, and that every worker of the pool is at rest."""
    free: list = []

    def look() -> None:
        for lock in (*accumulate.LEAF_LOCKS.locks, history._refreshing, _threads._pool.lock, blas._blas._lock):
            free.append(lock.acquire(timeout=5))
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert all(free)
    assert len(free) == len(accumulate.LEAF_LOCKS.locks) + 3
    assert not _threads._pool.runs
    assert len(_threads._pool.idle) == _threads._pool.created


def works(threads: int) -> None:
    """Asserts that a backward right now is right."""
    x = ferro.tensor([1.0, 2.0], dtype=ferro.float64, requires_grad=True)
    ferro.autograd.backward((x.sin() * x.cos() + x.exp()).sum(), num_threads=threads)
    want = np.cos(2 * x.detach().numpy()) + np.exp(x.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-12)


class Faulty(ferro.autograd.Function):
    """Raises in backward what it was given."""

    @staticmethod
    def forward(ctx: Any, x: Any, make: Callable) -> Any:
        ctx.make = make
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise ctx.make()


def branches(fault: Callable, width: int = 6) -> tuple[Any, list]:
    """The sum of several branches of which one is at fault, and weak references to what must die."""
    x = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
    total, dying = None, [weakref.ref(x)]
    for i in range(width):
        y = x * (i + 1.0)
        y = fault(y) if i == width // 2 else y.sin()
        dying += [weakref.ref(y), weakref.ref(y.grad_fn)]
        y = y.exp()
        total = y if total is None else total + y
    return total.sum(), dying


def caught(kind: type[BaseException], call: Callable) -> list[str]:
    """Runs `call`, which must raise exactly `kind`; the notes of the exception (which itself is let go of)."""
    try:
        call()
    except kind as e:
        return list(getattr(e, "__notes__", []))
    raise AssertionError("nothing was raised")


def in_formula(make: Callable) -> Callable:
    """A fault in a custom backward."""
    return lambda y: Faulty.apply(y, make)


def in_hook(make: Callable) -> Callable:
    """A fault in a tensor hook."""

    def fault(y: Any) -> Any:
        def hook(g: Any) -> None:
            raise make()

        y = y.sin()
        y.register_hook(hook)
        return y

    return fault


def in_node_hook(make: Callable) -> Callable:
    """A fault in a hook of a node."""

    def fault(y: Any) -> Any:
        def hook(gi: Any, go: Any) -> None:
            raise make()

        y = y.sin()
        y.grad_fn.register_hook(hook)
        return y

    return fault


def raising(make: Callable) -> Callable:
    """A function of any arguments that raises."""

    def fail(*args: Any) -> None:
        raise make()

    return fail


def in_prehook(make: Callable) -> Callable:
    """A fault in a prehook of a node."""

    def fault(y: Any) -> Any:
        y = y.sin()
        y.grad_fn.register_prehook(raising(make))
        return y

    return fault


def in_leaf_hook(make: Callable) -> Callable:
    """A fault in a hook of a leaf."""

    def fault(y: Any) -> Any:
        leaf = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
        leaf.register_hook(raising(make))
        return y.sin() * leaf

    return fault


def in_post_accumulate_hook(make: Callable) -> Callable:
    """A fault in a post-accumulate hook, in the turn of its leaf."""

    def fault(y: Any) -> Any:
        leaf = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
        leaf.register_post_accumulate_grad_hook(raising(make))
        return y.sin() * leaf

    return fault


def in_multi_grad_hook(make: Callable) -> Callable:
    """A fault in a hook on several gradients."""

    def fault(y: Any) -> Any:
        a, b = y.sin(), y.cos()
        register_multi_grad_hook([a, b], raising(make))
        return a * b

    return fault


def in_unpack(make: Callable) -> Callable:
    """A fault where saved tensors are unpacked."""

    def fault(y: Any) -> Any:
        with saved_tensors_hooks(lambda t: t, raising(make)):
            return y.sin()

    return fault


def in_recomputation(make: Callable) -> Callable:
    """A fault in the second run of a checkpointed function."""

    def fault(y: Any) -> Any:
        runs: list = []

        def function(y: Any) -> Any:
            runs.append(None)
            if len(runs) > 1:
                raise make()
            return y.sin().exp()

        return checkpoint(function, y, use_reentrant=False)

    return fault


def in_reentrant_recomputation(make: Callable) -> Callable:
    """The same, by a backward inside of backward."""

    def fault(y: Any) -> Any:
        runs: list = []

        def function(y: Any) -> Any:
            runs.append(None)
            if len(runs) > 1:
                raise make()
            return y.sin().exp()

        return checkpoint(function, y, use_reentrant=True)

    return fault


def in_callback(make: Callable) -> Callable:
    """A fault in a callback that runs when backward has ended."""

    def fault(y: Any) -> Any:
        y = y.sin()
        y.register_hook(lambda g: queue_callback(raising(make)))
        return y

    return fault


WHERE = [
    in_formula,
    in_hook,
    in_node_hook,
    in_prehook,
    in_leaf_hook,
    in_post_accumulate_hook,
    in_multi_grad_hook,
    in_unpack,
    in_recomputation,
    in_reentrant_recomputation,
    in_callback,
]
KINDS = [ValueError, MemoryError, KeyboardInterrupt, SystemExit, StopIteration, RecursionError, GeneratorExit]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", WHERE)
def test_what_user_code_raises_reaches_the_caller(where: Callable, kind: type, threads: int) -> None:
    loss, dying = branches(where(lambda: kind("fault")))
    notes = caught(kind, lambda: ferro.autograd.backward(loss, num_threads=threads))
    if issubclass(kind, Exception) and where not in (
        in_leaf_hook,
        in_post_accumulate_hook,
        in_callback,
    ):  # these belong to no node
        assert any("raised while running backward of" in note for note in notes)
    works(threads)
    loss = None
    assert not [r for r in dying if r() is not None]


@pytest.mark.parametrize("where", WHERE)
def test_the_same_kinds_of_fault_in_torch(where: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch too lets every kind of exception through from every place."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    place = where.__name__.removeprefix("in_")
    for kind in KINDS:
        x = torch.ones(4, dtype=torch.float64, requires_grad=True)
        y = x * 2
        fail = raising(lambda kind=kind: kind("fault"))
        runs: list = []

        def again(y: Any, fail: Callable = fail, runs: list = runs) -> Any:
            runs.append(None)
            return y.sin() if len(runs) < 2 else fail()

        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any, fail: Callable = fail) -> Any:
                return fail()

        if place == "formula":
            y = Fails.apply(y)
        elif place == "hook":
            y.register_hook(fail)
        elif place == "node_hook":
            y.grad_fn.register_hook(fail)
        elif place == "prehook":
            y.grad_fn.register_prehook(fail)
        elif place == "leaf_hook":
            x.register_hook(fail)
        elif place == "post_accumulate_hook":
            x.register_post_accumulate_grad_hook(fail)
        elif place == "multi_grad_hook":
            torch.autograd.graph.register_multi_grad_hook([x, y], fail)
        elif place == "unpack":
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
                y = y.sin()
        elif place == "callback":
            y.register_hook(lambda g, fail=fail: torch.autograd.Variable._execution_engine.queue_callback(fail))
        else:
            y = torch.utils.checkpoint.checkpoint(again, y, use_reentrant=place == "reentrant_recomputation")
        caught(kind, y.sum().backward)


@pytest.mark.parametrize("kind", KINDS)
def test_what_pack_raises_reaches_the_caller_of_forward(kind: type) -> None:
    x = ferro.ones(4, dtype=ferro.float64, requires_grad=True)
    y = x * 2

    def forward() -> None:
        with saved_tensors_hooks(raising(lambda: kind("pack")), lambda t: t):
            y.sin()

    caught(kind, forward)
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.parametrize("threads", THREADS)
def test_a_callback_that_raises_comes_after_the_gradients_and_before_other_callbacks(threads: int) -> None:
    x = ferro.ones(4, dtype=ferro.float64, requires_grad=True)
    y, called = x.sin(), []

    def hook(g: Any) -> None:
        for callback in (lambda: called.append(1), raising(lambda: ValueError("callback")), lambda: called.append(2)):
            queue_callback(callback)

    y.register_hook(hook)
    caught(ValueError, lambda: ferro.autograd.backward((y * x.cos()).sum(), num_threads=threads))
    assert x.grad is not None
    assert called == [1]
    works(threads)
    assert called == [1]


@pytest.mark.parametrize("threads", THREADS)
def test_callbacks_of_a_backward_that_fails_never_run(threads: int) -> None:
    x = ferro.ones(4, dtype=ferro.float64, requires_grad=True)
    y, called = x.sin(), []
    y.register_hook(lambda g: queue_callback(lambda: called.append(1)))
    x.register_hook(raising(lambda: ValueError("leaf")))
    caught(ValueError, lambda: ferro.autograd.backward((y * x.cos()).sum(), num_threads=threads))
    works(threads)
    assert called == []


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, FloatingPointError])
def test_what_a_kernel_raises_reaches_the_caller(kind: type, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, dying = branches(lambda y: y.cos())

    def broken(*args: Any) -> Any:
        raise kind("kernel")

    with monkeypatch.context() as patch:
        for forms in ("formulas", "small"):
            patch.setattr(OPS["cos"].plan(1), forms, (broken,))
        notes = caught(kind, lambda: ferro.autograd.backward(loss, num_threads=threads))
    if issubclass(kind, Exception):
        assert any("'cos'" in note and "[64]" in note for note in notes)
    loss = None
    assert not [r for r in dying if r() is not None]


@pytest.mark.parametrize("kind", [ValueError, MemoryError, KeyboardInterrupt])
def test_an_error_on_a_worker_stops_all_threads(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    main, raised, plan = threading.get_ident(), threading.Event(), OPS["cos"].plan(1)
    right = plan.formulas[0]
    loss, dying = branches(lambda y: y.cos(), width=2)
    leaf = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
    more = [(leaf * float(i)).cos() for i in range(8)]

    def slope(xp: Any, g: Any, node: Any) -> Any:
        if threading.get_ident() == main:
            assert raised.wait(timeout=20)  # the calling thread is busy while a worker fails
            return right(xp, g, node)
        raised.set()
        raise kind("on a worker")

    with monkeypatch.context() as patch:
        for forms in ("formulas", "small"):
            patch.setattr(plan, forms, (slope,))
        caught(kind, lambda: ferro.autograd.backward([loss, *[m.sum() for m in more]], num_threads=4))
    assert raised.is_set()
    loss = None
    more.clear()
    assert not [r for r in dying if r() is not None]


@pytest.mark.parametrize("threads", THREADS)
def test_after_an_error_a_kept_graph_runs_again(threads: int) -> None:
    fail = [True]

    def hook(g: Any) -> None:
        if fail[0]:
            raise ValueError("once")

    x = ferro.ones(8, dtype=ferro.float64, requires_grad=True)
    y = x.sin()
    y.register_hook(hook)
    loss = (y * y).sum()
    caught(ValueError, lambda: ferro.autograd.backward(loss, retain_graph=True, num_threads=threads))
    assert x.grad is None
    fail[0] = False
    ferro.autograd.backward(loss, num_threads=threads)
    np.testing.assert_allclose(x.grad.numpy(), np.sin(2.0) * np.ones(8))


class Nested(ferro.autograd.Function):
    """Multiplies by two, by way of a backward inside its backward, `depth` levels deep; at the bottom `bottom` is called."""

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int, bottom: Callable, threads: int) -> Any:
        ctx.depth, ctx.bottom, ctx.threads = depth, bottom, threads
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.depth == 0:
            ctx.bottom()
            return g * 2, None, None, None
        with ferro.enable_grad():
            inner = g.detach().requires_grad_()
            outer = (
                Nested.apply(inner, ctx.depth - 1, ctx.bottom, ctx.threads)
                + Nested.apply(inner, 0, lambda: None, 1) * 0
            )
        ferro.autograd.backward(outer, g, num_threads=ctx.threads)
        return inner.grad, None, None, None


@pytest.mark.parametrize("threads", THREADS)
def test_a_hundred_nested_backward_calls(threads: int) -> None:
    x = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    seen = []
    loss = Nested.apply(x, 100, lambda: seen.append(None), threads) + x * 0
    ferro.autograd.backward(loss.sum(), num_threads=threads)
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert len(seen) == 1


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_below_a_hundred_nested_backward_calls(kind: type, threads: int) -> None:
    def bottom() -> None:
        raise kind("at the bottom")

    x = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    loss = Nested.apply(x, 100, bottom, threads) + x * 0
    caught(kind, lambda: ferro.autograd.backward(loss.sum(), num_threads=threads))
    assert x.grad is None or np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("threads", THREADS)
def test_nested_backward_calls_without_end_are_a_recursion_error(threads: int) -> None:
    x = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    loss = Nested.apply(x, 10**6, lambda: None, threads) + x * 0
    caught(RecursionError, lambda: ferro.autograd.backward(loss.sum(), num_threads=threads))


def test_a_hook_that_calls_itself_without_end_is_a_recursion_error() -> None:
    def hook(g: Any) -> Any:
        return hook(g)

    x = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    y = x.sin()
    y.register_hook(hook)
    caught(RecursionError, y.sum().backward)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("threads", THREADS)
def test_ctrl_c_at_any_moment_leaves_the_engine_whole(threads: int, rng: np.random.Generator) -> None:
    x = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: None)
    struck = 0
    for delay in rng.uniform(0, 0.002, 150):
        y = x.sin()
        y.register_hook(lambda g: g * 1)
        loss = (y * x.exp() + checkpoint(lambda x: x.cos().exp(), x, use_reentrant=False)).sum()
        timer = threading.Timer(delay, _thread.interrupt_main)
        try:
            timer.start()
            ferro.autograd.backward(loss, num_threads=threads)
            timer.join()
            threading.Event().wait(0)
        except KeyboardInterrupt:
            struck += 1
        timer.join()
        assert ferro.is_grad_enabled()
        assert STATE.run is None
    assert struck > 100
