"""Loops in graphs: as many trips as the data say, eager's bits forward and backward, what is kept, errors that show both sides."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F

WEIGHT = ferro.tensor([[0.5, -1.0, 0.2], [0.1, 0.7, -0.3], [-0.6, 0.2, 0.4]], requires_grad=True)


def powers(x: Any, w: Any, n: Any) -> Any:
    return ferro.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, (y * w + x).sin() * y), (ferro.tensor(0), x))[1]


def read_around(x: Any, w: Any, n: Any) -> Any:
    # (contributions to the gradients of x and w come from before, of all trips, and from after)
    y = x * w
    _, z = ferro.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, (y @ WEIGHT * w).tanh() + x * w), (n * 0, y))
    return (y + z @ WEIGHT).tanh() * x * w


def accumulated(x: Any, w: Any, n: Any) -> Any:
    # (the sum begins without a gradient)
    def body(i: Any, total: Any, y: Any) -> tuple:
        return i + 1, total + y * w, y.sin()

    return ferro.while_loop(lambda i, *_: i < n, body, (n * 0, ferro.zeros(3), x))[1] + x


def cut_off(x: Any, w: Any, n: Any) -> Any:
    # (the first value has a gradient only where no trip is made)
    a, b, _ = ferro.while_loop(
        lambda a, b, i: i < n, lambda a, b, i: (n * 1.0 + b.detach(), b * w, i + 1), (x, w, n * 0)
    )
    return a * b


def swapped(x: Any, w: Any, n: Any) -> Any:
    a, b, _ = ferro.while_loop(lambda a, b, i: i < n, lambda a, b, i: (b, a * 1.5, i + 1), (x, w, n * 0))
    return a.exp() + b


def fibonacci(x: Any, w: Any, n: Any) -> Any:
    return ferro.while_loop(lambda a, b, i: i < n, lambda a, b, i: (b, a + b, i + 1), (x, w, n * 0))[0]


def ring(x: Any, w: Any, n: Any) -> Any:
    def body(s: dict, i: Any) -> tuple:
        return {"a": s["b"], "b": s["c"] * 1.1, "c": s["a"].sin()}, i + 1

    found, _ = ferro.while_loop(lambda s, i: i < n, body, ({"a": x, "b": w, "c": x * w}, n * 0))
    return found["a"] * 3 + found["c"]


def by_the_data(x: Any, w: Any, n: Any) -> Any:
    return ferro.while_loop(lambda y: y.abs().max() > 0.1, lambda y: (y * 0.7 * (1 + w.tanh() / 4),), (x + n,))[0] * w


def drawing(x: Any, w: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> tuple:
        return i + 1, F.dropout(y * w, 0.3) + ferro.rand(3)

    return ferro.while_loop(lambda i, y: i < n, body, (n * 0, x))[1] + ferro.rand(3)


def cond_in_a_loop(x: Any, w: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> tuple:
        return i + 1, ferro.cond(y.sum() > 0, lambda y: (y * w).sin() - x, lambda y: (y + w).tanh() * y * w, (y,))

    return ferro.while_loop(lambda i, y: i < n, body, (n * 0, x))[1] * w


def loop_in_a_loop(x: Any, w: Any, n: Any) -> Any:
    def inner(y: Any, k: Any) -> Any:
        return ferro.while_loop(lambda j, y: j < k, lambda j, y: (j + 1, (y @ WEIGHT * w).sin() + y / 2), (k * 0, y))[1]

    def body(i: Any, y: Any) -> tuple:
        return i + 1, inner(y * w, i) @ WEIGHT + x

    return ferro.while_loop(lambda i, y: i < n, body, (n * 0, x))[1] @ WEIGHT * w


def writing_inside(x: Any, w: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> tuple:
        z = ferro.zeros(3)
        z[1:] = (y * w)[:2]
        z.add_(x)
        return i + 1, z * y

    return ferro.while_loop(lambda i, y: i < n, body, (n * 0, x))[1]


def scanned(x: Any, w: Any, n: Any) -> Any:
    last, ys = ferro.scan(lambda c, x: ((c * w + x).tanh(), c * x), w, x.outer(w + n))
    return (ys * ys).sum(0) + last


def scanned_backwards(x: Any, w: Any, n: Any) -> Any:
    def step(c: tuple, parts: dict) -> tuple:
        h = (c[0] @ WEIGHT + parts["x"] * w).tanh()
        return (h, c[1] + h * parts["k"]), [h * 2, parts["x"] * 1]

    xs = {"x": x.outer(w + 1), "k": ferro.arange(9.0).reshape(3, 3) + n}
    (h, total), (ys, again) = ferro.scan(step, (x, ferro.zeros(3)), xs, dim=1, reverse=True)
    return h * total + ys.sum(1) + (again @ WEIGHT)[0]


def scan_of_unread_results(x: Any, w: Any, n: Any) -> Any:
    last, _ = ferro.scan(lambda c, x: ((c[0] * w, c[1] + x), c[0].exp()), (x, w), x.outer(w + n))
    return last[1]


PROGRAMS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        *(powers, read_around, accumulated, cut_off, swapped, fibonacci, ring, by_the_data, drawing, cond_in_a_loop),
        *(loop_in_a_loop, writing_inside, scanned, scanned_backwards, scan_of_unread_results),
    )
}
TRIPS = (2, 0, 1, 3, 4, 7, 0)


def as_eager(got: Any, want: Any) -> bool:
    """Whether a gradient has eager's bits; where eager has none, because no trip was made, it is zeros."""
    if want is None:
        return got is None or not got.any()
    return same_bits(got._data, want._data)


