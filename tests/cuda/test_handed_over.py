"""Gradients that become `.grad` without a copy: where nobody else has their memory, and no stream was chosen."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.cuda import layouts
from ferro.cuda.functions import functions
from tests.cuda import hand

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list:
    """What is copied; the streams of other tests are forgotten."""
    found: list = []
    plain = functions.copy

    def copy(x: Any) -> Any:
        found.append(x.shape)
        return plain(x)

    monkeypatch.setattr(functions, "copy", copy, raising=False)
    monkeypatch.setattr("ferro.cuda.layouts.STANDING", [])
    return found


def leaf(*values: float) -> Any:
    return ferro.tensor(values, device="cuda", requires_grad=True)


def test_what_formulas_make_is_handed_over(copies: list) -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * y).sum().backward()
    assert copies == []
    (x * y).sum().backward()  # (added in place)
    assert (x.grad.tolist(), y.grad.tolist()) == ([6, 8], [2, 4])
    assert copies == []


def test_a_gradient_of_two_leaves_is_copied_once(copies: list) -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    ((x + y) * 2).sum().backward()
    assert len(copies) >= 1
    x.grad.add_(10)
    assert y.grad.tolist() == [2, 2]


class _Gives(ferro.autograd.Function):
    """Its gradient is an array that somebody keeps."""

    @staticmethod
    def forward(ctx: Any, x: Any, kept: Any) -> Any:
        ctx.kept = kept
        return x.sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.kept(), None


def test_what_somebody_keeps_is_copied(copies: list) -> None:
    kept = ferro.zeros(8, device="cuda")
    for give in (lambda: kept[:2], lambda: kept.as_strided((2,), (1,)), lambda: kept.as_strided((2,), (1,), 3)):
        x = leaf(1.0, 2.0)
        _Gives.apply(x, give).backward()
        x.grad.add_(5)
        assert kept.tolist() == [0] * 8
    x, pair = leaf(1.0, 2.0), ferro.zeros(2, device="cuda")
    _Gives.apply(x, lambda: pair).backward()
    x.grad.add_(5)
    assert pair.tolist() == [0, 0]


def test_a_gradient_that_was_asked_for_is_the_callers(copies: list) -> None:
    x, seen = leaf(1.0, 2.0), []
    x.register_hook(seen.append)
    (x * x).sum().backward()
    x.grad.add_(5)
    assert seen[0].tolist() == [2, 4]


def test_once_a_stream_was_chosen_gradients_are_copied(copies: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferro.cuda.layouts.STANDING", [object()])
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert copies == [(2,)]


def test_an_array_knows_whether_others_lie_in_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferro.cuda.layouts.STANDING", [])
    x = hand.there(hand.np.zeros(6))
    assert layouts.is_unshared(x)
    for make in (lambda: layouts.strided(x, (2,), (8,), 16), lambda: x[1:], lambda: x.reshape(2, 3)):
        other = make()
        assert not layouts.is_unshared(x) or other.base is x  # (who holds the array is counted by who asks)
        del other
        assert layouts.is_unshared(x)
