"""Backward of a graph that lies on the device and on the processor: a thread for each, the same bits, errors in the caller."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import backend, device_threads
from ferro.core.op import LINEAR, Op

pytestmark = pytest.mark.usefixtures("cuda")
FOUND: dict[str, Any] = {}


def _seen(xp: Any, g: Any) -> Any:
    """Tells who runs this, and calls what the test has said."""
    where = "there" if device_threads.lies_there(g) else "here"
    FOUND.setdefault(f"threads {where}", set()).add(threading.get_ident())
    FOUND.get(where, lambda: None)()
    return g


SEEN = Op("seen", lambda xp, x: xp.copy(x), kind=LINEAR, x=_seen)
SEEN.short = False


def seen(x: Any) -> Any:
    """The tensor, whose gradient tells who computes it."""
    return backend.apply(SEEN, (x,))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    FOUND.clear()
    yield
    FOUND.clear()


def loss(w: Any, here_last: bool = True) -> Any:
    """Two branches from one leaf on the processor, where one of them is heavy."""

    def here() -> Any:
        return (seen(ferro.tanh(ferro.matmul(seen(w), w.T))) * 0.5).sum()

    def there() -> Any:
        far = w.to("cuda")
        return seen(ferro.tanh(seen(far) * 3) + far).square().sum().cpu()

    first, second = (there, here) if here_last else (here, there)
    return first() + second() + (w * 0.25).sum()


def leaf() -> Any:
    return ferro.tensor(np.random.default_rng(0).standard_normal((600, 600)), requires_grad=True)


@pytest.mark.parametrize("here_last", [True, False])
def test_each_device_has_a_thread_and_the_bits_are_those_of_one(here_last: bool) -> None:
    bits = set()
    for several in (True, False, True):
        w = leaf()
        FOUND.clear()
        with ferro.autograd.set_multithreading_enabled(several):
            loss(w, here_last).backward()
        assert w.grad is not None
        bits.add(w.grad.numpy().tobytes())
        me = {threading.get_ident()}
        assert FOUND["threads here"] == me
        assert (FOUND["threads there"] == me) is not several
        assert len(FOUND["threads there"]) == 1
    assert len(bits) == 1


@pytest.mark.parametrize("here_last", [True, False])
def test_neither_thread_waits_for_the_other(here_last: bool) -> None:
    """Each formula ends only when one of the other device has begun."""
    begun = {"here": threading.Event(), "there": threading.Event()}

    def meet(mine: str, other: str) -> Any:
        def run() -> None:
            begun[mine].set()
            assert begun[other].wait(60), f"{other} has not begun"

        return run

    FOUND["here"], FOUND["there"] = meet("here", "there"), meet("there", "here")
    w = leaf()
    loss(w, here_last).backward()
    assert w.grad is not None


@pytest.mark.parametrize("where", ["here", "there"])
def test_an_error_is_raised_by_the_caller_with_operation_and_line(where: str) -> None:
    def fail() -> None:
        raise ArithmeticError("no")

    FOUND[where] = fail
    total = loss(leaf())
    with pytest.raises(ArithmeticError, match="no") as error:
        total.backward()
    assert any("raised while running backward of 'seen'" in note for note in error.value.__notes__)
    assert any("test_device_threads.py" in note for note in error.value.__notes__) or where == "here"
    assert not [t for t in threading.enumerate() if t.name == "backward on a device"]
    FOUND.clear()
    w = leaf()
    loss(w).backward()  # (and the next one is as ever)
    assert w.grad is not None


def test_gradients_that_are_asked_for_and_hooks() -> None:
    def found(several: bool) -> list:
        w, told = leaf(), []
        far = w.to("cuda")
        y = seen(ferro.tanh(far)).sum().cpu() + seen(ferro.matmul(w, w)).sum()
        far.register_hook(lambda g: told.append(g.sum().item()))
        with ferro.autograd.set_multithreading_enabled(several):
            grads = ferro.autograd.grad(y, [w, far])
        return [*[g.cpu().numpy().tobytes() for g in grads], told]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(True) == found(False)


def test_a_graph_on_the_device_alone_and_a_light_one_stay_in_one_thread() -> None:
    for size in (600, 3):
        w = ferro.ones(size, size, requires_grad=True)
        far = w.detach().to("cuda").requires_grad_()
        FOUND.clear()
        total = seen(far).tanh().sum() + seen(far).exp().sum()
        (total if size == 600 else total.cpu() + seen(w).sum()).backward()
        assert FOUND["threads there"] == {threading.get_ident()}
