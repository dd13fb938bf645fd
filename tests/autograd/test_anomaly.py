"""Anomaly mode: what it warns of and raises, nested, switched by call, in threads, under double backward."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ferro
from tests.autograd.both import both, leaf


@pytest.fixture(autouse=True)
def _switched_off() -> Iterator[None]:
    yield
    assert not ferro.is_anomaly_enabled()


def broken(T: Any) -> Any:
    """A Function whose backward raises."""

    class Broken(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise RuntimeError("broken backward")

    return Broken


def outcome(call: Callable[[], Any]) -> tuple[str, list[str]]:
    """The error of a call ("" for none) and the warnings before it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            message = ""
        except RuntimeError as e:
            message = str(e)
    return message, [str(w.message) for w in caught if "Anomaly Detection has been enabled" not in str(w.message)]


def watching(T: Any, check_nan: bool = True) -> Any:
    """detect_anomaly without PyTorch's warning that it is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return T.autograd.detect_anomaly(check_nan=check_nan)


def nan_loss(T: Any, x: Any) -> Any:
    return (x.sqrt() * 0).sum()


@both
def test_a_nan_is_found_and_its_forward_shown(T: Any) -> Any:
    with watching(T):
        x = leaf(T, 0.0, 1.0)
        message, warned = outcome(nan_loss(T, x).backward)
    assert "nan_loss" in warned[0]  # the line of the forward call
    return (
        "returned nan values in its 0th output" in message,
        "SqrtBackward0" in message,
        len(warned),
        "Error detected in SqrtBackward0. Traceback of forward call that caused the error:" in warned[0],
        x.grad,
    )


def test_the_message_says_which_element() -> None:
    with ferro.autograd.detect_anomaly():
        x = leaf(ferro, 1.0, 4.0, 0.0)
        message, _ = outcome(nan_loss(ferro, x).backward)
    assert "first at index [2] of shape [3]" in message


@both
def test_without_forward_information(T: Any) -> Any:
    y = nan_loss(T, leaf(T, 0.0))
    with watching(T):
        message, warned = outcome(y.backward)
    return (
        "nan values" in message,
        len(warned),
        "Error detected in SqrtBackward0" in warned[0],
        "No forward pass information" in warned[0],
    )


def test_without_forward_information_the_line_is_known_all_the_same() -> None:
    y = nan_loss(ferro, leaf(ferro, 0.0))
    with ferro.autograd.detect_anomaly():
        _, warned = outcome(y.backward)
    assert "test_anomaly.py" in warned[0]
    assert "nan_loss" in warned[0]


@both
def test_check_nan_may_be_off_and_errors_are_explained_all_the_same(T: Any) -> Any:
    with watching(T, check_nan=False):
        x = leaf(T, 0.0, 1.0)
        fine = outcome(nan_loss(T, x).backward)
        message, warned = outcome(broken(T).apply(x).sum().backward)
    return (
        fine,
        str(x.grad.tolist()),
        message,
        len(warned),
        "BrokenBackward" in warned[0],
        "Traceback of forward call" in warned[0],
    )


@both
def test_infinities_are_no_anomaly_nor_is_a_nan_that_is_given(T: Any) -> Any:
    with watching(T):
        x = leaf(T, 0.0)
        first = outcome(x.sqrt().sum().backward)
        second = outcome(lambda: (leaf(T, 1.0) + 1).backward(T.tensor([float("nan")], dtype=T.float64)))
    return first, second[0] != "", str(x.grad.tolist())


@both
def test_the_state_nests_and_returns(T: Any) -> Any:
    seen: list = []

    def look() -> None:
        seen.append((T.is_anomaly_enabled(), T.is_anomaly_check_nan_enabled()))

    look()
    with watching(T, check_nan=False):
        look()
        with T.autograd.set_detect_anomaly(False):
            look()
        with watching(T):
            look()
        look()
    look()
    T.autograd.set_detect_anomaly(True)
    look()
    T.autograd.set_detect_anomaly(True, check_nan=False)
    look()
    T.set_anomaly_enabled(False)
    look()
    T.set_anomaly_enabled(True, False)
    look()
    T.autograd.set_detect_anomaly(mode=False)
    try:
        with watching(T):
            raise KeyError
    except KeyError:
        look()
    return seen


@both
def test_backward_is_watched_in_every_thread(T: Any) -> Any:
    seen: list = []
    loss = nan_loss(T, leaf(T, 0.0))

    def work() -> None:
        seen.append(T.is_anomaly_enabled())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loss.backward()
        except RuntimeError as e:
            seen.append("nan values" in str(e))

    with watching(T):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return seen


@both
def test_an_error_in_double_backward_shows_both_forward_calls(T: Any) -> Any:
    Broken = broken(T)

    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return Broken.apply(g * 2 * x)

    with watching(T):
        x = leaf(T, 1.0, 2.0)
        y = Square.apply(x)
        (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
        message, warned = outcome(g.sum().backward)
    return (
        message,
        len(warned),
        "Error detected in BrokenBackward" in warned[0],
        "Traceback of forward call that caused" in warned[0],
        "Previous calculation was induced by SquareBackward" in warned[1],
        "Traceback of forward call that induced the previous calculation" in warned[1],
        ["test_anomaly.py" in w for w in warned],
    )


@both
def test_a_nan_in_double_backward_names_the_operation_of_the_first(T: Any) -> Any:
    with watching(T):
        x = leaf(T, 0.0)
        (g,) = T.autograd.grad(x.pow(1.5).sum(), x, create_graph=True)
        message, warned = outcome((g * 0).sum().backward)
    return "nan values" in message, len(warned), "Previous calculation was induced by Pow" in warned[1]


def test_nothing_was_recorded_in_another_backward_without_a_parent() -> None:
    with ferro.autograd.detect_anomaly():
        x = leaf(ferro, 1.0)
        x.sin().backward()
        _, warned = outcome(nan_loss(ferro, leaf(ferro, 0.0)).backward)
    assert len(warned) == 1


@both
def test_custom_functions_are_named(T: Any) -> Any:
    class Nan(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("nan")

    with watching(T):
        message, warned = outcome(Nan.apply(leaf(T, 1.0)).sum().backward)
    return (
        "Function 'NanBackward' returned nan values in its 0th output" in message,
        "test_anomaly.py" in warned[0],
        len(warned),
    )


@both
def test_a_saved_value_that_was_overwritten(T: Any) -> Any:
    with watching(T):
        y = leaf(T, 1.0).exp()
        y.add_(1)
        message, warned = outcome(y.sum().backward)
    return "modified by an inplace operation" in message, len(warned), "Traceback of forward call" in warned[0]


@both
def test_complex_and_several_outputs(T: Any) -> Any:
    with watching(T):
        z = T.zeros(1, dtype=T.complex128, requires_grad=True)
        first = outcome((z.sqrt() * 0).sum().real.backward)[0]
        x = leaf(T, 1.0, 2.0)
        outcome(x.max(0).values.backward)
        T.unbind(x * 2)[0].backward()
    return "nan values" in first, x.grad


def test_a_hook_that_raises_leaves_the_mode_and_the_engine_as_they_were() -> None:
    def hook(g: Any) -> Any:
        raise ValueError("hook")

    x = leaf(ferro, 1.0)
    with ferro.autograd.detect_anomaly():
        y = x * 2
        handle = y.register_hook(hook)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match="hook"):
                y.backward(retain_graph=True)
        handle.remove()
        y.backward()
    assert x.grad.tolist() == [2.0]
