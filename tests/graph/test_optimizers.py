"""Whole training steps captured: zero_grad, backward and an optimiser's step are replayed with eager's bits, by one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro.core import engine
from ferro.core.node import next_sequence
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F

OPTIMIZERS: dict[str, Callable] = {
    "SGD": lambda p: ferro.optim.SGD(p, 0.1),
    "SGD with momentum": lambda p: ferro.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: ferro.optim.Adam(p, 0.01),
    "Adam with amsgrad": lambda p: ferro.optim.Adam(p, 0.01, amsgrad=True, weight_decay=0.1, maximize=True),
    "AdamW": lambda p: ferro.optim.AdamW(p, 0.01),
    "two groups": lambda p: ferro.optim.Adam([{"params": p[:2], "lr": 0.1}, {"params": p[2:]}], 0.01),
    "a rate that is a tensor": lambda p: ferro.optim.Adam(p, ferro.tensor(0.01)),
    "RMSprop": lambda p: ferro.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: ferro.optim.Adagrad(p, 0.05, lr_decay=0.1),
    "Adadelta": lambda p: ferro.optim.Adadelta(p),
    "Adamax": lambda p: ferro.optim.Adamax(p),
    "NAdam": lambda p: ferro.optim.NAdam(p),
    "RAdam": lambda p: ferro.optim.RAdam(p),
    "Rprop": lambda p: ferro.optim.Rprop(p),
    "ASGD": lambda p: ferro.optim.ASGD(p),
    "Signs": lambda p: Signs(p),
}


class Signs(ferro.optim.Optimizer):
    """An optimiser that a user wrote: it moves by the signs of gradients, and adds random numbers."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01})

    def step(self, closure: Any = None) -> None:
        with ferro.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p -= group["lr"] * (p.grad.sign() + 0.1 * ferro.randn_like(p))


class Training:
    """A small model and its optimiser; two of a kind begin with the same numbers."""

    def __init__(self, make: Callable, dtype: Any = ferro.float32) -> None:
        ferro.manual_seed(2)
        self.model = ferro.nn.Sequential(ferro.nn.Linear(3, 5), ferro.nn.Tanh(), ferro.nn.Linear(5, 2)).to(dtype)
        self.optimizer = make(list(self.model.parameters()))

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list:
        found = [*self.model.parameters(), *[p.grad for p in self.model.parameters()]]
        for p in self.model.parameters():
            found += [v for v in self.optimizer.state[p].values() if isinstance(v, ferro.Tensor)]
        return found


def batch(dtype: Any = ferro.float32) -> tuple:
    return ferro.randn(4, 3, dtype=dtype), ferro.randint(0, 2, (4,))


def assert_same(mine: Training, its: Training) -> None:
    one, other = mine.state(), its.state()
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert same_bits(a._data, b._data)
        assert a._version == b._version


