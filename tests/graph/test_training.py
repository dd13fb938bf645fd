"""Training with graphs: the loss and its gradients replayed, eager's optimiser; losses and weights equal eager's to the last bit."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.core import engine
from ferro.graph import capture
from ferro.graph.compare import same_bits

STEPS = {name: 12 if name.startswith(("MLP", "PINN", "neural", "VAE")) else 3 for name in WORKLOADS}


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_by_replay_equals_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = WORKLOADS[name]
    state = initial_state(workload, ferro)
    eager, mine = Trainer(workload, ferro, state), Trainer(workload, ferro, state)
    batches = workload.batches()
    want = [eager.step(*eager.load(next(batches))).detach() for _ in range(STEPS[name])]

    def loss(x: Any, target: Any) -> Any:
        return mine.loss(ferro, mine.model, x, target)

    # what the capture runs, runs for real: statistics move
    buffers = [b.clone() for b in mine.model.buffers()]
    batches = workload.batches()
    graph = capture(loss, *mine.load(next(batches)))
    for b, before in zip(mine.model.buffers(), buffers, strict=True):
        b.copy_(before)
    parameters = list(mine.model.parameters())
    gradient = graph.differentiate(wrt=parameters)
    monkeypatch.setattr(engine, "execute", None)  # no backward of eager runs from here on
    batches, one = workload.batches(), ferro.tensor(1.0)
    for step in range(STEPS[name]):
        x, target = mine.load(next(batches))
        value, *found = gradient.joint.interpret(x, target, one)
        assert same_bits(value._data, want[step]._data), f"step {step}"
        for p, place in zip(parameters, gradient.gradients, strict=True):
            p.grad = None if place is None else found[place]
        mine.optimizer.step()
    for p, q in zip(mine.model.state_dict().values(), eager.model.state_dict().values(), strict=True):
        assert same_bits(p._data, q._data)