def outcome(function: Callable, x: Any, w: Any, n: Any, state: Any) -> list:
    """The result, gradients, and the state of the generator behind it."""
    ferro.set_rng_state(state)
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    WEIGHT.grad = None
    y = function(x, w, n)
    (y * y).sum().backward()
    return [y, x.grad, w.grad, WEIGHT.grad, ferro.get_rng_state()]


def given(seed: int) -> tuple:
    ferro.manual_seed(seed)
    return ferro.randn(3), ferro.randn(3), ferro.tensor(TRIPS[seed % len(TRIPS)]), ferro.get_rng_state()


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_loops_have_eagers_bits_and_one_capture(name: str) -> None:
    function = PROGRAMS[name]
    compiled = ferro.compile(function, fullgraph=True)
    for seed in range(9):
        want, got = outcome(function, *given(seed)), outcome(compiled, *given(seed))
        if seed:
            assert all(map(as_eager, got, want)), seed
            continue
        # The call that is captured has the loop as one node on its own tape, whose gradients are added to others as one sum.
        assert same_bits(got[0]._data, want[0]._data)
        assert all(
            np.allclose(a._data, b._data, rtol=1e-4, atol=1e-6) for a, b in zip(got, want, strict=True) if b is not None
        )
    told = compiled.explain()
    assert (len(told.graphs), told.replays, told.eager) == (1, 8, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_of_loops_have_eagers_bits(name: str, tmp_path: Path) -> None:
    function = PROGRAMS[name]
    x, w, n, _ = given(0)
    graph = capture(function, x.requires_grad_(), w.requires_grad_(), n)
    assert sum(bool(node.graphs) for node in graph.nodes) == 1
    assert str(Graph.parse(str(graph))) == str(graph)
    graph.save(tmp_path / "graph")
    loaded = Graph.load(tmp_path / "graph")
    assert str(loaded) == str(graph)
    bound = [v.tensor for v in graph.bound]
    gradients = [g.differentiate() for g in (graph, loaded)]
    for seed in range(1, 9):
        x, w, n, state = given(seed)
        want = outcome(function, x, w, n, state)
        for g in (graph, loaded, graph.optimise(debug=True)):
            ferro.set_rng_state(state)
            (got,) = g.interpret(x, w, n, *bound)
            assert same_bits(got._data, want[0]._data)
            assert ferro.equal(ferro.get_rng_state(), want[-1])
        for gradient in (*gradients, gradients[0].optimise(debug=True)):
            ferro.set_rng_state(state)
            found = gradient.joint.interpret(x, w, n, want[0] + want[0], *bound)[1:]
            for k, place in enumerate(gradient.gradients):
                assert place is not None
                assert as_eager(found[place], want[1 + k])
        assert graph.compare(function, x, w, n) is None


def test_loops_give_what_python_gives() -> None:
    for seed in range(6):
        x, w, n, _ = given(seed)
        y = x._data
        for _ in range(n.item()):
            y = np.sin(y * w._data + x._data) * y
        assert np.allclose(powers(x, w, n)._data, y, rtol=1e-6)
    xs = ferro.randn(4, 5, 2)
    for dim, reverse in ((0, False), (1, True), (2, True), (-1, False)):
        last, ys = ferro.scan(lambda c, x: (c + x, c + x), xs.select(dim, 0) * 0, xs, dim=dim, reverse=reverse)
        moved = np.flip(xs._data, dim) if reverse else xs._data
        want = np.cumsum(moved, dim)
        assert np.allclose(ys._data, np.flip(want, dim) if reverse else want, rtol=1e-6)
        assert np.allclose(last._data, want.take(-1, dim), rtol=1e-6)


@pytest.mark.usefixtures("torch")
def test_scan_is_that_of_pytorch() -> None:
    import torch
    from torch._higher_order_ops.scan import scan

    numbers = np.arange(24.0).reshape(2, 3, 4)
    for dim in (0, 1, 2):
        for reverse in (False, True):
            results = []
            for of, function in ((ferro, ferro.scan), (torch, scan)):
                xs = of.tensor(numbers)
                last, ys = function(lambda c, x: (c + x, c * x), xs.select(dim, 0) * 0.5, xs, dim=dim, reverse=reverse)
                results.append((np.asarray(last), np.asarray(ys)))
            for got, want in zip(*results, strict=True):
                assert np.array_equal(got, want)


def test_results_share_no_memory_with_what_was_carried() -> None:
    def function(x: Any, n: Any) -> Any:
        _, y, z = ferro.while_loop(lambda i, y, z: i < n, lambda i, y, z: (i + 1, y, z + 1), (n * 0, x, x))
        y.add_(1)
        return y, z + x

    graph = capture(function, ferro.ones(3), ferro.tensor(2))
    for n in (0, 1, 3):
        x = ferro.ones(3)
        want = function(x, ferro.tensor(n))
        assert x.tolist() == [1, 1, 1]
        assert all(map(ferro.equal, graph.interpret(ferro.ones(3), ferro.tensor(n)), want))


def test_training_steps_with_loops() -> None:
    def trained(compiled: bool) -> list:
        ferro.manual_seed(3)
        cell, out = ferro.nn.RNNCell(3, 4), ferro.nn.Linear(4, 3)
        parameters = [*cell.parameters(), *out.parameters()]
        optimizer = ferro.optim.Adam(parameters)

        def step(xs: Any) -> Any:
            optimizer.zero_grad()
            _, ys = ferro.scan(lambda h, x: ((h := cell(x, h)), out(h)), ferro.zeros(2, 4), xs)
            value = F.mse_loss(out(cell(xs[0], ys[0].tanh() @ cell.weight_ih.T)) + ys[:-1], xs[1:])
            value.backward()
            optimizer.step()
            return value

        run = ferro.compile(step) if compiled else step
        values = [run(ferro.randn(5, 2, 3)) for _ in range(8)]
        if compiled:
            assert (len(run.explain().graphs), run.explain().replays, run.explain().fallbacks) == (1, 6, [])
        return [*values, *parameters]

    assert all(same_bits(a._data, b._data) for a, b in zip(trained(True), trained(False), strict=True))


def test_without_gradients_memory_is_constant() -> None:
    with ferro.no_grad():
        graph = capture(powers, *given(0)[:3])
    (node,) = [node for node in graph.nodes if node.graphs]
    assert len(node.outputs) == 2
    large = ferro.ones(100_000)
    with ferro.no_grad():
        graph = capture(powers, large, large, ferro.tensor(2))
    peaks = []
    for n in (3, 60):
        graph.interpret(large, large, ferro.tensor(n))
        tracemalloc.start()
        graph.interpret(large, large, ferro.tensor(n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + large.nbytes / 2


def test_memory_grows_by_what_is_kept() -> None:
    gradient = capture(powers, *[t.requires_grad_() for t in given(0)[:2]], ferro.tensor(2)).differentiate()
    (saved,) = [i for i, v in enumerate(gradient.forward.outputs) if v.dtype == object]
    for n in (0, 2, 5):
        kept = gradient.forward.interpret(ferro.ones(3), ferro.ones(3), ferro.tensor(n))[saved]._data[()][0]
        assert [len(trip[()][0]) for trip in kept] == [3] * n


def test_second_derivatives_of_compiled_loops() -> None:
    def second(function: Callable, x: Any, w: Any, n: Any) -> list:
        x, w = x.double().requires_grad_(), w.double().requires_grad_()
        g = ferro.autograd.grad(function(x, w, n).pow(2).sum(), (x, w), create_graph=True)
        return list(ferro.autograd.grad(sum(t.pow(2).sum() for t in g), (x, w)))

    def numbered(seed: int) -> tuple:
        return (*given(seed)[:2], ferro.tensor(seed % 3 + 1))

    for function in (powers, scanned):
        compiled = ferro.compile(function, fullgraph=True)
        for seed in range(6):
            for got, want in zip(second(compiled, *numbered(seed)), second(function, *numbered(seed)), strict=True):
                assert np.allclose(got._data, want._data, rtol=1e-12, atol=0)
        assert len(compiled.graphs) == 1
    graph = capture(powers, *[t.requires_grad_() for t in given(0)[:2]], ferro.tensor(2))
    with pytest.raises(NotImplementedError, match=r"while_loop: a derivative .*test_loops.py:\d+"):
        graph.differentiate().joint.differentiate(f=1, wrt=0)


# -- bad input ---------------------------------------------------------------------------------------------------------

THERE = ferro.zeros(3)
REFUSED: dict[str, tuple[Callable, Callable, str]] = {
    "shapes": (
        lambda x: x.sum() < 9,
        lambda x: (x[:, None] + x,),
        r"body of while_loop at .*gets float32\[3\] and gives float32\[3, 3\] at ",
    ),
    "dtypes": (lambda x: x.sum() < 9, lambda x: (x.double() + 1,), r"gets float32\[3\] and gives float64\[3\]"),
    "a condition of several": (lambda x: x < 0, lambda x: (x + 1,), r"condition of while_loop at .*gives bool\[3\]"),
    "a condition of numbers": (lambda x: x.sum(), lambda x: (x + 1,), r"gives float32\[\].*a bool tensor"),
    "a write into what it gets": (
        lambda x: x.sum() < 9,
        lambda x: (x.add_(1) * 1,),
        r"writes into a tensor of shape \[3\]",
    ),
    "a write into a global": (
        lambda x: x.sum() < 9,
        lambda x: (x + THERE.add_(1),),
        r"writes into a tensor of shape \[3\]",
    ),
    "a tensor from outside": (lambda x: x.sum() > 0, lambda x: (THERE,), r"gives a tensor from outside"),
    "a question": (lambda x: x.sum() < 9, lambda x: (x + 1 if x.sum() > 0 else x,), r"Python asks for the numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bodies_are_refused(name: str) -> None:
    condition, body, said = REFUSED[name]
    before = THERE.clone()
    with pytest.raises(CaptureError, match=re.compile(said, re.DOTALL)):
        capture(lambda x: ferro.while_loop(condition, body, (x,))[0] * 1, ferro.ones(3))
    assert ferro.equal(THERE, before)


def test_a_body_that_no_graph_holds_runs_as_it_is_written() -> None:
    def function(x: Any) -> Any:
        return ferro.while_loop(lambda x: x.sum() < 9, lambda x: (x + 1 if x.sum() > 0 else x + 2,), (x,))[0]

    compiled = ferro.compile(function)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in range(4):
            assert ferro.equal(compiled(ferro.ones(3) * (k - 1)), function(ferro.ones(3) * (k - 1)))
    assert len(told) == 1
    assert "Python asks for the numbers" in compiled.explain().fallbacks[0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: ferro.while_loop(3, abs, (x,)), "must be functions"),
        (lambda x: ferro.while_loop(abs, abs, x), "carried_inputs is a Tensor"),
        (
            lambda x: ferro.while_loop(lambda x: x.sum() < 9, lambda x: (x, x), (x,)),
            r"the body gets \(\*,\) and gives \(\*, \*\)",
        ),
        (lambda x: ferro.scan(3, x, x), "combine_fn is a int"),
        (lambda x: ferro.scan(lambda c, x: c, x, x), "combine_fn must give two things"),
        (lambda x: ferro.scan(lambda c, x: ((c, c), x), x, x), r"gets the carry \* and gives \(\*, \*\)"),
        (lambda x: ferro.scan(lambda c, x: (c, x), x, x[:0]), r"sizes of xs along dim 0 are \[0\]"),
        (lambda x: ferro.scan(lambda c, x: (c, x), x, (x, x[:2])), r"sizes of xs along dim 0 are \[3, 2\]"),
        (lambda x: ferro.scan(lambda c, x: (c, x), x, 3), "must be tensors"),
    ],
)
def test_wrong_arguments(call: Callable, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call(ferro.ones(3))
