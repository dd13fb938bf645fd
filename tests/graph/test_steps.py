"""Whole steps of training, captured at the first one: replays leave eager's losses, weights, gradients, state and generator, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, Workload, digits_cnn, initial_state, random_batch
from ferro.core import engine
from ferro.core.node import next_sequence
from ferro.graph import capture
from ferro.graph.compare import same_bits
from tests.graph.test_training import STEPS


def dropping(lib: Any) -> Any:
    """The digits network with its dropout, and noise."""
    layers = list(digits_cnn(lib))
    return lib.nn.Sequential(*layers[:-1], lib.nn.Dropout(0.3), layers[-1], lib.nn.Dropout(0.1))


RANDOM = Workload(
    dropping,
    lambda: random_batch((16, 1, 8, 8), (16,)),
    WORKLOADS["digits CNN, batch norm, Adam"].optimizer,
    lambda lib, model, x, y: lib.nn.functional.cross_entropy(model(x + 0.1 * lib.randn_like(x)), y),
)
ALL = {**WORKLOADS, "digits CNN, dropout and noise, Adam": RANDOM}


def state_of(trainer: Trainer) -> list:
    """All that the steps of a trainer change."""
    parameters = list(trainer.model.parameters())
    state = [v for p in parameters for v in trainer.optimizer.state[p].values() if isinstance(v, ferro.Tensor)]
    found = [*trainer.model.state_dict().values(), *[p.grad for p in parameters], *state]
    return [(t._data, t._version) for t in found if t is not None]


def assert_steps_agree(name: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = replace(ALL[name])
    state = initial_state(workload, ferro)
    eager, mine = Trainer(workload, ferro, state), Trainer(workload, ferro, state)
    batches = workload.batches()
    ferro.manual_seed(5)
    want = [eager.step(*eager.load(next(batches))).detach() for _ in range(steps)]
    after = ferro.get_rng_state()
    batches = workload.batches()
    ferro.manual_seed(5)
    graph = capture(mine.step, *mine.load(next(batches)))
    monkeypatch.setattr(engine, "execute", None)  # no backward of eager's runs from here on, and nothing is recorded
    recorded = next_sequence()
    for step in range(1, steps):
        (loss,) = graph.interpret(*mine.load(next(batches)))
        assert same_bits(loss._data, want[step]._data), f"step {step}"
    assert next_sequence() == recorded + 1
    assert ferro.equal(ferro.get_rng_state(), after)
    for (a, version), (b, its) in zip(state_of(mine), state_of(eager), strict=True):
        assert same_bits(a, b)
        assert version == its


@pytest.mark.parametrize("name", ALL)
def test_steps_are_replayed_with_eagers_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_steps_agree(name, STEPS.get(name, 3), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_fifty_steps_are_replayed_with_eagers_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_steps_agree(name, 50, monkeypatch)
