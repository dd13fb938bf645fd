"""The fault table: what goes wrong inside a backward reaches the user as it is, and leaves nothing behind.

| fault | the user sees | afterwards |
|---|---|---|
| exception in a formula, a hook, a custom backward | that exception, with a note that names the node | the engine works |
| KeyboardInterrupt, MemoryError in a formula or kernel | that exception | likewise |
| the same on a worker thread | the same, on the calling thread; the other threads stop | no thread beyond the pool |
| error at the bottom of a hundred nested backward calls | that exception | depth and modes as before |
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.core import engine, mode
from ferro.core.node import Node

pytestmark = pytest.mark.timeout(60)
THREADS = (1, 4)


@pytest.fixture(autouse=True)
def _eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda ready, node, g: True)


@pytest.fixture(autouse=True)
def _no_thread_and_no_object_left() -> Iterator[None]:
    """The threads after a test are those of the pool, and without the cycle collector no node or array stays alive."""
    works(4)  # the pool exists before
    before, depth = set(threading.enumerate()), engine._state.depth
    gc.collect()
    gc.disable()
    nodes = live_nodes()
    try:
        yield
        assert live_nodes() == nodes
    finally:
        gc.enable()
    assert set(threading.enumerate()) <= before
    assert (engine._state.depth, engine._state.run, mode.ACTIVE, mode.MODE.get()) == (depth, None, [], None)
    works(1)
    works(4)


def live_nodes() -> int:
    """How many nodes of the tape there are."""
    return sum(issubclass(type(o), Node) for o in gc.get_objects())


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


def caught(kind: type, call: Callable) -> list[str]:
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


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", [in_formula, in_hook, in_node_hook])
def test_what_user_code_raises_reaches_the_caller(where: Callable, kind: type, threads: int) -> None:
    loss, dying = branches(where(lambda: kind("fault")))
    notes = caught(kind, lambda: ferro.autograd.backward(loss, num_threads=threads))
    if issubclass(kind, Exception):
        assert any("raised while running backward of" in note for note in notes)
    works(threads)
    loss = None
    assert not [r for r in dying if r() is not None]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, FloatingPointError])
def test_what_a_kernel_raises_reaches_the_caller(kind: type, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, dying = branches(lambda y: y.cos())

    def broken(*args: Any) -> Any:
        raise kind("kernel")

    with monkeypatch.context() as patch:
        patch.setattr(cpu, "sin", broken)  # the derivative of cos
        notes = caught(kind, lambda: ferro.autograd.backward(loss, num_threads=threads))
    if issubclass(kind, Exception):
        assert any("'cos'" in note and "[64]" in note for note in notes)
    loss = None
    assert not [r for r in dying if r() is not None]


@pytest.mark.parametrize("kind", [ValueError, MemoryError, KeyboardInterrupt])
def test_an_error_on_a_worker_stops_all_threads(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    main, raised, right = threading.get_ident(), threading.Event(), cpu.sin
    loss, dying = branches(lambda y: y.cos(), width=2)
    leaf = ferro.ones(64, dtype=ferro.float64, requires_grad=True)
    more = [(leaf * float(i)).cos() for i in range(8)]

    def sin(a: Any) -> Any:
        if threading.get_ident() == main:
            assert raised.wait(timeout=20)  # the calling thread is busy while a worker fails
            return right(a)
        raised.set()
        raise kind("on a worker")

    with monkeypatch.context() as patch:
        patch.setattr(cpu, "sin", sin)  # the derivative of cos
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
    loss = Nested.apply(x, 100, lambda: seen.append(engine._state.depth), threads) + x * 0
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
