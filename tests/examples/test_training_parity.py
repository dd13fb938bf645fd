"""Fifty steps of training from the same weights on the same batches give the losses that PyTorch gives."""

import numpy as np
import pytest

import ferro
from bench.workloads import WORKLOADS, initial_state, loss_curve

torch = pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("sklearn")

STEPS = 50
EPS32, EPS64 = np.finfo(np.float32).eps, np.finfo(np.float64).eps


@pytest.mark.parametrize("name", ["MLP 64-128-128-10, digits, SGD", "digits CNN, batch norm, Adam"])
def test_losses_agree_to_the_growth_of_rounding(name):
    workload = WORKLOADS[name]
    state = initial_state(workload, torch)
    curves = {
        (lib.__name__, dtype): loss_curve(workload, lib, state, STEPS, dtype)
        for lib in (ferro, torch)
        for dtype in ("float32", "float64")
    }
    reference = curves["torch", "float64"]
    assert reference[-1] < 0.5 * reference[0], "the model must have learnt something for the comparison to mean much"

    # How far rounding has carried torch's float32 from the exact curve by each step. Another correct engine rounds
    # in another order and ends within a few times this distance; the floor is a few units in the last place of a loss.
    growth = np.maximum.accumulate(np.abs(curves["torch", "float32"] - reference))
    allowed = 8 * np.maximum(growth, 4 * EPS32 * reference.max())
    np.testing.assert_array_less(np.abs(curves["ferro", "float32"] - reference), allowed)
    np.testing.assert_array_less(np.abs(curves["ferro", "float32"] - curves["torch", "float32"]), 2 * allowed)

    # In float64 the same distance shrinks by the ratio of the precisions: a wrong formula would not shrink with it.
    np.testing.assert_array_less(np.abs(curves["ferro", "float64"] - reference), 2 * allowed * (EPS64 / EPS32))
