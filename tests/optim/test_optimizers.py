"""The optimisers against torch: 30 steps of one problem, state and its layout, groups, hooks, errors."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import optim
from tests.nn.parity import assert_same, to_ferro, torch

SHAPES = ((3, 2), (4,), ())

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.05, "alpha": 0.9, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.05, "betas": (0.5, 0.6), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}),
    ("Rprop", {"maximize": True, "step_sizes": (1e-3, 0.05)}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "t0": 3, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.005, "t0": 3, "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-3, 1e-2), "d": 2.0, "weight_decay": 0.1}),
    ("Adafactor", {"maximize": True}),
    ("LBFGS", {"max_iter": 3}),
    ("LBFGS", {"lr": 0.3, "history_size": 2}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 6}),
]


def ids(case: Any) -> str:
    """The name of a case, for pytest."""
    return case[0] + "-" + "-".join(f"{key}={value}" for key, value in case[1].items())


class Problem:
    """A smooth function of three parameters that is not quadratic, in one of the two libraries."""

    def __init__(self, lib: Any, start: list[np.ndarray]) -> None:
        self.lib = lib
        self.params = [lib.tensor(value, requires_grad=True) for value in start]

    def loss(self) -> Any:
        """A sum of bowls whose minima lie apart, with a coupling."""
        a, b, c = self.params
        return ((a - 1.5) ** 2).sum() + ((b * b - 2) ** 2).mean() + (c - 0.3) ** 4 + (a.mean() * b.sum()).sin()

    def closure(self, optimizer: Any) -> Any:
        """What optimisers call: gradients afresh, and the loss."""

        def run() -> Any:
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        return run


@pytest.fixture
def problems(rng: np.random.Generator) -> tuple[Problem, Problem]:
    """The same start in ferro and in torch, float64."""
    start = [np.asarray(rng.standard_normal(shape)) for shape in SHAPES]
    return Problem(ferro, start), Problem(torch, start)


def steps(problem: Problem, optimizer: Any, count: int) -> list[float]:
    """The losses of so many steps."""
    return [optimizer.step(problem.closure(optimizer)).item() for _ in range(count)]


def compare_states(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The same layout and numbers of two state dictionaries."""
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for number, state in theirs["state"].items():
        assert ours["state"][number].keys() == state.keys()
        for key, value in state.items():
            if torch.is_tensor(value):
                assert_same(ours["state"][number][key], value, f"{key} of {number}", rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_thirty_steps_are_those_of_torch(case: tuple[str, dict], problems: tuple[Problem, Problem]) -> None:
    name, options = case
    ours, theirs = problems
    our_optimizer = getattr(optim, name)(ours.params, **options)
    their_optimizer = getattr(torch.optim, name)(theirs.params, **options)
    assert repr(our_optimizer) == repr(their_optimizer)
    # An optimiser that searches a line doubles rounding errors at every turn.
    tolerance = 1e-6 if name == "LBFGS" else 1e-11
    losses = steps(ours, our_optimizer, 30), steps(theirs, their_optimizer, 30)
    np.testing.assert_allclose(*losses, rtol=tolerance, atol=tolerance)
    for a, b in zip(ours.params, theirs.params, strict=True):
        assert_same(a, b, "parameter", rtol=tolerance, atol=tolerance)
    if name != "LBFGS":
        compare_states(our_optimizer.state_dict(), their_optimizer.state_dict())


def test_no_optimiser_of_torch_is_missing() -> None:
    theirs = {n for n in dir(torch.optim) if isinstance(getattr(torch.optim, n), type)}
    assert {n for n in theirs if not hasattr(optim, n)} == set()


NAMES = [
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Rprop",
    "ASGD",
    "Adafactor",
    "Muon",
    "SparseAdam",
    "LBFGS",
]


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_torch(name: str) -> None:
    ours = getattr(optim, name)([ferro.zeros(1, 1, requires_grad=True)])
    theirs = getattr(torch.optim, name)([torch.zeros(1, 1, requires_grad=True)])
    assert ours.defaults == theirs.defaults
    assert list(ours.param_groups[0]) == list(theirs.param_groups[0])


@pytest.mark.parametrize("switch", ["foreach", "capturable", "fused"])
def test_switches_between_implementations_change_nothing(switch: str, rng: np.random.Generator) -> None:
    start = [np.asarray(rng.standard_normal(shape)) for shape in SHAPES]
    taken = 0
    for name in NAMES:
        cls = getattr(optim, name)
        if switch not in inspect.signature(cls).parameters:
            continue
        taken += 1
        plain, switched = Problem(ferro, start), Problem(ferro, start)
        assert steps(plain, cls(plain.params), 5) == steps(switched, cls(switched.params, **{switch: True}), 5)
    assert taken >= 3


@pytest.mark.parametrize("case", [c for c in CASES if c[0] not in ("LBFGS", "Adafactor")], ids=ids)
def test_a_recorded_step_is_differentiated(case: tuple[str, dict], rng: np.random.Generator) -> None:
    name, options = case
    start, slope = rng.standard_normal((2, 5))

    def stepped(lib: Any, start: Any, slope: Any, factors: tuple[float, ...]) -> Any:
        p = start * 1
        optimizer = getattr(lib.optim, name)([p], differentiable=True, **options)
        for factor in factors:
            p.grad = slope * factor
            optimizer.step()
        return (p * p).sum()

    if "momentum" not in options:  # torch detaches the gradient where it begins a buffer of SGD
        found = []
        for lib in (ferro, torch):
            leaves = [lib.tensor(a, requires_grad=True) for a in (start, slope)]
            loss = stepped(lib, *leaves, (1.0,))
            found.append([g.numpy() for g in lib.autograd.grad(loss, leaves)])
        np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-7)  # its factors of recorded steps are in float32
    # Of several steps PyTorch refuses the derivative: the second overwrites what the first saved.
    leaves = [ferro.tensor(a, requires_grad=True) for a in (start, slope)]
    assert ferro.autograd.gradcheck(lambda a, b: stepped(ferro, a, b, (1.0, 0.5, 2.0)), leaves, atol=1e-4)