@pytest.mark.parametrize("dtype", [ferro.float32, ferro.float64], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_replayed_with_eagers_bits(name: str, dtype: Any) -> None:
    mine, its = Training(OPTIMIZERS[name], dtype), Training(OPTIMIZERS[name], dtype)
    data = batch(dtype)
    state = ferro.get_rng_state()
    graph = capture(mine.step, *data)  # the first step, in which the state begins
    ferro.set_rng_state(state)
    its.step(*data)
    assert_same(mine, its)
    for i in range(4):
        if i == 2:
            for training in (mine, its):
                for group in training.optimizer.param_groups:
                    group["lr"] = 0.5 * group["lr"]
        data = batch(dtype)
        state = ferro.get_rng_state()
        want = its.step(*data)
        after = ferro.get_rng_state()
        ferro.set_rng_state(state)
        got = graph.interpret(*data)
        assert same_bits(got[0]._data, want._data)
        assert ferro.equal(ferro.get_rng_state(), after)
        assert_same(mine, its)
    assert str(Graph.parse(str(graph))) == str(graph)


def test_fifty_steps_of_adam_with_a_schedule_take_one_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, its = Training(OPTIMIZERS["Adam"]), Training(OPTIMIZERS["Adam"])
    schedules = [ferro.optim.lr_scheduler.CosineAnnealingLR(t.optimizer, 50) for t in (mine, its)]
    data = [batch() for _ in range(50)]
    want = [its.step(*data[0])]
    schedules[1].step()
    for x in data[1:]:
        want.append(its.step(*x))
        schedules[1].step()
    graph = capture(mine.step, *data[0])
    schedules[0].step()
    monkeypatch.setattr(engine, "execute", None)  # no backward of eager's runs, and nothing is recorded
    before = next_sequence()
    for x, loss in zip(data[1:], want[1:], strict=True):
        assert same_bits(graph.interpret(*x)[0]._data, loss._data)
        schedules[0].step()
    assert next_sequence() == before + 1
    assert_same(mine, its)
    steps = [p["step"].item() for p in mine.optimizer.state.values()]
    assert steps == [50.0] * 4


def test_a_scheduler_inside_goes_on_in_each_replay() -> None:
    def begin() -> tuple:
        training = Training(OPTIMIZERS["SGD"])
        return training, ferro.optim.lr_scheduler.StepLR(training.optimizer, 2, 0.5)

    (mine, schedule), (its, other) = begin(), begin()

    def step(x: Any, y: Any) -> Any:
        loss = mine.step(x, y)
        schedule.step()
        return loss

    data = batch()
    graph = capture(step, *data)
    schedule_nodes = [node for node in graph.nodes if node.function == "program.schedule"]
    assert [node.args[0].name for node in schedule_nodes] == ["schedule"]
    for _ in range(4):
        its.step(*data)
        other.step()
        assert_same(mine, its)
        assert schedule.get_last_lr() == other.get_last_lr()
        data = batch()
        graph.interpret(*data)
    its.step(*data)
    other.step()
    assert_same(mine, its)


def test_a_scheduler_that_looks_at_the_loss() -> None:
    mine, its = Training(OPTIMIZERS["SGD"]), Training(OPTIMIZERS["SGD"])
    schedules = [
        ferro.optim.lr_scheduler.ReduceLROnPlateau(t.optimizer, patience=0, threshold=0.2) for t in (mine, its)
    ]

    def step(x: Any, y: Any) -> Any:
        loss = mine.step(x, y)
        schedules[0].step(loss.detach())
        return loss

    data = batch()
    graph = capture(step, *data)
    schedules[1].step(its.step(*data).detach())
    for _ in range(5):
        data = batch()
        graph.interpret(*data)
        schedules[1].step(its.step(*data).detach())
        assert schedules[0].get_last_lr() == schedules[1].get_last_lr()
        assert_same(mine, its)
    assert schedules[0].get_last_lr()[0] < 0.1


def test_state_that_is_loaded_is_used() -> None:
    mine, its = Training(OPTIMIZERS["Adam"]), Training(OPTIMIZERS["Adam"])
    for _ in range(3):
        its.step(*batch())
    graph = capture(mine.step, *batch())
    mine.optimizer.load_state_dict(its.optimizer.state_dict())
    mine.model.load_state_dict(its.model.state_dict())
    data = batch()
    graph.interpret(*data)
    its.step(*data)
    for a, b in zip(mine.model.parameters(), its.model.parameters(), strict=True):
        assert same_bits(a._data, b._data)


def test_a_step_is_one_node_that_names_what_it_reads_and_writes() -> None:
    training = Training(OPTIMIZERS["Adam"])
    graph = capture(training.step, *batch())
    (node,) = [node for node in graph.nodes if node.function == "program.step"]
    held, params, grads = node.args
    assert (held.kind, held.name, held.thing) == ("optimizer", "self.optimizer", training.optimizer)
    assert [v.tensor for v in params] == list(training.model.parameters())
    assert [v.node.function for v in grads] == ["tensor.accumulate_grad"] * 4
    again = Graph.parse(str(graph))
    data, tensors = batch(), [v.tensor for v in graph.bound]
    with pytest.raises(ValueError, match=r"the optimizer of the program \(self\.optimizer\) is not here"):
        again.interpret(*data, *tensors)
    its = Training(OPTIMIZERS["Adam"])
    its.optimizer.load_state_dict(training.optimizer.state_dict())
    its.model.load_state_dict(training.model.state_dict())
    again.held[0].thing = training.optimizer
    assert same_bits(again.interpret(*data, *tensors)[0]._data, its.step(*data)._data)
    for a, b in zip(training.model.parameters(), its.model.parameters(), strict=True):
        assert same_bits(a._data, b._data)


def test_hooks_of_a_step_and_gradients_without_zero_grad() -> None:
    mine, its = Training(OPTIMIZERS["SGD"]), Training(OPTIMIZERS["SGD"])
    for training in (mine, its):
        parameters = list(training.model.parameters())
        training.optimizer.register_step_pre_hook(
            lambda *_, parameters=parameters: ferro.nn.utils.clip_grad_value_(parameters, 0.05) and None
        )

    def step(training: Training, x: Any, y: Any) -> Any:
        loss = F.cross_entropy(training.model(x), y)
        loss.backward()
        training.optimizer.step()
        return loss

    data = batch()
    step(its, *data)
    step(mine, *data)
    graph = capture(lambda x, y: step(mine, x, y), *data)
    step(its, *data)
    for _ in range(3):
        data = batch()
        graph.interpret(*data)
        step(its, *data)
        assert_same(mine, its)


def test_a_closure_is_captured_where_it_is_evaluated_once() -> None:
    mine, its = Training(OPTIMIZERS["AdamW"]), Training(OPTIMIZERS["AdamW"])

    def step(training: Training, x: Any, y: Any) -> Any:
        def closure() -> Any:
            training.optimizer.zero_grad()
            loss = F.cross_entropy(training.model(x), y)
            loss.backward()
            return loss

        return training.optimizer.step(closure)

    data = batch()
    graph = capture(lambda x, y: step(mine, x, y), *data)
    step(its, *data)
    for _ in range(2):
        data = batch()
        assert same_bits(graph.interpret(*data)[0]._data, step(its, *data)._data)
        assert_same(mine, its)
    search = ferro.optim.LBFGS(mine.model.parameters())
    with pytest.raises(CaptureError, match=r"LBFGS evaluates a closure as often as it likes at .*test_optimizers\.py"):
        capture(lambda x: search.step(lambda: mine.step(x, ferro.tensor([0, 1, 0, 1]))), batch()[0])


def test_a_step_that_is_differentiated_is_captured_as_it_computes() -> None:
    w = ferro.ones(2, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        p = w * 1
        p.retain_grad()
        optimizer = ferro.optim.Adam([p], 0.1, differentiable=True)
        (p * x).sum().backward(create_graph=True)
        optimizer.step()
        return ferro.autograd.grad((p * p).sum(), w)[0]

    graph = capture(step, ferro.ones(2))
    x = ferro.randn(2)
    assert same_bits(graph.interpret(x)[0]._data, step(x)._data)
    optimizer = ferro.optim.Adam([w], differentiable=True)
    w.grad = ferro.ones(2)
    with pytest.raises(CaptureError, match=r"Adam is differentiable and changes .* at .*test_optimizers\.py"):
        capture(lambda x: optimizer.step(), x)
