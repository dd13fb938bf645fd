"""The engine adds into, and gives away, only what nobody else holds: whoever still holds an array finds it as it was.

Each holder keeps a gradient alive in one way (a list, a frame that waits, a thread), and a copy of its numbers at that
time; backward then goes on, adds to it and to `.grad`, more than once.  NumPy's copy is the reference.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import accumulate, accumulate_grad, inplace, owners
from ferro.cpu.thresholds import ADD_IN_PLACE_LEAST

pytestmark = pytest.mark.timeout(60)
SIZES = (3, 5000, 70_000)
sizes = pytest.mark.parametrize("size", SIZES)


class Watch:
    """What somebody still holds: how to get it, and what it was."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable, np.ndarray]] = []

    def add(self, get: Callable, tensor: Any) -> None:
        self.held.append((get, tensor.detach().numpy().copy()))

    def check(self) -> None:
        assert self.held
        for get, was in self.held:
            found = get()
            np.testing.assert_array_equal(found.detach().numpy() if isinstance(found, ferro.Tensor) else found, was)


def in_list(watch: Watch, g: Any) -> None:
    kept = [g]
    watch.add(lambda: kept[0], g)


def in_list_as_array(watch: Watch, g: Any) -> None:
    kept = [g.numpy()]
    watch.add(lambda: kept[0], g)


def as_view(watch: Watch, g: Any) -> None:
    kept = g[:]
    watch.add(lambda: kept, g)


def in_generator(watch: Watch, g: Any) -> None:
    def wait(array: Any) -> Iterator[Any]:
        yield
        while True:
            yield array

    frame = wait(g.detach().numpy())
    next(frame)
    watch.add(lambda: next(frame), g)


def in_generator_with_the_inner_array(watch: Watch, g: Any) -> None:
    def wait(array: Any) -> Iterator[Any]:
        while True:
            yield array

    frame = wait(g._data)
    watch.add(lambda: next(frame), g)


def in_traceback(watch: Watch, g: Any) -> None:
    def fail(array: Any) -> None:
        raise ValueError

    try:
        fail(g._data)
    except ValueError as e:
        frame = e.__traceback__.tb_next.tb_frame
    watch.add(lambda: frame.f_locals["array"], g)


def in_another_thread(watch: Watch, g: Any) -> None:
    ready, ask, said = threading.Event(), threading.Event(), []

    def wait(array: Any) -> None:
        ready.set()
        ask.wait(50)
        said.append(array.copy())

    thread = threading.Thread(target=wait, args=(g._data,), daemon=True)
    thread.start()
    ready.wait(50)

    def get() -> Any:
        ask.set()
        thread.join(50)
        return said[0]

    watch.add(get, g)


def in_closure(watch: Watch, g: Any) -> None:
    array = g._data
    watch.add(lambda: array, g)


def in_default(watch: Watch, g: Any) -> None:
    def get(array: Any = g._data) -> Any:
        return array

    watch.add(get, g)


HOLDERS = [
    in_list,
    in_list_as_array,
    as_view,
    in_generator,
    in_generator_with_the_inner_array,
    in_traceback,
    in_another_thread,
    in_closure,
    in_default,
]
holders = pytest.mark.parametrize("hold", HOLDERS)


