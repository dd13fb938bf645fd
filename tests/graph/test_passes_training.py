"""Passes on training steps: losses and gradients of the optimised joint graph equal eager's to the last bit, with fewer nodes."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.graph import capture
from ferro.graph.compare import same_bits

FEWER = {"MLP": 0, "VAE": 1, "PINN": 20}  # nodes that passes remove, at least


@pytest.mark.parametrize("name", [next(n for n in WORKLOADS if n.startswith(kind)) for kind in FEWER])
def test_steps_have_eagers_bits(name: str) -> None:
    workload = WORKLOADS[name]
    state = initial_state(workload, ferro)
    mine, its = Trainer(workload, ferro, state), Trainer(workload, ferro, state)
    batches = workload.batches()
    gradient = capture(lambda x, y: mine.loss(ferro, mine.model, x, y), *mine.load(next(batches))).differentiate(
        wrt=list(mine.model.parameters())
    )
    short = gradient.optimise(debug=True)
    removed = len(gradient.joint.nodes) - len(short.joint.nodes)
    assert removed >= FEWER[name.split(maxsplit=1)[0]]
    assert len(short.captured_outputs) <= len(gradient.captured_outputs)
    one: Any = ferro.tensor(1.0)
    for _ in range(2):
        x, y = mine.load(next(batches))
        want = its.loss(ferro, its.model, x, y)
        slopes = ferro.autograd.grad(want, list(its.model.parameters()), allow_unused=True)
        value, *found = short.joint.interpret(x, y, one)
        assert same_bits(value._data, want._data)
        assert same_bits(value._data, want._data)
        for slope, place in zip(slopes, short.gradients, strict=True):
            assert (slope is None) is (place is None)
            if slope is not None and place is not None:
                assert same_bits(found[place]._data, slope._data)
