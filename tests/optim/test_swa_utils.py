"""Averages of models, statistics of batch normalisation and SWALR against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.optim import swa_utils
from tests.nn.parity import assert_same, to_ferro, torch


def models() -> tuple[Any, Any]:
    """The same small network with buffers in both libraries."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double()
    ours = ferro.nn.Sequential(ferro.nn.Linear(3, 4), ferro.nn.BatchNorm1d(4), ferro.nn.Linear(4, 1)).double()
    ours.load_state_dict(to_ferro(theirs.state_dict()))
    return ours, theirs


AVERAGES: dict[str, Any] = {
    "swa": lambda m: {},
    "swa_fn": lambda m: {"avg_fn": m.get_swa_avg_fn()},
    "swa_multi": lambda m: {"multi_avg_fn": m.get_swa_multi_avg_fn()},
    "ema": lambda m: {"avg_fn": m.get_ema_avg_fn(0.7)},
    "ema_multi": lambda m: {"multi_avg_fn": m.get_ema_multi_avg_fn(0.7)},
    "ema_buffers": lambda m: {"multi_avg_fn": m.get_ema_multi_avg_fn(0.7), "use_buffers": True},
    "own": lambda m: {"avg_fn": lambda mean, param, n: 0.5 * mean + 0.25 * param * n},
}


@pytest.mark.parametrize("kind", AVERAGES)
def test_averages(kind: str, rng: np.random.Generator) -> None:
    pairs = []
    for lib, model in zip((ferro, torch), models(), strict=True):
        averaged = lib.optim.swa_utils.AveragedModel(model, **AVERAGES[kind](lib.optim.swa_utils))
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        pairs.append((lib, model, averaged, optimizer))
    for x in rng.standard_normal((4, 8, 3)):
        for lib, model, averaged, optimizer in pairs:
            optimizer.zero_grad()
            (model(lib.tensor(x)) ** 2).mean().backward()
            optimizer.step()
            averaged.update_parameters(model)
    ours, theirs = pairs[0][2].state_dict(), pairs[1][2].state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        # torch's lists have weights in float32.
        assert_same(ours[key], value, key, rtol=1e-6 if kind == "swa_multi" else 1e-10)


def test_statistics_of_batch_normalisation(rng: np.random.Generator) -> None:
    batches = rng.standard_normal((3, 8, 3))
    ours, theirs = models()
    for lib, model in ((ferro, ours), (torch, theirs)):
        model.eval()
        lib.optim.swa_utils.update_bn([(lib.tensor(b), None) for b in batches], model)
        assert not model.training
        assert model[1].momentum == 0.1
    for key, value in theirs.state_dict().items():
        assert_same(ours.state_dict()[key], value, key)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_rates(strategy: str, epochs: int) -> None:
    found = []
    for lib in (ferro, torch):
        groups = [{"params": [lib.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.5, 0.1)]
        optimizer = lib.optim.SGD(groups)
        decay = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        last = lib.optim.swa_utils.SWALR(optimizer, [0.05, 0.02], epochs, strategy)
        rates = []
        for i in range(30):
            optimizer.step()
            (decay if i < 3 else last).step()
            rates.append([group["lr"] for group in optimizer.param_groups])
        found.append(rates)
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_wrong_arguments() -> None:
    optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear', instead got line"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="line")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa_utils.AveragedModel(ferro.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