class Returns(ferro.autograd.Function):
    """Returns from backward, for both inputs, one tensor that it also hands to a holder."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, hold: Callable) -> Any:
        ctx.hold = hold
        return x + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        kept = g * 3
        ctx.hold(kept)
        return kept, kept, None


@holders
@sizes
def test_what_a_hook_of_an_inner_tensor_keeps(hold: Callable, size: int) -> None:
    watch = Watch()
    x = ferro.ones(size, requires_grad=True)
    for _ in range(2):
        y = x * 2
        y.register_hook(lambda g: hold(watch, g))
        (y + y * 3 + y.sin() + x).sum().backward()
        watch.check()
    watch.held[:] = watch.held[:1] if hold is in_another_thread else watch.held
    watch.check()


@holders
@sizes
def test_what_a_hook_of_a_leaf_keeps(hold: Callable, size: int) -> None:
    watch = Watch()
    x = ferro.ones(size, requires_grad=True)
    handle = x.register_hook(lambda g: hold(watch, g))
    (x.sin() * x).sum().backward()
    handle.remove()
    for _ in range(2):
        (x.sin() * x).sum().backward()
    watch.check()


@holders
@sizes
def test_what_a_node_hook_keeps(hold: Callable, size: int) -> None:
    watch = Watch()
    x = ferro.ones(size, requires_grad=True)
    y = x * 2
    z = y * y
    z.grad_fn.register_hook(lambda inputs, outputs: hold(watch, inputs[0]))
    z.grad_fn.register_prehook(lambda outputs: hold(watch, outputs[0]))
    (z + y).sum().backward()
    (x * x).sum().backward()
    watch.check()


@holders
@sizes
def test_what_a_custom_function_keeps_of_what_it_returns(hold: Callable, size: int) -> None:
    watch = Watch()
    x, y = (ferro.ones(size, requires_grad=True) for _ in range(2))
    for a, b in ((x, y), (x, x)):
        (Returns.apply(a, b, lambda g: hold(watch, g)) + a * 2).sum().backward()
    (x * y).sum().backward()
    watch.check()
    assert x.grad is not None
    assert y.grad is not None
    assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())


@sizes
@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_that_are_returned_retained_or_given_share_nothing(size: int, threads: int) -> None:
    x = ferro.ones(size, requires_grad=True)
    y = x * 2
    y.retain_grad()
    given = ferro.ones(size)
    z = y * y + y
    ferro.autograd.backward([z, y], [given, given], retain_graph=True, num_threads=threads)
    found = ferro.autograd.grad([z, y], [x, y, z], [given, given], num_threads=threads)
    arrays = [given.numpy(), x.grad.numpy(), y.grad.numpy(), *[f.numpy() for f in found]]
    want = [1, 12, 12, 12, 6, 1]  # (that of y is retained twice)
    for value, array in zip(want, arrays, strict=True):
        assert (array == value).all()
    for i, a in enumerate(arrays):
        for b in arrays[:i]:
            assert not np.shares_memory(a, b)
    (x * 5).sum().backward()
    assert (given.numpy() == 1).all()
    assert (found[0].numpy() == 12).all()


@holders
@sizes
def test_what_is_held_of_grad_itself_is_added_into_as_in_pytorch(hold: Callable, size: int) -> None:
    """`.grad` is one tensor for as long as it is not replaced, whoever holds it."""
    x = ferro.ones(size, requires_grad=True)
    (x * 2).sum().backward()
    grad = x.grad
    (x * 2).sum().backward()
    assert x.grad is grad
    assert (grad.numpy() == 4).all()


def test_counts_tell_sole_from_shared_in_this_python() -> None:
    assert owners.SOLE > 0, f"counts do not tell them apart in {sys.version}: everything is copied"
    assert owners.SOLE_HERE > 0


@sizes
def test_sole_and_shared_arrays_on_the_ways_of_the_engine(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sole = np.ones(size, np.float32)
    at = sole.ctypes.data
    assert accumulate.own(sole).ctypes.data == at
    for hold in (lambda a: [a], lambda a: a[:], lambda a: {"a": a}, lambda a: iter((a,))):
        holder = hold(sole)
        assert accumulate.own(sole).ctypes.data != at, holder
        del holder
    g = np.ones(size, np.float32)
    before, kept = np.ones(size, np.float32), []
    kept.append(before)
    accumulate.add(before, g)
    assert (kept[0] == 1).all()
    seen: list = []
    monkeypatch.setattr(accumulate_grad, "accumulate", lambda leaf, gx, record, owned, place: seen.append(owned))
    x = ferro.ones(size, requires_grad=True)
    x.sin().sum().backward()
    (x.sin() + x).sum().backward(ferro.ones(()))
    x.backward(ferro.ones(size))
    assert seen[0] is True
    assert seen[-1] is False


def test_large_gradients_are_added_in_place_where_the_engine_alone_holds_them() -> None:
    found: list = []

    def made() -> Any:
        array = np.ones(ADD_IN_PLACE_LEAST)
        found.append(array.ctypes.data)
        return array

    before, g = made(), np.ones(ADD_IN_PLACE_LEAST)
    assert accumulate.add(before, g).ctypes.data == found[0]
    if owners.SOLE:
        assert before[0] == 2


def test_where_counts_tell_nothing_everything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "SOLE", 0)
    monkeypatch.setattr(owners, "SOLE_HERE", 0)
    array = np.ones(5000)
    assert accumulate.own(array) is not array
    x = ferro.ones(5000, requires_grad=True)
    y = x * 2
    y.mul_(3)
    (y.sin() + y).sum().backward()
    want = 6 * (np.cos(6.0) + 1)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-5)
    assert inplace.is_shared(array)


@sizes
def test_what_an_operation_in_place_saves_is_kept(size: int) -> None:
    x = ferro.full((size,), 2.0, requires_grad=True)
    y = x * 1
    y.mul_(y.detach().clone()).pow_(2)
    y.exp_().mul_(2)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(16.0) * 2 * 4.0 * 2, rtol=1e-4)
