"""Whole steps of training, and errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ferro
from ferro import nn
from ferro.nn import functional as F
from tests.graph.programs.declared import as_written, leaf, numbers, replayed

# -- whole steps -------------------------------------------------------------------------------------------------------


def trained(compile: Callable, make: Callable, schedule: bool = False) -> Iterator[Any]:
    """A small model, its optimiser and perhaps a schedule of rates, in one function."""
    ferro.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = make(model.parameters())
    scheduler = ferro.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) if schedule else None

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return loss

    step = compile(step)
    for i in range(7):
        loss = step(numbers(6, 4, seed=i), numbers(6, 1, seed=i))
        try:
            loss.backward()
        except RuntimeError as error:
            yield "second time" in str(error)
        yield (
            loss.detach(),
            list(model.parameters()),
            [p.grad for p in model.parameters()],
            optimizer.param_groups[0]["lr"],
        )


@replayed()
def steps_of_sgd(compile: Callable) -> Iterator[Any]:
    yield from trained(compile, lambda p: ferro.optim.SGD(p, 0.1, momentum=0.9))


@replayed()
def steps_of_adam_with_a_schedule(compile: Callable) -> Iterator[Any]:
    yield from trained(compile, lambda p: ferro.optim.Adam(p, 0.1), True)


@replayed(2)
def a_gradient_is_there_or_not(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def f(x: Any) -> Any:
        if w.grad is not None:
            x = x + w.grad
        return (x * w).sum()

    f = compile(f)
    for i in range(6):
        if i < 3:
            w.grad = None
        y = f(numbers(3))
        y.backward()
        yield y, w.grad


@as_written("LBFGS evaluates a closure")
def a_closure_is_evaluated_many_times(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    optimizer = ferro.optim.LBFGS([w], 0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((w - 1) ** 2).sum()
        loss.backward()
        return loss

    f = compile(lambda: optimizer.step(closure))
    for _ in range(3):
        yield f(), w


@replayed()
def checkpoints(compile: Callable) -> Iterator[Any]:
    from ferro.utils.checkpoint import checkpoint

    w = leaf(3)

    def step(x: Any) -> Any:
        w.grad = None
        y = checkpoint(lambda v: (v * w).exp(), x, use_reentrant=False).sum()
        y.backward()
        return y.detach()

    step = compile(step)
    for i in range(5):
        yield step(numbers(3, seed=i)), w.grad


@as_written("custom Function|history")
def a_custom_function_inside(compile: Callable) -> Iterator[Any]:
    class Cube(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

    w = leaf(3)
    f = compile(lambda x: Cube.apply(x * w))
    for i in range(4):
        w.grad = None
        f(numbers(3, seed=i)).sum().backward()
        yield w.grad


# -- errors ------------------------------------------------------------------------------------------------------------


@replayed()
def an_index_is_out_of_range(compile: Callable) -> Iterator[Any]:
    table = numbers(4, 2)
    f = compile(lambda i: F.embedding(i, table))
    for i in (0, 1, 2, 9, 3):
        try:
            yield f(ferro.tensor([i]))
        except IndexError:
            yield "IndexError"


@replayed()
def an_exception_midway(compile: Callable) -> Iterator[Any]:
    w = numbers(3)

    def f(x: Any, n: int) -> Any:
        w.add_(1)
        if n == 3:
            raise ValueError("three")
        return x * w

    f = compile(f)
    for n in (0, 0, 0, 3, 3, 0):
        try:
            yield f(numbers(3), n), w
        except ValueError as error:
            yield str(error), w


@replayed()
def nan_and_infinity(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: (x * 0 + x / x).sum() + x.max() * math.inf)
    for value in (1.0, math.nan, math.inf, -0.0, 0.0):
        yield f(ferro.tensor([value, 2.0]))