def test_the_same_parameter_twice_warns() -> None:
    a = ferro.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optim.SGD([a, a])


def test_hooks_of_all_optimisers_run_outside_of_those_of_one() -> None:
    a = ferro.ones(1, requires_grad=True)
    seen: list[str] = []
    handles = [
        optim.optimizer.register_optimizer_step_pre_hook(lambda *_: seen.append("first")),
        optim.optimizer.register_optimizer_step_post_hook(lambda *_: seen.append("last")),
    ]
    for optimizer in (optim.SGD([a]), optim.Adam([a])):
        optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
        optimizer.register_step_post_hook(lambda *_: seen.append("post"))
        optimizer.step()
    assert seen == ["first", "pre", "post", "last"] * 2
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen[-2:] == ["pre", "post"]


def test_state_of_an_older_version_is_completed() -> None:
    a = ferro.ones(2, requires_grad=True)
    a.grad = ferro.ones(2)
    optimizer = optim.Adam([a])
    optimizer.step()
    old = optimizer.state_dict()
    old["state"][0]["step"] = 1
    for option in ("maximize", "foreach", "capturable"):
        del old["param_groups"][0][option]
    optimizer.load_state_dict(old)
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2
    assert optimizer.param_groups[0]["maximize"] is False


@pytest.mark.parametrize("case", [c for c in CASES if c[0] != "LBFGS"], ids=ids)
def test_state_of_torch_can_be_taken_over(case: tuple[str, dict], problems: tuple[Problem, Problem]) -> None:
    name, options = case
    ours, theirs = problems
    their_optimizer = getattr(torch.optim, name)(theirs.params, **options)
    steps(theirs, their_optimizer, 5)
    with ferro.no_grad():
        for a, b in zip(ours.params, theirs.params, strict=True):
            a.copy_(to_ferro(b))
    our_optimizer = getattr(optim, name)(ours.params)
    our_optimizer.load_state_dict(to_ferro(their_optimizer.state_dict()))
    steps(ours, our_optimizer, 5)
    steps(theirs, their_optimizer, 5)
    for a, b in zip(ours.params, theirs.params, strict=True):
        assert_same(a, b, "parameter")


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_saved_and_loaded_goes_on_the_same(case: tuple[str, dict], problems: tuple[Problem, Problem]) -> None:
    name, options = case
    ours, _ = problems
    optimizer = getattr(optim, name)(ours.params, **options)
    steps(ours, optimizer, 3)
    twin = Problem(ferro, [param.detach().numpy().copy() for param in ours.params])
    again = getattr(optim, name)(twin.params)
    again.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    assert steps(ours, optimizer, 3) == steps(twin, again, 3)
    copied = copy.deepcopy(optimizer)
    assert copied.param_groups[0]["params"][0] is not optimizer.param_groups[0]["params"][0]
    assert len(copied.state) == len(optimizer.state)


