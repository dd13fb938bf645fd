"""What the Python of a function reads: closures, globals, attributes, tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ferro
from ferro import nn
from ferro.nn import functional as F
from tests.graph.programs.declared import as_written, leaf, numbers, replayed

# -- closures, globals, attributes -------------------------------------------------------------------------------------


@replayed(2)
def a_number_in_a_closure_changes(compile: Callable) -> Iterator[Any]:
    scale = 2

    def f(x: Any) -> Any:
        return x * scale

    f = compile(f)
    for scale in (2, 2, 2, 3, 3, 3):  # noqa: B007 (f reads it)
        yield f(numbers(3))


FACTOR: Any = 2.0


@replayed(2)
def a_global_is_set_between_calls(compile: Callable) -> Iterator[Any]:
    global FACTOR  # noqa: PLW0603
    f = compile(lambda x: x * FACTOR)
    FACTOR = 2.0
    for i in range(6):
        if i == 3:
            FACTOR = 5.0
        yield f(numbers(3))


@as_written("changes what it reads")
def a_counter_in_a_closure_counts(compile: Callable) -> Iterator[Any]:
    count = 0

    @compile
    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    for _ in range(5):
        yield f(numbers(3)), count


class Counting(nn.Module):
    """Counts its calls, and decides by the count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.lin = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.lin(x) if self.calls % 2 else x


