"""Thirty steps of every optimiser with every one of its options, dense, complex and sparse, against torch.

The table follows from the signatures: an option that comes anew has no setting below, and fails until it has one.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import optim
from tests.nn.parity import torch

STEPS = 30
OPTIMIZERS = sorted(
    name
    for name in vars(optim)
    if isinstance(getattr(optim, name), type) and getattr(optim, name) is not optim.Optimizer
)

# What an option is set to, and the options that it needs beside it to make a difference.
SETTINGS: dict[str, dict[str, Any]] = {
    "adjust_lr_fn": {"adjust_lr_fn": "match_rms_adamw"},
    "alpha": {"alpha": 0.6},
    "amsgrad": {"amsgrad": True, "betas": (0.5, 0.6)},
    "beta2_decay": {"beta2_decay": -0.5},
    "betas": {"betas": (0.7, 0.8)},
    "capturable": {"capturable": True},
    "centered": {"centered": True},
    "d": {"d": 2.0},
    "dampening": {"dampening": 0.3, "momentum": 0.9},
    "decoupled_weight_decay": {"decoupled_weight_decay": True, "weight_decay": 0.1},
    "differentiable": {"differentiable": True},
    "eps": {"eps": 1e-3},
    "etas": {"etas": (0.4, 1.3)},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "history_size": {"history_size": 2},
    "initial_accumulator_value": {"initial_accumulator_value": 0.2},
    "lambd": {"lambd": 0.1},
    "line_search_fn": {"line_search_fn": "strong_wolfe"},
    "lr": {"lr": 0.03},
    "lr_decay": {"lr_decay": 0.1},
    "max_eval": {"max_eval": 3},
    "max_iter": {"max_iter": 5},
    "maximize": {"maximize": True},
    "momentum": {"momentum": 0.8},
    "momentum_decay": {"momentum_decay": 0.2},
    "nesterov": {"nesterov": True, "momentum": 0.9},
    "ns_coefficients": {"ns_coefficients": (2.0, -1.5, 0.5)},
    "ns_steps": {"ns_steps": 2},
    "rho": {"rho": 0.5},
    "step_sizes": {"step_sizes": (1e-3, 0.05)},
    "t0": {"t0": 3.0},
    "tolerance_change": {"tolerance_change": 0.1},
    "tolerance_grad": {"tolerance_grad": 0.5},
    "weight_decay": {"weight_decay": 0.1},
}
OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("Adafactor", "eps"): {"eps": (0.5, 3.0)},
    ("ASGD", "alpha"): {"alpha": 0.5, "lambd": 0.1},
    ("Muon", "nesterov"): {"nesterov": False},
    ("Muon", "weight_decay"): {"weight_decay": 0.3},
}
# Choices between implementations, which change no number: PyTorch is asked without them, because on the CPU it refuses the
# first, and counts in float32 with the second.
SAME = ("capturable", "differentiable", "foreach", "fused")


def options(name: str) -> list[str]:
    """The options of an optimiser, by its signature."""
    return list(inspect.signature(getattr(optim, name)).parameters)[1:]


TABLE = [(name, option) for name in OPTIMIZERS for option in options(name)]


def setting(name: str, option: str) -> dict[str, Any]:
    """What to construct an optimiser with to see one option; KeyError for an option that nobody has thought of."""
    own = OWN.get((name, option)) or SETTINGS[option]
    return (
        {"lr": 0.1, **own} if name == "Muon" else own
    )  # (it goes so far at each step, to be seen beside its rounding)


def ids(case: Any) -> str:
    """The name of a case, for pytest."""
    return "-".join(case)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_option_of_torch_is_there_and_has_a_setting(name: str) -> None:
    assert options(name) == list(inspect.signature(getattr(torch.optim, name)).parameters)[1:]
    defaults = inspect.signature(getattr(optim, name)).parameters
    for option in options(name):
        assert setting(name, option)[option] != defaults[option].default


class Walk:
    """Parameters in one library, and an optimiser that is led over a smooth function of them, not a quadratic one."""

    def __init__(self, lib: Any, name: str, start: list[np.ndarray], given: dict[str, Any]) -> None:
        self.lib = lib
        self.params = [lib.tensor(a) for a in start]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer = getattr(lib.optim, name)(self.params, **given)

    def closure(self) -> Any:
        """The loss; the gradients are given to the parameters, which need not require any (`differentiable`)."""
        twins = [p.detach().clone().requires_grad_() for p in self.params]
        loss: Any = 0.0
        for i, p in enumerate(twins):
            wave = (2 * (self.lib.view_as_real(p) if p.is_complex() else p)).sin()
            loss = loss + ((p - 1.5 + i).abs() ** 2).sum() + 0.1 * wave.sum()
        loss.backward()
        for p, twin in zip(self.params, twins, strict=True):
            p.grad = twin.grad
        return loss

    def trajectory(self, sparse: np.random.Generator | None = None) -> np.ndarray:
        """All parameters after each step, flat."""
        places = []
        for _ in range(STEPS):
            if isinstance(self.optimizer, self.lib.optim.LBFGS):
                self.optimizer.step(self.closure)
            else:
                self.closure() if sparse is None else self._some_rows(sparse)
                self.optimizer.step()
            places.append(np.concatenate([p.detach().numpy().reshape(-1) for p in self.params]))
        return np.stack(places)

    def state(self) -> dict[tuple[int, str], np.ndarray]:
        """The state of each parameter, by number and name; that of LBFGS is a history, and left out."""
        found = {}
        if not isinstance(self.optimizer, self.lib.optim.LBFGS):
            for number, p in enumerate(self.params):
                for key, value in self.optimizer.state[p].items():
                    if value is not None and not getattr(value, "is_sparse", False):
                        found[number, key] = np.asarray(self.lib.as_tensor(value).detach())
        return found

    def _some_rows(self, rng: np.random.Generator) -> None:
        for p in self.params:
            rows = rng.integers(0, p.shape[0], 4)  # (some twice)
            values = rng.standard_normal((4, *p.shape[1:]))
            where, what = self.lib.tensor(rows[None]), self.lib.tensor(values)
            p.grad = self.lib.sparse_coo_tensor(where, what, tuple(p.shape), check_invariants=False)


def both(name: str, option: str, start: list[np.ndarray], sparse: bool = False) -> tuple[Any, Any]:
    """ferro's trajectory with the state at its end, and torch's; or the errors."""
    found: list[Any] = []
    for lib in (ferro, torch):
        given = setting(name, option)
        if lib is torch and option in SAME:
            given = {}
        try:
            walk = Walk(lib, name, start, given)
            found.append((walk.trajectory(np.random.default_rng(3) if sparse else None), walk.state()))
        except (RuntimeError, ValueError) as e:
            found.append(e)
    return found[0], found[1]


def agree(case: tuple[str, str], ours: Any, theirs: Any, start: list[np.ndarray]) -> None:
    """The same error, or the same numbers and not those of the start."""
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), ours
        assert str(theirs).split("\n")[0] in str(ours)
        return
    assert not isinstance(ours, Exception), ours
    # An optimiser that searches a line doubles rounding errors at every turn; Muon computes in bfloat16.
    tolerance = {"LBFGS": 1e-6, "Muon": 0.05}.get(case[0], 1e-10)
    if case == ("NAdam", "differentiable"):
        tolerance = 1e-5  # the product of its momenta is a tensor then, of float32
    np.testing.assert_allclose(ours[0], theirs[0], rtol=tolerance, atol=tolerance)
    assert ours[1].keys() >= theirs[1].keys()
    for key, value in theirs[1].items():
        np.testing.assert_allclose(ours[1][key], value, rtol=max(tolerance, 1e-6), atol=tolerance, err_msg=str(key))
    if case != ("LBFGS", "tolerance_grad"):
        assert np.abs(ours[0][-1] - np.concatenate([a.reshape(-1) for a in start])).max() > 1e-4


@pytest.mark.parametrize("case", TABLE, ids=ids)
def test_thirty_steps_with_an_option_are_those_of_torch(case: tuple[str, str], rng: np.random.Generator) -> None:
    shapes = ((4, 3), (3, 4)) if case[0] == "Muon" else ((3, 2), (4,), ())
    start = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
    ours, theirs = both(*case, start)
    agree(case, ours, theirs, start)
    if not isinstance(ours, Exception):
        others = {k: v for k, v in setting(*case).items() if k != case[1]}
        without = Walk(ferro, case[0], start, others)
        changes = [np.abs(without.trajectory() - ours[0]).max()]
        changes += [np.abs(value - ours[1][key]).max() for key, value in without.state().items() if key in ours[1]]
        assert (max(changes) > 1e-6) == (case[1] not in SAME and case != ("Muon", "eps"))


@pytest.mark.parametrize("case", [c for c in TABLE if c[0] != "Muon"], ids=ids)
def test_thirty_steps_of_complex_parameters_are_those_of_torch(case: tuple[str, str], rng: np.random.Generator) -> None:
    start = [rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for shape in ((3, 2), (4,))]
    agree(case, *both(*case, start), start)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("case", [c for c in TABLE if c[0] != "LBFGS"], ids=ids)
def test_thirty_steps_with_sparse_gradients_are_those_of_torch(case: tuple[str, str], rng: np.random.Generator) -> None:
    start = [rng.standard_normal((5, 3))]
    agree(case, *both(*case, start, sparse=True), start)
