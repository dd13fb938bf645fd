"""The functional forms of the optimisers, and steps that are differentiated by their options, against torch."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import ferro
from tests.nn.parity import assert_same, torch

NUMBERS: dict[str, dict[str, Any]] = {
    "adadelta": {"lr": 0.5, "rho": 0.8, "eps": 1e-6, "weight_decay": 0.1, "maximize": False},
    "adagrad": {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-8, "maximize": True},
    "adam": {
        "amsgrad": True,
        "beta1": 0.8,
        "beta2": 0.9,
        "lr": 0.1,
        "weight_decay": 0.1,
        "eps": 1e-6,
        "maximize": False,
    },
    "adamw": {
        "amsgrad": False,
        "beta1": 0.8,
        "beta2": 0.9,
        "lr": 0.1,
        "weight_decay": 0.1,
        "eps": 1e-6,
        "maximize": True,
    },
    "adamax": {"eps": 1e-6, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1},
    "asgd": {"lambd": 0.01, "lr": 0.1, "t0": 2, "alpha": 0.5, "weight_decay": 0.1},
    "nadam": {"beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1, "eps": 1e-6},
    "radam": {"beta1": 0.5, "beta2": 0.6, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    "rmsprop": {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.9, "centered": True},
    "rprop": {"step_size_min": 1e-6, "step_size_max": 1.0, "etaminus": 0.5, "etaplus": 1.2},
    "sgd": {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False, "maximize": False},
}
# Of the state that is given in lists, what is not an array of the parameter's shape.
COUNTS = {"state_steps": 0.0, "mu_products": 1.0, "mus": 1.0, "etas": 0.1}


def form(lib: str, name: str) -> Any:
    """The function of that name in a module of that name."""
    return getattr(importlib.import_module(f"{lib}.optim.{name}"), name)


@pytest.mark.parametrize("name", NUMBERS)
def test_signature_is_that_of_torch(name: str) -> None:
    ours, theirs = (inspect.signature(form(lib, name)).parameters for lib in ("ferro", "torch"))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("name", NUMBERS)
def test_steps_are_those_of_torch(name: str, rng: np.random.Generator) -> None:
    positional = [p.name for p in inspect.signature(form("torch", name)).parameters.values() if p.default is p.empty]
    lists = [n for n in positional if n not in NUMBERS[name]]
    shapes = ((3, 2), ())
    start = {n: [np.asarray(rng.random(shape)) for shape in shapes] for n in lists}
    results = []
    for lib in (ferro, torch):
        values = {n: [lib.tensor(COUNTS[n]) if n in COUNTS else lib.tensor(x.copy()) for x in start[n]] for n in lists}
        if name == "sgd":
            values["momentum_buffer_list"] = [None, None]
        for _ in range(4):
            with lib.no_grad():
                form(lib.__name__, name)(*[values[n] for n in lists], **NUMBERS[name])
        results.append(values)
    for n in lists:
        for a, b in zip(results[0][n], results[1][n], strict=True):
            assert_same(a, b, n)


def test_counts_must_be_tensors_and_gradients_unscaled() -> None:
    p, g = ferro.ones(2), ferro.ones(2)
    adam = form("ferro", "adam")
    state = [[ferro.zeros(2)], [ferro.zeros(2)], []]
    with pytest.raises(RuntimeError, match="must contain a list of singleton tensors"):
        adam([p], [g], *state, [1], **{**NUMBERS["adam"], "amsgrad": False})
    with pytest.raises(AssertionError, match="Expected grad_scale and found_inf to be None"):
        adam([p], [g], *state, [ferro.ones(())], grad_scale=ferro.ones(()), **{**NUMBERS["adam"], "amsgrad": False})
    assert p.tolist() == [1.0, 1.0]


OPTIONS: list[tuple[str, dict[str, float]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.2}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.2}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.2}),
    ("Adagrad", {"lr": 0.1}),
    ("Adadelta", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1}),
]


def last_loss(name: str, options: dict[str, Any], betas: Any = None) -> Any:
    """The loss after three recorded steps, as a function of the options."""
    p = ferro.tensor([1.5, -0.7], dtype=ferro.float64, requires_grad=True).clone()
    kwargs = {**options, "differentiable": True}
    optimizer = getattr(ferro.optim, name)([p], **(kwargs if betas is None else {**kwargs, "betas": betas}))
    for _ in range(3):
        q = p.clone()  # what the step changes in place is not to be what the loss has saved
        (p.grad,) = ferro.autograd.grad((q**4).sum() + q.prod(), q, create_graph=True)
        optimizer.step()
    return (p**4).sum() + p.prod()


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=[f"{n}-{'-'.join(o)}" for n, o in OPTIONS])
def test_a_recorded_step_has_a_derivative_by_its_options(name: str, options: dict[str, float]) -> None:
    given = [ferro.tensor(v, dtype=ferro.float64, requires_grad=True) for v in options.values()]
    assert ferro.autograd.gradcheck(lambda *xs: last_loss(name, dict(zip(options, xs, strict=True))), given)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_a_recorded_step_has_a_derivative_by_its_betas(name: str) -> None:
    betas = [ferro.tensor(v, dtype=ferro.float64, requires_grad=True) for v in (0.8, 0.9)]
    assert ferro.autograd.gradcheck(lambda *xs: last_loss(name, {"lr": 0.1}, xs), betas)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": (0.9, ferro.tensor(0.9))}, "betas must be either both floats or both Tensors"),
        ({"betas": (ferro.tensor([0.9, 0.9]), ferro.tensor(0.9))}, r"Tensor betas\[0\] must be 1-element"),
        (
            {"betas": (ferro.tensor(0.9), ferro.tensor(0.9)), "foreach": True},
            r"betas\[0\] as a Tensor is not supported for capturable=False and foreach=True",
        ),
    ],
    ids=["mixed", "two", "foreach"],
)
def test_betas_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ferro.optim.Adam([ferro.ones(2, requires_grad=True)], **options)
