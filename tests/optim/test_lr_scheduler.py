"""The schedulers against torch: sequences of rates and momenta, resuming, saved state, warnings and errors."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import optim
from tests.nn.parity import torch

Make = Callable[[Any, Any], Any]

SCHEDULERS: dict[str, Make] = {
    "LambdaLR": lambda s, opt: s.LambdaLR(opt, lambda epoch: 0.95**epoch),
    "LambdaLR per group": lambda s, opt: s.LambdaLR(opt, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.5]),
    "MultiplicativeLR": lambda s, opt: s.MultiplicativeLR(opt, lambda epoch: 0.9 if epoch % 2 else 0.8),
    "StepLR": lambda s, opt: s.StepLR(opt, 3, gamma=0.5),
    "MultiStepLR": lambda s, opt: s.MultiStepLR(opt, [2, 5, 5, 9], gamma=0.5),
    "ConstantLR": lambda s, opt: s.ConstantLR(opt, factor=0.3, total_iters=4),
    "LinearLR": lambda s, opt: s.LinearLR(opt, start_factor=0.2, end_factor=0.9, total_iters=6),
    "ExponentialLR": lambda s, opt: s.ExponentialLR(opt, 0.9),
    "PolynomialLR": lambda s, opt: s.PolynomialLR(opt, total_iters=7, power=2.0),
    "CosineAnnealingLR": lambda s, opt: s.CosineAnnealingLR(opt, T_max=6, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, opt: s.CosineAnnealingWarmRestarts(opt, 3, 2, 0.01),
    "CyclicLR": lambda s, opt: s.CyclicLR(opt, 0.01, 0.3, step_size_up=3, step_size_down=4),
    "CyclicLR triangular2": lambda s, opt: s.CyclicLR(opt, [0.01, 0.02], 0.3, 3, mode="triangular2"),
    "CyclicLR exp_range": lambda s, opt: s.CyclicLR(opt, 0.01, 0.3, 3, mode="exp_range", gamma=0.9),
    "CyclicLR own": lambda s, opt: s.CyclicLR(opt, 0.1, 0.3, 3, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    "OneCycleLR": lambda s, opt: s.OneCycleLR(opt, 0.5, total_steps=31),
    "OneCycleLR linear": lambda s, opt: s.OneCycleLR(
        opt, [0.5, 0.1], epochs=4, steps_per_epoch=8, pct_start=0.4, anneal_strategy="linear", three_phase=True
    ),
    "SequentialLR": lambda s, opt: s.SequentialLR(
        opt, [s.LinearLR(opt, 0.1, total_iters=4), s.CosineAnnealingLR(opt, 8), s.ExponentialLR(opt, 0.9)], [4, 12]
    ),
    "ChainedScheduler": lambda s, opt: s.ChainedScheduler([s.ConstantLR(opt, 0.5, 3), s.ExponentialLR(opt, 0.9)]),
}


def make_optimizer(lib: Any, kind: str = "SGD") -> Any:
    """Two groups with different rates."""
    a, b = lib.zeros(1, requires_grad=True), lib.zeros(1, requires_grad=True)
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)([{"params": [a]}, {"params": [b], "lr": 0.02}], lr=0.1, **options)


def values(optimizer: Any) -> list[float]:
    """Rates and momenta of all groups."""
    momenta = [group["betas"][0] if "betas" in group else group["momentum"] for group in optimizer.param_groups]
    return [group["lr"] for group in optimizer.param_groups] + momenta


def run(optimizer: Any, scheduler: Any, count: int) -> list[list[float]]:
    """The values at the start and after every step."""
    seen = [values(optimizer)]
    for _ in range(count):
        optimizer.step()
        scheduler.step()
        seen.append(values(optimizer))
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return seen


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.filterwarnings("ignore:The epoch parameter")  # torch's SequentialLR warns about itself
def test_rates_are_those_of_torch(name: str, kind: str) -> None:
    make = SCHEDULERS[name]
    sequences = []
    for lib in (ferro, torch):
        optimizer = make_optimizer(lib, kind)
        sequences.append(run(optimizer, make(lib.optim.lr_scheduler, optimizer), 30))
    np.testing.assert_allclose(*sequences, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS.keys())
def test_saved_and_loaded_goes_on_the_same(make: Make) -> None:
    optimizer = make_optimizer(ferro)
    scheduler = make(optim.lr_scheduler, optimizer)
    run(optimizer, scheduler, 5)
    other = make_optimizer(ferro)
    again = make(optim.lr_scheduler, other)
    other.load_state_dict(optimizer.state_dict())
    again.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    assert run(optimizer, scheduler, 9) == run(other, again, 9)


def test_a_chain_with_the_first_turn_goes_as_it_goes_alone() -> None:
    # torch multiplies by gamma once too often here, when SequentialLR takes the first step of the chain again
    s, alone, within = optim.lr_scheduler, make_optimizer(ferro), make_optimizer(ferro)
    chain = s.ChainedScheduler([s.ConstantLR(alone, 0.5, 3), s.ExponentialLR(alone, 0.9)])
    first = s.ChainedScheduler([s.ConstantLR(within, 0.5, 3), s.ExponentialLR(within, 0.9)])
    scheduler = s.SequentialLR(within, [first, s.StepLR(within, 2)], [5])
    np.testing.assert_allclose(run(alone, chain, 4), run(within, scheduler, 4))


def test_a_chain_can_have_the_second_turn() -> None:
    s, optimizer = optim.lr_scheduler, make_optimizer(ferro)
    chain = s.ChainedScheduler([s.ConstantLR(optimizer, 0.5, 2), s.ExponentialLR(optimizer, 0.5)])
    scheduler = s.SequentialLR(optimizer, [s.StepLR(optimizer, 1), chain], [2])
    rates = [step[0] for step in run(optimizer, scheduler, 5)]
    np.testing.assert_allclose(rates, [0.1, 0.01, 0.05, 0.025, 0.025, 0.0125])


@pytest.mark.parametrize(
    "name", ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR", "CosineAnnealingLR"]
)
def test_a_given_epoch_has_the_rate_of_that_epoch(name: str) -> None:
    for epoch in (0, 1, 4, 7):
        walked, jumped = make_optimizer(ferro), make_optimizer(ferro)
        scheduler, other = (SCHEDULERS[name](optim.lr_scheduler, o) for o in (walked, jumped))
        run(walked, scheduler, epoch)
        jumped.step()
        with pytest.warns(UserWarning, match="epoch parameter"):
            other.step(epoch)
        np.testing.assert_allclose(values(walked), values(jumped), rtol=1e-12, atol=1e-15)


def test_warm_restarts_take_fractions_of_epochs() -> None:
    sequences = []
    for lib in (ferro, torch):
        optimizer = make_optimizer(lib)
        scheduler = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)
        seen = []
        for i in range(40):
            scheduler.step(i / 4)
            seen.append(values(optimizer))
        sequences.append(seen)
    np.testing.assert_allclose(*sequences, rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "patience": 1, "cooldown": 2},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.2, "min_lr": [0.05, 0.001]},
        {"mode": "max", "patience": 0, "threshold_mode": "abs", "factor": 0.5, "eps": 0.01},
    ],
)
def test_reduce_on_plateau(options: dict[str, Any], rng: np.random.Generator) -> None:
    measures = [*np.linspace(1, 0.5, 10), *rng.uniform(0.4, 0.6, 40)]
    sequences = []
    for lib in (ferro, torch):
        optimizer = make_optimizer(lib)
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        seen = []
        for measure in measures:
            scheduler.step(lib.tensor(measure))
            seen.append([*values(optimizer), scheduler.best, scheduler.num_bad_epochs, scheduler.cooldown_counter])
        sequences.append(seen)
    np.testing.assert_allclose(*sequences, rtol=1e-12)


def test_resuming_needs_the_initial_rates() -> None:
    optimizer = make_optimizer(ferro)
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(optimizer, 3, last_epoch=4)
    first = optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    run(optimizer, first, 4)
    rates = values(optimizer)
    resumed = optim.lr_scheduler.CosineAnnealingLR(optimizer, 6, last_epoch=3)
    assert resumed.last_epoch == 4
    np.testing.assert_allclose(values(optimizer), rates)


def test_stepping_before_the_optimiser_warns() -> None:
    optimizer = make_optimizer(ferro)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step\(\)"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


def test_objects_as_functions_are_saved() -> None:
    class Decay:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __call__(self, epoch: int) -> float:
            return self.rate**epoch

    optimizer = make_optimizer(ferro)
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, [Decay(0.5), lambda epoch: 1.0])
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.5}, None]
    other = optim.lr_scheduler.LambdaLR(make_optimizer(ferro), [Decay(0.1), lambda epoch: 1.0])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].rate == 0.5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda s, opt: s.StepLR(1, 3), TypeError, "is not an Optimizer"),
        (lambda s, opt: s.LambdaLR(opt, [len]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda s, opt: s.MultiplicativeLR(opt, 0.5), TypeError, "should be a function"),
        (lambda s, opt: s.ConstantLR(opt, factor=2.0), ValueError, "between 0 and 1"),
        (lambda s, opt: s.LinearLR(opt, start_factor=0.0), ValueError, "greater than 0"),
        (lambda s, opt: s.CosineAnnealingWarmRestarts(opt, 0), ValueError, "positive integer T_0"),
        (lambda s, opt: s.CyclicLR(opt, 0.1, 0.2, mode="round"), ValueError, "mode is invalid"),
        (lambda s, opt: s.CyclicLR(opt, [0.1], 0.2), ValueError, "base_lr must have the same length"),
        (lambda s, opt: s.OneCycleLR(opt, 0.1), ValueError, "either total_steps OR"),
        (lambda s, opt: s.OneCycleLR(opt, 0.1, total_steps=0), ValueError, "positive integer total_steps"),
        (lambda s, opt: s.OneCycleLR(opt, 0.1, total_steps=9, anneal_strategy="x"), ValueError, "'cos' or 'linear'"),
        (lambda s, opt: s.ReduceLROnPlateau(opt, factor=1.0), ValueError, "Factor should be < 1.0"),
        (lambda s, opt: s.ReduceLROnPlateau(opt, mode="up"), ValueError, "mode up is unknown"),
        (lambda s, opt: s.ReduceLROnPlateau(opt, min_lr=[0.1]), ValueError, "expected 2 min_lrs, got 1"),
        (lambda s, opt: s.SequentialLR(opt, [s.StepLR(opt, 1)], [1]), ValueError, "one more than"),
        (lambda s, opt: s.ChainedScheduler([]), ValueError, "at least one scheduler"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(make: Make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(optim.lr_scheduler, make_optimizer(ferro))


def test_one_cycle_ends() -> None:
    optimizer = make_optimizer(ferro)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    run(optimizer, scheduler, 3)
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        scheduler.step()


ALONE = [name for name in SCHEDULERS if name not in ("SequentialLR", "ChainedScheduler")]


@pytest.mark.parametrize("lib", [ferro, torch], ids=["ferro", "torch"])
@pytest.mark.parametrize("name", ALONE)
def test_the_next_rates_are_not_the_last_ones_and_that_is_said(lib: Any, name: str) -> None:
    scheduler = SCHEDULERS[name](lib.optim.lr_scheduler, make_optimizer(lib))
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()


@pytest.mark.parametrize("name", ["LRScheduler", "_LRScheduler"])
def test_a_scheduler_of_ones_own_by_either_name(name: str) -> None:
    def rates(lib: Any) -> list[float]:
        class WarmUp(getattr(lib.optim.lr_scheduler, name)):
            def get_lr(self) -> list[float]:
                return [rate * min(1.0, (self.last_epoch + 1) / 4) for rate in self.base_lrs]

        optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=0.1)
        scheduler, found = WarmUp(optimizer), []
        for _ in range(6):
            found += scheduler.get_last_lr()
            optimizer.step()
            scheduler.step()
        return found

    assert rates(ferro) == rates(torch)
    assert issubclass(ferro.optim.lr_scheduler._LRScheduler, ferro.optim.lr_scheduler.LRScheduler)
