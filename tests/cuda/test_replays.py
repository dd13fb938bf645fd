"""Compiled functions of tensors on the device: replayed as CUDA graphs where that is asked for, as they are written elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.nn import functional as F

pytestmark = pytest.mark.usefixtures("cuda")


def graphs(function: Any) -> Any:
    """The function by CUDA graphs."""
    return ferro.compile(function, mode="reduce-overhead")


def test_a_replay_is_one_launch_each_way_and_right_for_new_numbers(launched: list) -> None:
    ferro.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to("cuda")
    compiled = graphs(model)
    rng = np.random.default_rng(1)
    for number in range(6):
        x = ferro.tensor(rng.standard_normal((5, 6)).astype(np.float32), device="cuda", requires_grad=True)
        launched.clear()
        LAUNCHES.clear()
        out = compiled(x)
        assert len(launched) == (1 if number > 1 else 0)
        if number > 2:
            assert not LAUNCHES  # (no kernel is launched by Python)
        result = out.detach().clone()
        (out * out).sum().backward()
        assert len(launched) == (2 if number > 1 else 0)
        found = [result, x.grad.clone(), *[p.grad.clone() for p in model.parameters()]]
        for p in model.parameters():
            p.grad = None
        y = x.detach().clone().requires_grad_()
        again = model(y)
        (again * again).sum().backward()
        want = [again.detach(), y.grad, *[p.grad for p in model.parameters()]]
        for got, right in zip(found, want, strict=True):
            np.testing.assert_allclose(got.cpu().numpy(), right.cpu().numpy(), rtol=1e-6, atol=1e-6)
        for p in model.parameters():
            p.grad = None
            p.data.add_(0.01)  # in place: the recording sees it


def test_functions_with_closures_nests_and_numbers_are_recorded_by_signature(launched: list) -> None:
    weight = ferro.ones(4, device="cuda", requires_grad=True)
    calls = []

    def function(pair: dict, factor: float, *, shift: bool = False) -> dict:
        calls.append(1)
        return {"sum": (pair["x"] * weight * factor).sum(), "moved": [pair["x"] + 1 if shift else pair["x"], factor]}

    compiled = ferro.compile(function, backend="cudagraphs")
    for number in range(4):
        for factor in (2.0, 3.0):
            x = ferro.full((4,), float(number), device="cuda")
            found = compiled({"x": x}, factor, shift=True)
            assert found["sum"].item() == 4 * number * factor
            assert found["moved"][0].tolist() == [number + 1.0] * 4
            assert found["moved"][1] == factor
            (gradient,) = ferro.autograd.grad(found["sum"], weight)
            assert gradient.tolist() == [number * factor] * 4
    assert len(calls) == 6  # twice as written, once recorded, for both factors
    assert len(launched) == 2 * 2 * 2
    weight.data = ferro.full((4,), 5.0, device="cuda")  # another array
    assert compiled({"x": ferro.ones(4, device="cuda")}, 2.0, shift=True)["sum"].item() == 40
    assert len(calls) == 7


def test_states_of_training_and_random_numbers(launched: list) -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).to("cuda")
    compiled = graphs(model)
    x = ferro.arange(12.0).reshape(4, 3).to("cuda")
    with ferro.no_grad():
        seen = [compiled(x).clone() for _ in range(6)]
        assert not ferro.equal(seen[4], seen[5])
        assert int(model[0].num_batches_tracked) == 7  # (the stand-in does what it records, a GPU would not)
        model.eval()
        quiet = [compiled(x).clone() for _ in range(4)]
        np.testing.assert_allclose(quiet[3].cpu().numpy(), model(x).cpu().numpy(), rtol=1e-6)
    assert len(launched) == 4 + 2


def test_what_cannot_be_recorded_runs_as_it_is_written_with_a_warning(launched: list) -> None:
    def asks(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    def writes(x: Any) -> Any:
        return x.add_(1)

    for function, want in ((asks, 2.0), (writes, 2.0)):
        compiled = graphs(function)
        for number in range(5):
            x = ferro.ones(3, device="cuda")
            if number == 2:
                with pytest.warns(
                    UserWarning, match=f"{function.__name__} runs as it is written, and not as a CUDA graph"
                ):
                    found = compiled(x)
            else:
                found = compiled(x)
            assert found.tolist() == [want] * 3
    assert not launched


def test_without_being_asked_for_the_function_runs_as_it_is_written(launched: list) -> None:
    weight = ferro.ones(2, device="cuda")

    @ferro.compile
    def function(x: Any) -> Any:
        return F.gelu(x) + weight

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(4):
            x = ferro.full((2,), float(number), device="cuda")
            np.testing.assert_allclose(function(x).cpu().numpy(), (F.gelu(x.cpu()) + 1).numpy(), rtol=1e-6)
    assert not launched
    assert function.explain().replays == 0
    assert any("reduce-overhead" in line for line in function.explain().fallbacks)
