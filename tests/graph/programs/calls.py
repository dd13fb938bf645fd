"""How a function is called: modes, arguments, Python that needs numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import ferro
from ferro import nn
from tests.graph.programs.declared import as_written, leaf, numbers, replayed

# -- modes -------------------------------------------------------------------------------------------------------------


@replayed(2)
def training_is_switched_off(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    f = compile(model)
    for i in range(8):
        model.train(i < 4)
        yield (
            f(numbers(5, 4, seed=i)),
            model[1].running_mean.clone(),
            model[1].running_var.clone(),
            model[1].num_batches_tracked,
        )


@replayed(2)
def gradients_are_switched_off(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: (x * w).exp())
    for i in range(6):
        with ferro.set_grad_enabled(i < 3):
            y = f(numbers(3))
        yield y, y.requires_grad


@replayed(2)
def autocast_is_switched_on(compile: Callable) -> Iterator[Any]:
    w = numbers(8, 8)
    f = compile(lambda x: x @ w)
    for i in range(6):
        with ferro.autocast("cpu", dtype=ferro.bfloat16, enabled=i >= 3):
            yield f(numbers(4, 8)).float()


@replayed(2)
def inference_mode_is_switched_on(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: x * w)
    for i in range(6):
        with ferro.inference_mode(i >= 3):
            y = f(numbers(3))
            yield y, y.is_inference(), y.requires_grad


@replayed(2)
def the_default_dtype_changes(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x + ferro.ones(3) / 3)
    try:
        for i in range(6):
            ferro.set_default_dtype(ferro.float64 if i >= 3 else ferro.float32)
            yield f(numbers(3))
    finally:
        ferro.set_default_dtype(ferro.float32)


@replayed()
def forward_mode_runs_as_written_in_between(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x.exp() * x)
    for i in range(5):
        if i == 3:
            yield ferro.func.jvp(f, (numbers(3),), (numbers(3, seed=1),))
            yield ferro.func.vmap(f)(numbers(2, 3))
        yield f(numbers(3))


# -- arguments ---------------------------------------------------------------------------------------------------------


@replayed(2)
def shapes_change(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x.sum(0) * x.shape[0])
    for n in (3, 3, 3, 4, 4, 4):
        yield f(numbers(n, 2))


@replayed(2)
def an_argument_begins_to_require_a_gradient(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x * x)
    for i in range(6):
        x = numbers(3).requires_grad_(i >= 3)
        y = f(x)
        if i >= 3:
            y.sum().backward()
        yield y, y.requires_grad, x.grad


@replayed(2)
def the_layout_changes(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x.exp().reshape(-1) * 2)
    for i in range(6):
        x = numbers(3, 3)
        yield f(x if i < 3 else x.t())


@replayed(2)
def two_arguments_become_one(compile: Callable) -> Iterator[Any]:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    f = compile(f)
    for i in range(6):
        x, y = numbers(3), numbers(3, seed=1)
        yield (f(x, y) if i < 3 else f(x, x)), x, y


@replayed()
def overlapping_arguments_are_written(compile: Callable) -> Iterator[Any]:
    def f(x: Any, y: Any) -> Any:
        a = y * 2
        x.mul_(3)
        b = y * 2
        return a + b

    f = compile(f)
    for i in range(6):
        base = numbers(6)
        yield f(base[:3], base[3:] if i < 3 else base[1:4]), base


@replayed(2)
def keywords_and_nesting(compile: Callable) -> Iterator[Any]:
    def f(pair: Any, *, more: Any = None) -> Any:
        x, rest = pair
        return {"sum": x + rest["y"], "more": None if more is None else more * 2, "n": 3}

    f = compile(f)
    for i in range(6):
        yield f((numbers(2), {"y": numbers(2, seed=1)}), more=numbers(1) if i >= 3 else None)


@replayed()
def lists_are_not_shared_between_calls(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: [x * 2, (x * 3, x)])
    for _ in range(4):
        x = numbers(2)
        y = f(x)
        y[0].add_(1)
        yield y, y[1][1] is x
        y.append(None)


@as_written("changes a list|changes a dict|argument")
def a_list_argument_is_filled(compile: Callable) -> Iterator[Any]:
    def f(x: Any, found: list) -> Any:
        found.append(x * 2)
        return x + 1

    f = compile(f)
    for _ in range(4):
        found: list = []
        yield f(numbers(2), found), found


# -- Python that needs numbers -----------------------------------------------------------------------------------------


@as_written("asks for the numbers")
def a_branch_depends_on_the_data(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x * 2 if x.sum() > 0 else x - 5)
    for s in (1, 1, 1, -1, -1):
        yield f(numbers(3).abs() * s)


@as_written("asks for the numbers")
def item_is_used_as_a_number(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x / x.abs().max().item())
    for i in range(4):
        yield f(numbers(3, seed=i))


@as_written("asks for the numbers")
def a_gradient_passes_a_call_that_gave_up(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def f(x: Any) -> Any:
        y = (x * w).exp()
        scale = float(y.detach().sum())
        return (y * scale).tanh() * w

    f = compile(f)
    for i in range(4):
        w.grad = None
        y = f(numbers(3, seed=i))
        (g,) = ferro.autograd.grad(y.sum(), w, create_graph=True)
        (g * g).sum().backward()
        yield y, g, w.grad


@as_written("depends on the data|asks for the numbers|no array|nonzero")
def a_shape_depends_on_the_data(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x[x > 0] * 2)
    for i in range(4):
        yield f(numbers(6, seed=i))


@as_written("calls")
def python_draws_a_number(compile: Callable) -> Iterator[Any]:
    random.seed(3)
    f = compile(lambda x: x * random.random())
    for _ in range(4):
        yield f(numbers(3))


@as_written("calls print")
def something_is_printed(compile: Callable) -> Iterator[Any]:
    def f(x: Any) -> Any:
        print("called", end="")
        return x * 2

    f = compile(f)
    for _ in range(3):
        yield f(numbers(3))


@as_written("iterator")
def an_iterator_moves_on(compile: Callable) -> Iterator[Any]:
    steps = iter(range(10))
    f = compile(lambda x: x * next(steps))
    for _ in range(4):
        yield f(numbers(3))


# -- floats ------------------------------------------------------------------------------------------------------------


@replayed(1)
def a_rate_falls_at_each_call(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def step(x: Any, rate: float) -> Any:
        loss = ((w * x).tanh() * (1 - rate / 3)).sum()
        (g,) = ferro.autograd.grad(loss, w)
        with ferro.no_grad():
            w.sub_(rate * g)
        return loss.detach(), -rate * x + rate

    step = compile(step)
    for i in range(8):
        yield step(numbers(3, seed=i), 0.5**i), w


@replayed(1)
def a_weight_of_a_loss_changes(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x, beta=0.5: (x * w).exp().sum() + beta * (w * w).sum())
    for i in range(6):
        w.grad = None
        f(numbers(3, seed=i), beta=i / 7).backward()
        yield w.grad


@replayed(5)
def a_float_decides(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, t: x * t if t > 0.5 else x - t)
    for t in (0.1, 0.1, 0.2, 0.3, 0.9, 0.9, 0.8, 0.8):
        yield f(numbers(3), t)


@replayed(4)
def a_float_is_read_by_other_functions(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, t: x * math.sqrt(t) + ferro.tensor(t) + ferro.full((3,), t))
    for t in (0.1, 0.1, 0.2, 0.3, 0.9, 0.9):
        yield f(numbers(3), t)


@replayed(4)
def a_float_is_a_parameter(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, p: ferro.add(x, x, alpha=p).clamp(max=p) ** p)
    for p in (0.1, 0.1, 0.2, 0.3, 0.9, 0.9):
        yield f(numbers(3).abs(), p)


@replayed(4)
def a_float_is_given_back(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, t: (x + t, t * 2, f"{t}"))
    for t in (0.1, 0.1, 0.2, 0.3, 0.9, 0.9):
        x, y, said = f(numbers(3), t)
        yield x, y, type(y), said


@replayed(1)
def a_float_of_half_precision(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, t: x.bfloat16() + t + (x.double() - t).sum())
    for i in range(6):
        yield f(numbers(3), i / 3).float()