def test_loading_keeps_step_and_casts_the_rest() -> None:
    param = ferro.zeros(2, dtype=ferro.float64, requires_grad=True)
    param.grad = ferro.ones(2, dtype=ferro.float64)
    optimizer = optim.Adam([param])
    optimizer.step()
    single = ferro.zeros(2, requires_grad=True)
    other = optim.Adam([single])
    saved = optimizer.state_dict()
    other.load_state_dict(saved)
    state = other.state[single]
    assert (state["exp_avg"].dtype, state["step"].dtype) == (ferro.float32, ferro.float32)
    single.grad = ferro.ones(2)
    other.step()
    assert saved["state"][0]["step"].item() == 1.0, "the dictionary is shared with the optimiser that read it"


def test_groups_have_options_of_their_own(problems: tuple[Problem, Problem]) -> None:
    optimizers = []
    for problem, library in zip(problems, (optim, torch.optim), strict=True):
        a, b, c = problem.params
        optimizer = library.SGD([{"params": [a]}, {"params": b, "lr": 0.01}], lr=0.1, momentum=0.5)
        optimizer.add_param_group({"params": [c], "momentum": 0.0})
        steps(problem, optimizer, 5)
        optimizers.append(optimizer)
    for a, b in zip(problems[0].params, problems[1].params, strict=True):
        assert_same(a, b, "parameter")
    assert repr(optimizers[0]) == repr(optimizers[1])
    compare_states(optimizers[0].state_dict(), optimizers[1].state_dict())


@pytest.mark.parametrize("case", [c for c in CASES if c[0] not in ("LBFGS", "Adafactor")], ids=ids)
def test_complex_parameters(case: tuple[str, dict], rng: np.random.Generator) -> None:
    name, options = case
    start = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    results = []
    for lib in (ferro, torch):
        z = lib.tensor(start, requires_grad=True)
        optimizer = getattr(lib.optim, name)([z], **options)
        for _ in range(5):
            optimizer.zero_grad()
            ((z - (1 + 2j)).abs() ** 2).sum().backward()
            optimizer.step()
        results.append((z, optimizer.state_dict()["state"]))
    assert_same(results[0][0], results[1][0], "parameter")
    for key, value in results[1][1].get(0, {}).items():
        if value is not None and value.is_complex():
            assert_same(results[0][1][0][key], value, key)


def test_parameters_may_come_with_names() -> None:
    layer = ferro.nn.Linear(2, 3)
    optimizer = optim.SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][1] is layer.bias
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [ferro.zeros(1, requires_grad=True)]})


def test_parameters_without_gradient_stay() -> None:
    a, b = ferro.ones(2, requires_grad=True), ferro.ones(2, requires_grad=True)
    optimizer = optim.Adam([a, b])
    a.sum().backward()
    optimizer.step()
    assert b.tolist() == [1.0, 1.0]
    assert a.tolist() != [1.0, 1.0]
    assert a.is_leaf
    assert a.requires_grad


def test_zero_grad_drops_or_zeroes() -> None:
    a = ferro.ones(2, requires_grad=True)
    optimizer = optim.SGD([a])
    a.sum().backward()
    grad = a.grad
    optimizer.zero_grad(set_to_none=False)
    assert grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert a.grad is None


def test_step_hooks_run_around_the_step() -> None:
    a = ferro.ones(1, requires_grad=True)
    a.grad = ferro.ones(1)
    optimizer = optim.SGD([a], lr=1.0)
    seen: list[Any] = []
    handles = [
        optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("pre", a.item()))),
        optimizer.register_step_post_hook(lambda opt, args, kwargs: seen.append(("post", a.item()))),
    ]
    optimizer.step()
    assert seen == [("pre", 1.0), ("post", 0.0)]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 2


def test_state_dict_hooks_may_replace_the_dictionary() -> None:
    a = ferro.ones(1, requires_grad=True)
    optimizer = optim.SGD([a], lr=1.0)
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "note": 1})
    assert optimizer.state_dict()["note"] == 1
    optimizer.register_load_state_dict_pre_hook(
        lambda opt, state: {**state, "param_groups": [{"params": [0], "lr": 7}]}
    )
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["lr"] == 7


def test_an_optimiser_of_ones_own_has_hooks_too() -> None:
    class Sign(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 1.0})

        def step(self, closure: Any = None) -> None:
            with ferro.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        param.sub_(param.grad.sign(), alpha=group["lr"])

    a = ferro.tensor([3.0, -3.0], requires_grad=True)
    optimizer = Sign([a])
    calls: list[Any] = []
    optimizer.register_step_post_hook(lambda *args: calls.append(args))
    (a * a).sum().backward()
    optimizer.step()
    assert a.tolist() == [2.0, -2.0]
    assert len(calls) == 1


