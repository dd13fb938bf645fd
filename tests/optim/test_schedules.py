"""Thirty steps of every scheduler with every one of its options, against torch.

The table follows from the signatures: an option that comes anew has no setting below, and fails until it has one.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from tests.nn.parity import torch

STEPS = 30

# What a scheduler is made with where an option is not looked at; functions of (the module of schedulers, the optimizer).
BASE: dict[str, dict[str, Any]] = {
    "LambdaLR": {"lr_lambda": lambda epoch: 0.95**epoch},
    "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.8 + 0.1 * (epoch % 2)},
    "StepLR": {"step_size": 3},
    "MultiStepLR": {"milestones": [2, 5, 9]},
    "ConstantLR": {},
    "LinearLR": {},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {},
    "CosineAnnealingLR": {"T_max": 6},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 4},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": STEPS + 1},
    "ReduceLROnPlateau": {},
    "SequentialLR": {
        "schedulers": lambda s, optimizer: [s.LinearLR(optimizer, 0.1), s.ExponentialLR(optimizer, 0.9)],
        "milestones": [4],
    },
    "ChainedScheduler": {
        "schedulers": lambda s, optimizer: [s.ConstantLR(optimizer, 0.5, 3), s.ExponentialLR(optimizer, 0.9)]
    },
    "SWALR": {"swa_lr": 0.5},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "T_0": {"T_0": 4},
    "T_max": {"T_max": 9},
    "T_mult": {"T_mult": 2},
    "anneal_epochs": {"anneal_epochs": 4},
    "anneal_strategy": {"anneal_strategy": "linear"},
    "base_lr": {"base_lr": 0.05},
    "base_momentum": {"base_momentum": 0.6},
    "cooldown": {"cooldown": 3, "patience": 1},
    "cycle_momentum": {"cycle_momentum": False},
    "div_factor": {"div_factor": 10.0},
    "end_factor": {"end_factor": 0.5},
    "epochs": {"epochs": 4, "steps_per_epoch": 8, "total_steps": None},
    "eps": {"eps": 0.05, "patience": 1},
    "eta_min": {"eta_min": 0.01},
    "factor": {"factor": 0.25},
    "final_div_factor": {"final_div_factor": 100.0},
    "gamma": {"gamma": 0.6},
    "last_epoch": {"last_epoch": 4},
    "lr_lambda": {"lr_lambda": [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.5]},
    "max_lr": {"max_lr": 0.2},
    "max_momentum": {"max_momentum": 0.99},
    "milestones": {"milestones": [3, 7]},
    "min_lr": {"min_lr": 0.03, "patience": 1},
    "mode": {"mode": "triangular2"},
    "patience": {"patience": 2},
    "pct_start": {"pct_start": 0.5},
    "power": {"power": 2.0},
    "scale_fn": {"scale_fn": lambda x: 1 / (1 + x)},
    "scale_mode": {"scale_mode": "iterations", "scale_fn": lambda x: 1 / (1 + x)},
    "schedulers": {"schedulers": lambda s, optimizer: [s.StepLR(optimizer, 2), s.ConstantLR(optimizer, 0.3, 6)]},
    "start_factor": {"start_factor": 0.5},
    "step_size": {"step_size": 5},
    "step_size_down": {"step_size_down": 2},
    "step_size_up": {"step_size_up": 6},
    "steps_per_epoch": {"epochs": 5, "steps_per_epoch": 10, "total_steps": None},
    "swa_lr": {"swa_lr": 0.2},
    "three_phase": {"three_phase": True},
    "threshold": {"threshold": 0.5, "patience": 1},
    "threshold_mode": {"threshold_mode": "abs", "threshold": 0.2, "patience": 1},
    "total_iters": {"total_iters": 9},
    "total_steps": {"total_steps": 40},
}
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("CyclicLR", "gamma"): {"gamma": 0.9, "mode": "exp_range"},
    ("ReduceLROnPlateau", "factor"): {"factor": 0.5, "patience": 1},
    ("ReduceLROnPlateau", "mode"): {"mode": "max", "patience": 1},
    ("SequentialLR", "milestones"): {"milestones": [6]},
    ("SWALR", "anneal_strategy"): {"anneal_strategy": "linear"},
}
NO_DIFFERENCE = {("SWALR", "last_epoch"), ("ExponentialLR", "last_epoch")}  # (which have no use for it)


def classes(lib: Any) -> dict[str, Any]:
    """The schedulers of a library, by name."""
    module = lib.optim.lr_scheduler
    found = {n: c for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, module.LRScheduler)}
    found = {n: c for n, c in found.items() if not n.startswith("_") and c is not module.LRScheduler}
    return {**found, "SWALR": lib.optim.swa_utils.SWALR}


def options(name: str) -> list[str]:
    """The options of a scheduler, by its signature."""
    names = inspect.signature(classes(ferro)[name]).parameters
    return [n for n in names if n != "optimizer"]


TABLE = [(name, option) for name in classes(ferro) for option in options(name)]


def setting(name: str, option: str) -> dict[str, Any]:
    """What to make a scheduler with to see one option; KeyError for an option that nobody has thought of."""
    return {**BASE[name], **(OWN.get((name, option)) or SETTINGS[option])}


def rates(lib: Any, name: str, given: dict[str, Any]) -> Any:
    """Rates and momenta of two groups at the start and after each step, or the error."""
    a, b = (lib.zeros(1, requires_grad=True) for _ in range(2))
    optimizer = lib.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.02}], lr=0.1, momentum=0.9)
    if "last_epoch" in given:
        for group in optimizer.param_groups:
            group.update(initial_lr=group["lr"], max_lr=0.5, min_lr=0.001, base_momentum=0.85, max_momentum=0.95)
    given = {k: v(lib.optim.lr_scheduler, optimizer) if k == "schedulers" else v for k, v in given.items()}
    first = () if name == "ChainedScheduler" else (optimizer,)
    metrics = np.random.default_rng(2).random(STEPS) + 10 / np.arange(1, STEPS + 1)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (of PyTorch's schedulers about themselves)
        try:
            scheduler = classes(lib)[name](*first, **given)
            for metric in metrics:
                seen.append([group[key] for group in optimizer.param_groups for key in ("lr", "momentum")])
                optimizer.step()
                scheduler.step(*([float(metric)] if name == "ReduceLROnPlateau" else []))
        except (ValueError, RuntimeError, KeyError) as e:
            return e
    return np.array(seen)


@pytest.mark.parametrize("name", classes(ferro))
def test_every_option_of_torch_is_there_and_has_a_setting(name: str) -> None:
    assert list(classes(ferro)) == [n for n in classes(ferro) if n in classes(torch)]
    assert classes(torch).keys() <= classes(ferro).keys()
    theirs = inspect.signature(classes(torch)[name]).parameters
    ours = inspect.signature(classes(ferro)[name]).parameters
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
    for option in options(name):
        assert setting(name, option)[option] != ours[option].default


@pytest.mark.parametrize("case", TABLE, ids="-".join)
def test_thirty_steps_with_an_option_are_those_of_torch(case: tuple[str, str]) -> None:
    name, option = case
    given = setting(name, option)
    ours, theirs = rates(ferro, name, given), rates(torch, name, given)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), ours
        assert str(theirs) in str(ours)
        return
    assert not isinstance(ours, Exception), ours
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)
    others = {**BASE[name], **{k: v for k, v in given.items() if k != option}}
    if option in BASE[name]:
        others[option] = BASE[name][option]
    without = rates(ferro, name, others)
    assert (isinstance(without, Exception) or np.abs(without - ours).max() > 1e-6) == (case not in NO_DIFFERENCE)
