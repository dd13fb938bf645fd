"""capture: what runs is noted, runs once, and is replayed with eager's bits on other data; what cannot be raises with its line."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.op import OPS, Op
from ferro.core.samples import Arg, Sample
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F


def bits(got: list, want: list) -> bool:
    """Whether the tensors are equal to the last bit."""
    return len(got) == len(want) and all(same_bits(g._data, w._data) for g, w in zip(got, want, strict=True))


def model() -> Any:
    ferro.manual_seed(3)
    return ferro.nn.Sequential(ferro.nn.Flatten(), ferro.nn.Linear(12, 7), ferro.nn.ReLU(), ferro.nn.Linear(7, 4))


def test_a_model_is_captured_and_replayed_on_other_data() -> None:
    net = model()
    x, y = ferro.randn(5, 3, 4), ferro.tensor([0, 3, 1, 2, 0])

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(net(x), y)

    graph = capture(loss, x, y)
    assert [node.function for node in graph.nodes] == ["reshape", "linear", "relu", "linear", "cross_entropy"]
    assert [node.module for node in graph.nodes] == ["net.0", "net.1", "net.2", "net.3", ""]
    assert [v.name for v in graph.bound] == ["net.1.weight", "net.1.bias", "net.3.weight", "net.3.bias"]
    assert all(v.requires_grad for v in graph.bound)
    assert "test_capture.py" in graph.nodes[-1].line
    assert graph.nodes[-1].line.endswith("in loss")
    for seed in (1, 2):
        ferro.manual_seed(seed)
        x, y = ferro.randn(5, 3, 4), ferro.randint(0, 4, (5,))
        assert bits(graph.interpret(x, y), [loss(x, y)])
        assert graph.compare(loss, x, y) is None


def test_the_function_runs_once() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x * 2

    graph = capture(function, ferro.ones(2))
    graph.interpret(ferro.ones(2))
    assert calls == [1]


def test_what_is_bound_is_read_anew() -> None:
    net: Any = ferro.nn.BatchNorm1d(3).eval()
    shift = ferro.ones(3)

    def function(x: Any) -> Any:
        return net(x) + shift

    x = ferro.randn(4, 3)
    graph = capture(function, x)
    with ferro.no_grad():
        net.running_mean.fill_(2.0)
        net.weight.mul_(3.0)
        shift.zero_()
    assert bits(graph.interpret(x), [function(x)])


def test_tensors_that_were_frozen_are_bound_too() -> None:
    frozen = gc.get_freeze_count()
    try:
        for number in (1.0, 2.0):  # a second freeze() is noticed as the first one is
            shift = ferro.full((2,), number)
            gc.freeze()
            first = capture(lambda x, shift=shift: x + shift, ferro.ones(2))
            count = gc.get_freeze_count()
            later = ferro.zeros(2)
            graph = capture(lambda x, shift=shift, later=later: x + shift + later, ferro.ones(2))
            assert gc.get_freeze_count() <= count  # without another freeze() nothing more is frozen
            assert len(first.bound) == 1
            assert len(graph.bound) == 2
            shift.fill_(3.0)
            assert graph.interpret(ferro.ones(2))[0].tolist() == [4.0, 4.0]
    finally:
        if not frozen:
            gc.unfreeze()


def test_running_statistics_move_in_each_replay() -> None:
    net: Any = ferro.nn.BatchNorm1d(3)
    twin = ferro.nn.BatchNorm1d(3)
    graph = capture(net, ferro.randn(5, 3))
    twin.load_state_dict(net.state_dict())
    assert int(net.num_batches_tracked) == 1
    for _ in range(2):
        x = ferro.randn(5, 3)
        assert bits(graph.interpret(x), [twin(x)])
    assert bits(list(net.buffers()), list(twin.buffers()))
    assert int(net.num_batches_tracked) == 3


def test_functions_that_are_no_operations_are_noted() -> None:
    def function(x: Any) -> Any:
        return ferro.isnan(x), ferro.logical_not(x), x.argmax(), ferro.where(x > 0, x, 0)

    graph = capture(function, ferro.tensor([1.0, 2.0, 0.0]))
    x = ferro.tensor([float("nan"), 0.0, -0.0])
    assert bits(graph.interpret(x), list(function(x)))


def test_python_that_needs_a_number_is_refused_with_its_line() -> None:
    def decides(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    for function in (
        decides,
        lambda x: x * x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
    ):
        with pytest.raises(CaptureError, match=r"Python asks for the numbers|outside of an operation") as caught:
            capture(function, ferro.ones(3))
        assert "test_capture.py" in str(caught.value)


def test_writes_are_writes_again() -> None:
    buffer = ferro.zeros(4)

    def function(x: Any) -> Any:
        y = ferro.zeros(3)  # made anew in each call
        y[1] = x[0]
        y.add_(x)
        buffer[1:3].add_(y[1:])
        x[0] = 7.0
        return y, y[:2] * x[0]

    x = ferro.tensor([1.0, 2.0, 3.0])
    graph = capture(function, x.clone())
    start = buffer.clone()
    for _ in range(2):
        mine, its = x.clone(), x.clone()
        got = graph.interpret(mine)
        after = buffer.clone()
        buffer.copy_(start)
        want = list(function(its))
        assert bits([*got, mine, after], [*want, its, buffer])
        start = buffer.clone()


def test_a_constant_that_is_changed_after_its_use_keeps_both_contents() -> None:
    def function(x: Any) -> Any:
        y = ferro.ones(2)
        a = x * y
        y.fill_(5.0)
        b = x * y
        y[0] = 2.0
        return a, b, x * y

    graph = capture(function, ferro.ones(2))
    for _ in range(2):
        assert [t.tolist() for t in graph.interpret(ferro.ones(2))] == [[1.0, 1.0], [5.0, 5.0], [2.0, 5.0]]


def test_results_do_not_show_constants() -> None:
    graph = capture(lambda x: (ferro.ones(2), ferro.ones(2)[:1], x * 2), ferro.ones(2))
    for _ in range(2):
        one, part, _ = found = graph.interpret(ferro.ones(2))
        assert [t.tolist() for t in found] == [[1.0, 1.0], [1.0], [2.0, 2.0]]
        one.zero_()
        part.zero_()


def test_what_is_kept_of_a_capture_raises_with_the_line_that_made_it() -> None:
    kept = []

    def function(x: Any) -> Any:
        kept.append(x.exp())
        return x + 1

    capture(function, ferro.ones(2))
    with pytest.raises(CaptureError, match=r"by 'exp' at .*test_capture\.py:\d+ in function.* kept elsewhere"):
        kept[0].sin()


def test_tensors_are_as_before_after_an_error() -> None:
    w = ferro.ones(2, requires_grad=True)

    def function(x: Any) -> Any:
        _ = x * w
        raise KeyError("mine")

    x = ferro.ones(2)
    with pytest.raises(KeyError, match="mine"):
        capture(function, x)
    assert type(x._data) is type(w._data) is np.ndarray
    assert (x * w).tolist() == [1.0, 1.0]


def test_sparse_tensors_that_exist_are_no_hindrance() -> None:
    sparse = ferro.eye(2).to_sparse()
    graph = capture(lambda x: x * 2, ferro.ones(3))
    assert bits(graph.interpret(ferro.full((3,), 4.0)), [ferro.full((3,), 8.0)])
    assert sparse.to_dense().sum() == 2


def test_objects_of_others_are_not_asked_for_their_class() -> None:
    class Shy:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("asked")

    shy = [Shy()]
    assert len(capture(lambda x: x * 2, ferro.ones(2)).nodes) == len(shy)


def test_another_thread_is_not_noted() -> None:
    found = []

    def function(x: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append(ferro.ones(2) + 1))
        thread.start()
        thread.join()
        return x * 2

    assert [node.function for node in capture(function, ferro.ones(2)).nodes] == ["mul"]
    assert found[0].tolist() == [2.0, 2.0]


def test_errors_of_the_data_are_raised_by_the_replay_with_node_and_line() -> None:
    graph = capture(lambda x, i: x.index_select(0, i), ferro.ones(3), ferro.tensor([0, 2]))
    assert graph.interpret(ferro.ones(3), ferro.tensor([1, 1]))[0].tolist() == [1.0, 1.0]
    with pytest.raises(IndexError) as caught:
        graph.interpret(ferro.ones(3), ferro.tensor([0, 3]))
    assert "test_capture.py" in caught.value.__notes__[0]
    graph = capture(ferro.linalg.inv, ferro.eye(2))
    with pytest.raises(ferro.linalg.LinAlgError) as caught_too:
        graph.interpret(ferro.ones(2, 2))
    assert "linalg" in caught_too.value.__notes__[0]


def test_a_shape_that_depends_on_the_data_is_refused_when_it_changes() -> None:
    graph = capture(lambda x: x[x > 0], ferro.tensor([1.0, -1.0, 2.0]))
    assert graph.interpret(ferro.tensor([-1.0, 3.0, 4.0]))[0].tolist() == [3.0, 4.0]
    with pytest.raises(
        ValueError, match=r"the capture saw float32\[2\], this run gives float32\[3\]: the shape depends on the data"
    ):
        graph.interpret(ferro.ones(3))


def test_inputs_are_checked() -> None:
    graph = capture(lambda x, y: x @ y, ferro.ones(2, 3), ferro.ones(3, 2))
    x, y = ferro.ones(2, 3), ferro.ones(3, 2)
    with pytest.raises(ValueError, match=r"expected 2 inputs .* got 1"):
        graph.interpret(x)
    with pytest.raises(
        ValueError, match=r"input 1 \('y'\) is float32\[2, 3\], the graph was captured for float32\[3, 2\]"
    ):
        graph.interpret(x, x)
    with pytest.raises(ValueError, match=r"input 0 .* is float64\[2, 3\]"):
        graph.interpret(x.double(), y)
    with pytest.raises(ValueError, match=r"with the strides \[1, 3\], the graph was captured for \[2, 1\]"):
        graph.interpret(x, ferro.ones(2, 3).t())
    same = capture(lambda x, y: x + y, x, x)
    assert len(same.inputs) == 2
    with pytest.raises(ValueError, match="was the same tensor as another"):
        same.interpret(ferro.ones(2, 3), ferro.zeros(2, 3))


def test_backward_inside_is_captured_or_refused() -> None:
    w = ferro.tensor([1.0, 2.0], requires_grad=True)

    def slope(x: Any) -> Any:
        y = x * 1
        y.requires_grad_()
        (g,) = ferro.autograd.grad((y.exp() * w).sum(), y, create_graph=True)
        return g * 2

    x = ferro.tensor([0.5, -1.0])
    graph = capture(slope, ferro.ones(2))
    assert bits(graph.interpret(x), [slope(x)])
    loss = (w * w).sum()
    with pytest.raises(CaptureError, match="recorded before the capture began"):
        capture(lambda x: ferro.autograd.grad(loss, w)[0] * x, x)


def test_an_operation_declared_elsewhere_is_captured() -> None:
    name = "tests.graph.cubed"
    op = OPS.get(name) or Op(
        name,
        lambda xp, x: x * x * x,
        x=lambda xp, g, x: 3 * g * x * x,
        samples=[Sample(Arg(3))],
        path="tests.graph.exp",
    )
    x = ferro.tensor([1.0, -2.0, 3.0])
    graph = capture(lambda x: ferro.core.apply.apply(op, (x,)), ferro.ones(3))
    assert graph.nodes[0].function == name
    assert graph.interpret(x)[0].tolist() == [1.0, -8.0, 27.0]
    assert str(Graph.parse(str(graph))) == str(graph)