def test_lr_may_be_a_tensor() -> None:
    a = ferro.ones(1, requires_grad=True)
    a.grad = ferro.ones(1)
    lr = ferro.tensor(0.5)
    optimizer = optim.SGD([a], lr=lr)
    optimizer.step()
    assert a.item() == 0.5
    optim.lr_scheduler.ExponentialLR(optimizer, 0.1).step()
    assert lr.item() == pytest.approx(0.05)


def with_grad(a: Any) -> Any:
    """The same leaf, with a dense gradient."""
    a.grad = ferro.ones_like(a)
    return a


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda a: optim.SGD(a), TypeError, "iterable of Tensors or dicts"),
        (lambda a: optim.SGD([]), ValueError, "empty parameter list"),
        (lambda a: optim.SGD([1.0]), TypeError, "can only optimize Tensors"),
        (lambda a: optim.SGD([a * 2]), ValueError, "non-leaf"),
        (lambda a: optim.SGD([a], lr=ferro.ones(2)), ValueError, "Tensor lr must be 1-element"),
        (lambda a: optim.Adam([a], lr=ferro.tensor(1.0), foreach=True), ValueError, "lr as a Tensor is not supported"),
        (
            lambda a: optim.SparseAdam([with_grad(a)]).step(),
            RuntimeError,
            "SparseAdam does not support dense gradients",
        ),
        (lambda a: optim.Rprop([a], etas=(1.1, 1.2)), ValueError, "Invalid eta values: 1.1, 1.2"),
        (lambda a: optim.Adafactor([a], d=0.5), ValueError, "Clipping threshold d should be >= 1 but is: 0.5"),
        (lambda a: optim.Muon([a]), ValueError, "Muon only supports 2D parameters"),
        (lambda a: optim.SGD([{"params": a}, {"params": a}]), ValueError, "more than one parameter group"),
        (lambda a: optim.SGD([{"params": {a}}]), TypeError, "ordered collections"),
        (lambda a: optim.SGD([a], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda a: optim.SGD([a], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda a: optim.SGD([a], differentiable=True, fused=True), RuntimeError, "`fused` does not support"),
        (lambda a: optim.Adam([a], betas=(0.9, 1.0)), ValueError, "Invalid beta parameter at index 1: 1.0"),
        (lambda a: optim.Adam([a], eps=-1.0), ValueError, "Invalid epsilon value: -1.0"),
        (lambda a: optim.Adadelta([a], rho=2.0), ValueError, "Invalid rho value: 2.0"),
        (lambda a: optim.LBFGS([{"params": [a]}, {"params": []}]), ValueError, "per-parameter options"),
        (lambda a: optim.LBFGS([a]).step(), TypeError, "closure"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(ferro.ones(2, requires_grad=True))


def test_state_of_another_model_is_refused() -> None:
    a, b = ferro.ones(2, requires_grad=True), ferro.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([a]).load_state_dict(optim.SGD([{"params": [a]}, {"params": [b]}]).state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD([a]).load_state_dict(optim.SGD([a, b]).state_dict())


def test_wrapper_that_was_never_initialised_steps() -> None:
    """Libraries derive from Optimizer for `isinstance` alone and hand everything to the optimiser they hold."""

    class Wrapper(ferro.optim.Optimizer):
        def __init__(self, inner: ferro.optim.Optimizer) -> None:
            self.inner = inner

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    x = ferro.ones(2, requires_grad=True)
    inner = ferro.optim.SGD([x], lr=0.5)
    calls: list[str] = []
    inner.register_step_post_hook(lambda *args: calls.append("after"))
    x.sum().backward()
    Wrapper(inner).step()
    assert x.tolist() == [0.5, 0.5]
    assert calls == ["after"]


def test_wrapper_that_asks_for_its_hooks_has_them() -> None:
    """Such a library calls `_patch_step_function` in place of `__init__`; its step then runs between hooks of its own."""

    class Wrapper(ferro.optim.Optimizer):
        def __init__(self, inner: ferro.optim.Optimizer) -> None:
            self.inner = inner
            self._patch_step_function()

        def step(self, closure: Any = None) -> Any:
            calls.append("step")
            return self.inner.step(closure)

    x = ferro.ones(2, requires_grad=True)
    calls: list[str] = []
    wrapper = Wrapper(ferro.optim.SGD([x], lr=0.5))
    wrapper.register_step_pre_hook(lambda *args: calls.append("before"))
    wrapper.register_step_post_hook(lambda *args: calls.append("after"))
    x.sum().backward()
    wrapper.step()
    assert x.tolist() == [0.5, 0.5]
    assert calls == ["before", "step", "after"]