@as_written("changes what it reads")
def a_module_counts_its_calls(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = Counting()
    f = compile(model)
    for _ in range(5):
        yield f(numbers(2, 3)), model.calls


@as_written("changes a list that was there before")
def results_are_kept_in_a_list(compile: Callable) -> Iterator[Any]:
    kept: list = []

    def f(x: Any) -> Any:
        y = x.exp()
        kept.append(y)
        return y + 1

    f = compile(f)
    for _ in range(4):
        yield f(numbers(3)), len(kept), kept[-1]


class Keeping(nn.Module):
    """Keeps its last activation."""

    last: Any = None

    def forward(self, x: Any) -> Any:
        y = x.tanh()
        self.last = y.detach()
        return y * 2


@as_written("sets|another tensor|changes what it reads")
def a_module_keeps_its_activation(compile: Callable) -> Iterator[Any]:
    model = Keeping()
    f = compile(model)
    for i in range(4):
        yield f(numbers(3, seed=i)), model.last


@replayed(2)
def a_dictionary_of_settings_changes(compile: Callable) -> Iterator[Any]:
    settings = {"power": 2, "shift": 1.0}
    f = compile(lambda x: x ** settings["power"] + settings["shift"])
    for i in range(6):
        if i == 3:
            settings["shift"] = 4.0
        yield f(numbers(3))


class Settings:
    """Plain attributes."""

    def __init__(self) -> None:
        self.deep = True
        self.rate = 0.5


@replayed(2)
def an_object_of_settings_changes(compile: Callable) -> Iterator[Any]:
    settings = Settings()
    f = compile(lambda x: (x.exp() if settings.deep else x) * settings.rate)
    for i in range(6):
        if i == 3:
            settings.deep = False
        yield f(numbers(3))


@replayed(2)
def a_function_that_is_called_is_replaced(compile: Callable) -> Iterator[Any]:
    parts: dict[str, Callable] = {"act": F.relu}
    f = compile(lambda x: parts["act"](x))
    for i in range(6):
        if i == 3:
            parts["act"] = F.gelu
        yield f(numbers(5))


@replayed(2)
def a_list_of_layers_grows(compile: Callable) -> Iterator[Any]:
    layers = [ferro.sin]

    def f(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    f = compile(f)
    for i in range(6):
        if i == 3:
            layers.append(ferro.exp)
        yield f(numbers(5))


@replayed(1)
def minus_zero_is_another_number(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, y: x * y)
    for y in (0.0, 0.0, 0.0, -0.0, -0.0):
        yield f(numbers(3), y)


@replayed(2)
def true_is_not_one(compile: Callable) -> Iterator[Any]:
    f = compile(lambda x, flag: x + 1 if flag is True else x - 1)
    for flag in (1, 1, 1, True, True):
        yield f(numbers(3), flag)


# -- tensors that are read ---------------------------------------------------------------------------------------------


@replayed()
def weights_are_replaced(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Linear(3, 2)
    f = compile(model)
    for i in range(6):
        if i % 2:
            model.weight = nn.Parameter(numbers(2, 3, seed=i))
        yield f(numbers(4, 3))


@replayed(2)
def a_weight_is_frozen(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    f = compile(model)
    for i in range(6):
        model.zero_grad()
        if i == 3:
            model[0].weight.requires_grad_(False)
        f(numbers(4, 3, seed=i)).sum().backward()
        yield [p.grad for p in model.parameters()]


@replayed()
def a_buffer_is_replaced(compile: Callable) -> Iterator[Any]:
    model = nn.Module()
    model.register_buffer("shift", numbers(3))
    f = compile(lambda x: x + model.shift)
    for i in range(6):
        if i % 2:
            model.shift = numbers(3, seed=i)
        yield f(numbers(2, 3))


@replayed(2)
def a_tensor_changes_its_dtype(compile: Callable) -> Iterator[Any]:
    held = {"w": numbers(3)}
    f = compile(lambda x: x * held["w"])
    for i in range(6):
        if i == 3:
            held["w"] = held["w"].double()
        yield f(numbers(3))


@replayed(2)
def a_bias_disappears(compile: Callable) -> Iterator[Any]:
    ferro.manual_seed(0)
    model = nn.Linear(3, 2)
    f = compile(model)
    for i in range(6):
        if i == 3:
            model.bias = None
        yield f(numbers(4, 3))


@replayed(2)
def a_layer_is_replaced_by_another_kind(compile: Callable) -> Iterator[Any]:
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    f = compile(model)
    for i in range(6):
        if i == 3:
            model[0] = nn.Sigmoid()
        yield f(numbers(4, 3))


@replayed(2)
def a_hook_is_added(compile: Callable) -> Iterator[Any]:
    model = nn.Sequential(nn.Tanh(), nn.Tanh())
    f = compile(model)
    for i in range(7):
        if i == 3:
            handle = model[0].register_forward_hook(lambda m, a, out: out * 2)
        if i == 6:
            handle.remove()
        yield f(numbers(4, 3))


@as_written("NumPy array")
def a_numpy_array_is_read(compile: Callable) -> Iterator[Any]:
    table = np.arange(3, dtype=np.float32)
    f = compile(lambda x: x + ferro.from_numpy(table))
    for _ in range(4):
        table += 1
        yield f(numbers(3))


@replayed()
def the_same_tensor_is_changed_in_place_between_calls(compile: Callable) -> Iterator[Any]:
    w = numbers(3)
    f = compile(lambda x: x * w)
    for _ in range(5):
        w.add_(1)
        yield f(numbers(3))


@replayed(3)
def groups_of_rows(compile: Callable) -> Iterator[Any]:
    w = leaf(2, 3, 4)
    f = compile(lambda x, ends: F.grouped_mm(x, w, offs=ends))
    for i, ends in enumerate([[2, 5], [2, 5], [1, 5], [3, 4], [2, 5], [1, 5], [3, 4]]):
        w.grad = None
        y = f(numbers(5, 3, seed=i), ferro.tensor(ends, dtype=ferro.int32))
        y.square().sum().backward()
        yield y, w.grad


@as_written("captured 8 times, the last time because the graph was captured for the numbers")
def always_other_groups(compile: Callable) -> Iterator[Any]:
    table = numbers(20, 3)
    f = compile(lambda x, starts: F.embedding_bag(x, table, starts))
    for i in range(12):
        yield f(ferro.arange(20), ferro.tensor([0, i + 1]))


@as_written("found out behind a write")
def groups_behind_a_write(compile: Callable) -> Iterator[Any]:
    w, buffer = numbers(2, 3, 4), ferro.zeros(2, dtype=ferro.int32)

    def function(x: Any, ends: Any) -> Any:
        buffer.add_(ends)
        return F.grouped_mm(x, w, offs=buffer)

    f = compile(function)
    for i in range(4):
        yield f(numbers(9, 3, seed=i), ferro.tensor([1, 2], dtype=ferro.int32)), buffer
