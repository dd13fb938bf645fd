"""What a function does to the tape: gradients of any order, hooks, random numbers, writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ferro
from ferro import nn
from ferro.nn import functional as F
from tests.graph.programs.declared import as_written, leaf, numbers, replayed

# -- tapes -------------------------------------------------------------------------------------------------------------


@replayed()
def two_calls_before_one_backward(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: (x * w).tanh())
    for i in range(5):
        w.grad = None
        (f(numbers(3, seed=i)).sum() + f(numbers(3, seed=i + 1)).prod()).backward()
        yield w.grad


@replayed()
def a_call_feeds_the_next_one(compile: Callable) -> Iterator[Any]:
    w = leaf(3, 3)
    f = compile(lambda x: (x @ w).tanh())
    for i in range(5):
        w.grad = None
        x = leaf(2, 3, seed=i)
        f(f(f(x))).sum().backward()
        yield w.grad, x.grad


@replayed()
def backward_is_run_twice(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: (x * w).exp())
    for i in range(5):
        w.grad = None
        y = f(numbers(3, seed=i)).sum()
        y.backward(retain_graph=True)
        y.backward()
        yield w.grad
        try:
            y.backward()
        except RuntimeError as error:
            yield "second time" in str(error)


@replayed()
def gradients_of_gradients(compile: Callable) -> Iterator[Any]:
    w = leaf(4)
    f = compile(lambda x: ((x * w).tanh() * x).sum())
    for i in range(5):
        x = leaf(4, seed=i)
        (g,) = ferro.autograd.grad(f(x), x, create_graph=True)
        (h,) = ferro.autograd.grad((g * g).sum(), x, create_graph=True)
        w.grad = None
        h.prod().backward()
        yield g, h, x.grad, w.grad


@replayed()
def one_of_two_results_is_used(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def f(x: Any) -> Any:
        return (x * w).exp(), (w / 0.0) * x

    f = compile(f)
    for i in range(5):
        w.grad = None
        f(numbers(3, seed=i))[0].sum().backward()
        yield w.grad


@replayed()
def hooks_see_the_gradients(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    seen: list = []
    f = compile(lambda x: (x * w).exp())
    for i in range(5):
        y = f(numbers(3, seed=i))
        y.register_hook(lambda g: seen.append(g) or g * 2)
        y.retain_grad()
        w.grad = None
        y.sum().backward()
        yield w.grad, y.grad, list(seen)


@replayed()
def a_saved_tensor_is_changed(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: (x * w).exp())
    for i in range(5):
        x = numbers(3, seed=i)
        y = f(x).sum()
        if i % 2:
            x.add_(1)
        try:
            y.backward()
        except RuntimeError as error:
            yield "modified by an inplace operation" in str(error)
        yield w.grad


@replayed()
def a_detached_path(compile: Callable) -> Iterator[Any]:
    w = leaf(3)
    f = compile(lambda x: (x * w).detach() * w)
    for i in range(5):
        w.grad = None
        f(numbers(3, seed=i)).sum().backward()
        yield w.grad


@replayed()
def results_stay_after_the_next_call(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x * 2 + 1)
    kept = []
    for i in range(5):
        kept.append(f(numbers(3, seed=i)))
        yield list(kept)


# -- random numbers and writes -----------------------------------------------------------------------------------------


@replayed()
def dropouts_of_two_sizes(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(7)

    def f(x: Any, y: Any) -> Any:
        return F.dropout(x, 0.5).sum() + F.dropout(y, 0.25).sum() + ferro.rand(2).sum()

    f = compile(f)
    for i in range(5):
        yield f(numbers(3, seed=i), numbers(7, seed=i)), ferro.rand(1)


@replayed()
def dropout_has_gradients(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(7)
    w = leaf(30)
    f = compile(lambda x: F.dropout(x * w, 0.5).exp())
    for i in range(5):
        w.grad = None
        f(numbers(30, seed=i)).sum().backward()
        yield w.grad, ferro.get_rng_state()


@replayed()
def views_are_written(compile: Callable) -> Iterator[Any]:
    def f(x: Any) -> Any:
        y = x * 2
        y[1:].add_(10)
        y.t()[0] = 5
        y[0, 0] = -1
        return y + 0

    f = compile(f)
    for i in range(5):
        yield f(numbers(3, 3, seed=i))


@replayed()
def activations_in_place(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 5), nn.SiLU(inplace=True), nn.Linear(5, 2)
    )
    f = compile(lambda x: model(x))
    for i in range(5):
        model.zero_grad()
        x = leaf(3, 4, seed=i)
        y = f(x)
        y.sum().backward()
        yield y, x.grad, [p.grad for p in model.parameters()]


@replayed()
def parts_are_written(compile: Callable) -> Iterator[Any]:
    w = leaf(4, 3)

    def f(x: Any) -> Any:
        y = x * w
        y[0] = x[1] * 2
        y += 1
        y[1:3].mul_(w[2])
        y[y.detach() > 1.5] = 0.5
        return y * w, y

    f = compile(f)
    for i in range(5):
        w.grad = None
        x = leaf(4, 3, seed=i)
        y, z = f(x)
        (y.sum() + z.prod()).backward()
        yield y, z, x.grad, w.grad


@as_written("writes into memory that gradients meet")
def a_part_is_written_unseen(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def f(x: Any) -> Any:
        y = x * w
        part = y.detach()[1:]
        y.add_(2)
        with ferro.no_grad():
            ferro.add(x[1:], x[1:], out=part)
        return y + w

    f = compile(f)
    for i in range(4):
        w.grad = None
        y = f(numbers(3, seed=i))
        y.sum().backward()
        yield y, w.grad


@replayed()
def a_loop_that_adds_up(compile: Callable) -> Iterator[Any]:
    w = leaf(3)

    def f(x: Any) -> Any:
        total = ferro.zeros(3)
        for i in range(4):
            total += (x * w) ** i
        return total.tanh_()

    f = compile(f)
    for i in range(5):
        w.grad = None
        f(numbers(3, seed=i)).sum().backward()
        yield w.grad


@as_written("writes into memory that gradients meet")
def a_view_from_before_a_write(compile: Callable) -> Iterator[Any]:
    w = leaf(4, 3)

    def f(x: Any) -> Any:
        y = x * w
        v = y[1:]
        y.mul_(2)
        return (v.detach() * y[1:]).sum()

    f = compile(f)
    for i in range(4):
        w.grad = None
        f(numbers(4, 3, seed=i)).backward()
        yield w.grad


@replayed()
def an_argument_is_written(compile: Callable) -> Iterator[Any]:
    def f(x: Any) -> Any:
        x.mul_(2)
        x[0] = 7
        return x.sum()

    f = compile(f)
    for i in range(5):
        x = numbers(3, seed=i)
        yield f(x), x, x._version


@replayed()
def an_argument_is_returned(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: F.dropout(x, training=False))
    for i in range(5):
        x = numbers(3, seed=i)
        yield f(x) is x


@as_written("shares memory")
def a_view_of_an_argument_is_returned(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x: x[0])
    for i in range(4):
        x = numbers(2, 3, seed=i)
        y = f(x)
        y.add_(1)
        yield x, y, y._base is x


@replayed()
def running_statistics(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    f = compile(model)
    for i in range(5):
        model.zero_grad()
        f(numbers(5, 4, seed=i)).sum().backward()
        yield [p.grad for p in model.parameters()], list(model.buffers()), [b._version for b in model.buffers()]


# -- requires_grad_ ----------------------------------------------------------------------------------------------------


@replayed(2)
def parts_are_frozen_in_turn(compile: Callable) -> Iterator[Any]:
    w, v = leaf(3, 4), leaf(4)

    def step(x: Any) -> Any:
        v.requires_grad_(False)
        w.grad = v.grad = None
        first = ((x @ w).tanh() @ v).sum()
        first.backward()
        v.requires_grad_()
        second = ((x @ w).detach() @ v).square().sum()
        second.backward()
        return first.detach() + second.detach()

    f = compile(step)
    for i in range(5):
        v.requires_grad_(i != 3)  # (the guards ask as it was before the call)
        yield f(numbers(2, 3, seed=i)), w.grad, v.grad, v.requires_grad
        v.requires_grad_()


@replayed()
def an_input_is_told_to_require_a_gradient(compile: Callable) -> Iterator[Any]:
    w = leaf(3, 4)

    def residual(x: Any) -> Any:
        x.requires_grad_()
        (slope,) = ferro.autograd.grad((x @ w).tanh().sum(), x, create_graph=True)
        return (slope - x).square().sum()

    f = compile(residual)
    for i in range(5):
        w.grad = None
        x = numbers(2, 3, seed=i)
        f(x).backward()
        yield x.grad, w.grad, x.requires_grad
