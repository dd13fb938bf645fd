"""ferro.futures is PyTorch's: what a Future gives and raises, alone, chained, collected, and between threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import ferro

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.(fork|wait)` is deprecated:DeprecationWarning")
THREADED = pytest.mark.timeout(60)


def done(torch: Any, value: Any) -> Any:
    future = torch.futures.Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


def chained(t: Any) -> Any:
    first = t.futures.Future()
    last = first.then(lambda f: f.wait() * 2).then(lambda f: f.value() + 1)
    before = last.done()
    first.set_result(4)
    return before, last.done(), last.wait()


def called_back(t: Any) -> Any:
    seen: list[Any] = []
    future = t.futures.Future()
    future.add_done_callback(lambda f: seen.append(("first", f.value())))
    future.add_done_callback(lambda f: seen.append(("second", f.value())))
    future.set_result(7)
    future.add_done_callback(lambda f: seen.append(("late", f.value())))
    return seen


CASES: dict[str, Callable[[Any], Any]] = {
    "value": lambda t: [
        done(t, 3).wait(),
        done(t, 3).value(),
        done(t, None).value(),
        done(t, 3).done(),
        t.futures.Future().done(),
    ],
    "chained": chained,
    "called back": called_back,
    "collected": lambda t: [f.value() for f in t.futures.collect_all([done(t, 1), done(t, 2)]).wait()],
    "none collected": lambda t: t.futures.collect_all([]).wait(),
    "all waited for": lambda t: t.futures.wait_all([done(t, 1), done(t, 2)]),
    "forked": lambda t: t.jit.wait(t.jit.fork(lambda x, y: x - y, 5, y=2)),
}
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "twice": (lambda t: done(t, 3).set_result(4), "Attempting to mark a completed Future as complete again"),
    "an exception after": (lambda t: done(t, 3).set_exception(KeyError(4)), "Attempting to mark a completed Future"),
    "no exception": (lambda t: t.futures.Future().set_exception(3), "3 is of type <class 'int'>, not an Exception."),
    "too early": (lambda t: t.futures.Future().value(), "completed()"),
    "wait": (lambda t: done(t, ValueError("bad")).wait(), "bad"),
    "value": (lambda t: done(t, ValueError("bad")).value(), "bad"),
    "then raises": (
        lambda t: done(t, 1).then(lambda f: 1 // 0).wait(),
        "Got the following error when running the callback: ZeroDivisionError",
    ),
    "then of an exception": (
        lambda t: done(t, ValueError("bad")).then(lambda f: f.wait()).wait(),
        "Got the following error when running the callback: ValueError: bad",
    ),
    "then of no function": (lambda t: done(t, 1).then(3), "then(): incompatible function arguments"),
    "collected": (lambda t: t.futures.collect_all([done(t, 1), done(t, ValueError("bad"))]).wait(), "bad"),
    "all waited for": (lambda t: t.futures.wait_all([done(t, 1), done(t, ValueError("bad"))]), "bad"),
    "no futures": (lambda t: t.futures.collect_all([3]), "incompatible function arguments"),
    "devices": (lambda t: t.futures.Future(devices=["cpu"]), "Expected devices to have indices, got cpu"),
    "forked": (lambda t: t.jit.fork(lambda: 1 // 0), "integer division or modulo by zero"),
    "waited for": (lambda t: t.jit.wait(3), "wait(): incompatible function arguments"),
}


@pytest.mark.parametrize("case", CASES)
def test_futures_give_what_pytorch_s_give(torch: Any, case: str) -> None:
    assert CASES[case](ferro) == CASES[case](torch)


@pytest.mark.parametrize("case", REFUSED)
def test_futures_raise_what_pytorch_s_raise(torch: Any, case: str) -> None:
    run, words = REFUSED[case]
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - its type is what is asked for
        run(torch)
    assert words in str(theirs.value)
    with pytest.raises(type(theirs.value)) as ours:
        run(ferro)
    assert words in str(ours.value)


def test_an_exception_in_a_callback_is_told_and_the_others_are_called() -> None:
    future, seen = ferro.futures.Future(), []
    future.add_done_callback(lambda f: seen.append(1 // 0))
    future.add_done_callback(lambda f: seen.append(f.value()))
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        future.set_result(3)
    assert seen == [3]


@THREADED
def test_other_threads_wait_for_a_result_and_all_get_it() -> None:
    futures = [ferro.futures.Future() for _ in range(20)]
    together, got = ferro.futures.collect_all(futures), []

    def wait() -> None:
        got.append([f.value() for f in together.wait()])

    threads = [threading.Thread(target=wait) for _ in range(4)]
    threads += [threading.Thread(target=f.set_result, args=(i,)) for i, f in enumerate(futures)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50)
    assert got == [list(range(20))] * 4
