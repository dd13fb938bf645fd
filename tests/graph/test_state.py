"""What a function does to tensors beside computing: .grad, .data, versions, where tensors are found; a replay does it as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits


class Program:
    """Tensors that a function changes; two of a kind begin with the same numbers."""

    def __init__(self, begin: Callable | None = None) -> None:
        ferro.manual_seed(4)
        self.w = ferro.randn(3, 2).requires_grad_()
        self.b = ferro.randn(2).requires_grad_()
        self.buffer = ferro.zeros(3)
        self.view = self.buffer[1:]
        if begin is not None:
            begin(self)

    @property
    def tensors(self) -> list:
        return [self.w, self.b, self.buffer, self.view]

    def loss(self, x: Any) -> Any:
        return ((x @ self.w + self.b).tanh() ** 2).sum()


def gradient(t: Any) -> Any:
    return t.grad


def backward(p: Any, x: Any) -> Any:
    loss = p.loss(x)
    loss.backward()
    return loss


def cleared(p: Any, x: Any) -> Any:
    p.w.grad = None
    del p.b.grad
    return backward(p, x)


def zeroed(p: Any, x: Any) -> Any:
    for t in (p.w, p.b):
        if t.grad is not None:
            t.grad.zero_()
    return backward(p, x)


def twice(p: Any, x: Any) -> Any:
    p.w.grad = p.b.grad = None
    p.loss(x).backward()
    p.loss(x * 2).backward(inputs=[p.w])
    return gradient(p.w) * 2


def of_constants(p: Any, x: Any) -> Any:
    p.b.grad = ferro.ones(2)
    (p.b * 1).sum().backward()
    return x * 1


def set_to_another(p: Any, x: Any) -> Any:
    p.w.grad = x.t() @ ferro.ones(4, 2)
    p.b.grad = p.buffer[:2]
    p.loss(x).backward()
    return p.b.grad + 1


def clipped(p: Any, x: Any) -> Any:
    cleared(p, x)
    return ferro.nn.utils.clip_grad_norm_([p.w, p.b], 0.5)


def tripled(b: Any) -> None:
    b.grad.mul_(3)


def hooked(p: Any, x: Any) -> Any:
    p.w.grad = p.b.grad = None
    handles = [p.w.register_hook(lambda g: g * 2), p.b.register_post_accumulate_grad_hook(tripled)]
    loss = backward(p, x)
    for handle in handles:
        handle.remove()
    return loss


def recorded(p: Any, x: Any) -> Any:
    p.w.grad = p.b.grad = None
    p.loss(x).backward(create_graph=True)
    penalty = (gradient(p.w) ** 2).sum()
    p.w.grad = None
    penalty.backward()
    return penalty


def written(p: Any, x: Any) -> Any:
    p.buffer.add_(x[0])
    p.view.mul_(2)
    p.buffer[0] = 5
    with ferro.no_grad():
        p.w.add_(1).mul_(0.5)
    p.b.data.neg_()
    x.clamp_(min=0)
    return p.buffer * 1


def moved(p: Any, x: Any) -> Any:
    p.buffer.data = x[0] * 2
    p.b.data = p.b.data - 0.1 * x[:2, 0]
    p.w.data = ferro.zeros(3, 2)
    p.w.data.add_(1)
    return p.buffer + p.w.sum()


def has_gradients(p: Any) -> None:
    p.w.grad, p.b.grad = ferro.ones(3, 2), ferro.ones(2)


def frozen(p: Any, x: Any) -> Any:
    p.w.grad = p.b.grad = None
    p.w.requires_grad_(False)
    loss = backward(p, x)
    p.w.requires_grad = True
    p.b.requires_grad_(False)
    p.buffer.requires_grad_()
    (p.buffer * p.w.sum(1)).sum().backward()
    p.buffer.grad = None
    p.buffer.detach_()
    p.b.requires_grad_()
    return loss


def of_the_input(p: Any, x: Any) -> Any:
    x.requires_grad_()
    (slope,) = ferro.autograd.grad(p.loss(x), x)
    p.buffer.detach().requires_grad_()
    x.detach_()
    return slope


PROGRAMS: dict[str, tuple[Callable, Callable | None]] = {
    "backward": (backward, None),
    "backward onto gradients": (backward, has_gradients),
    "cleared": (cleared, None),
    "cleared gradients": (cleared, has_gradients),
    "zeroed": (zeroed, has_gradients),
    "two backwards": (twice, None),
    "a gradient of constants": (of_constants, None),
    "set to another": (set_to_another, None),
    "clipped": (clipped, None),
    "hooked": (hooked, None),
    "create_graph": (recorded, None),
    "written": (written, None),
    "moved": (moved, None),
    "frozen": (frozen, None),
    "frozen with gradients": (frozen, has_gradients),
    "gradient of an input": (of_the_input, None),
}


def state_of(p: Program) -> list:
    """All that a program can see of its tensors."""
    found = []
    for t in p.tensors:
        grad = None if t.grad is None else (t.grad.detach().clone(), t.grad.stride(), t.grad._version)
        found.append((t.detach().clone(), (t.stride(), t.requires_grad), t._version, grad))
    return found


def assert_same(mine: list, its: list) -> None:
    for (a, strides, version, grad), (b, strides2, version2, grad2) in zip(mine, its, strict=True):
        assert same_bits(a._data, b._data)
        assert (strides, version) == (strides2, version2)
        assert (grad is None) is (grad2 is None)
        if grad is not None and grad2 is not None:
            assert same_bits(grad[0]._data, grad2[0]._data)
            assert grad[1:] == grad2[1:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_leave_what_eager_leaves(name: str) -> None:
    function, begin = PROGRAMS[name]
    mine, its = Program(begin), Program(begin)
    xs = [ferro.randn(4, 3) for _ in range(4)]
    graph = capture(lambda x: function(mine, x), xs[0].clone())
    function(its, xs[0].clone())
    assert_same(state_of(mine), state_of(its))  # the capture ran for real
    for x in xs[1:]:
        a, b = x.clone(), x.clone()
        got, want = graph.interpret(a), function(its, b)
        assert same_bits(got[0]._data, want._data)
        assert same_bits(a._data, b._data)
        assert a._version == b._version
        assert_same(state_of(mine), state_of(its))
    assert str(Graph.parse(str(graph))) == str(graph)


def test_backward_is_a_node_for_each_leaf() -> None:
    p = Program()
    graph = capture(lambda x: backward(p, x), ferro.randn(4, 3))
    nodes = [node for node in graph.nodes if node.function == "tensor.accumulate_grad"]
    assert sorted(node.args[0].name for node in nodes) == ["p.b", "p.w"]
    assert all(node.effect for node in nodes)


def test_one_graph_begins_gradients_and_adds_to_them() -> None:
    p, twin = Program(), Program()
    x = ferro.randn(4, 3)
    graph = capture(lambda x: backward(p, x), x)
    p.w.grad = p.b.grad = None
    for _ in range(2):
        graph.interpret(x)
        backward(twin, x)
        assert_same(state_of(p), state_of(twin))


def test_a_decision_by_grad_is_checked_before_all_else() -> None:
    p = Program()
    x = ferro.randn(4, 3)
    graph = capture(lambda x: zeroed(p, x), x)
    assert [node.function for node in graph.nodes[:2]] == ["check.has_grad"] * 2
    with pytest.raises(ValueError, match=r"has a \.grad; when the graph was captured, Python found none") as caught:
        graph.interpret(x)
    assert "check.has_grad" in caught.value.__notes__[0]


def test_leaves_that_no_longer_require_gradients_are_refused() -> None:
    p = Program()
    graph = capture(lambda x: backward(p, x), ferro.randn(4, 3))
    p.b.requires_grad_(False)
    with pytest.raises(ValueError, match="no leaf that requires a gradient"):
        graph.interpret(ferro.randn(4, 3))


def test_requires_grad_is_set_in_each_replay() -> None:
    p = Program()

    def function(x: Any) -> Any:
        p.buffer.requires_grad_()
        p.w.requires_grad_(False)
        x.requires_grad_()
        return x * p.buffer

    graph = capture(function, ferro.ones(3))
    assert [node.function for node in graph.nodes] == ["tensor.set_requires_grad"] * 3 + ["mul"]
    p.buffer.requires_grad_(False)
    p.w.requires_grad_()
    x = ferro.ones(3)
    graph.interpret(x)
    assert (p.buffer.requires_grad, p.w.requires_grad, x.requires_grad) == (True, False, True)
    assert graph.differentiate().gradients == [0, 1]
    with pytest.raises(TypeError, match="sets requires_grad of an input that is given as an array"):
        graph.interpret(x._data)


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def test_gradients_that_nobody_else_holds_are_not_copied() -> None:
    p = Program()
    made: list[tuple] = []

    def function(x: Any) -> Any:
        (p.w * x).sum().backward()
        p.b.sum().backward()
        return x * 1

    graph = capture(function, ferro.ones(3, 2))
    p.w.grad = p.b.grad = None
    graph.interpret(
        ferro.ones(3, 2), on_node=lambda node, arrays: made.extend([(node.function, address(a)) for a in arrays])
    )
    (product,) = [address for name, address in made if name == "array.mul"]
    assert address(p.w.grad._data) == product
    assert p.b.grad.stride() == (1,)


def test_gradients_that_somebody_else_holds_are_copied() -> None:
    p = Program()
    kept: list = []

    def function(x: Any) -> Any:
        kept.clear()
        handle = p.w.register_hook(kept.append)
        (p.w * x).sum().backward()
        handle.remove()
        return kept[0]

    graph = capture(function, ferro.ones(3, 2))
    p.w.grad = None
    (found,) = graph.interpret(ferro.ones(3, 2))
    assert not np.may_share_memory(found._data, p.w.grad._data)
    found.zero_()
    assert p.w.grad.tolist() == [[1.0, 1.0]] * 3


def test_sparse_gradients_are_refused() -> None:
    table = ferro.ones(4, 2, requires_grad=True)
    with pytest.raises(CaptureError, match=r"at .*test_state\.py"):
        capture(lambda i: ferro.nn.functional.embedding(i, table, sparse=True).sum().backward(), ferro.tensor([1, 2]))
    assert table.grad is None
    (table * 2).sum().backward()


def test_versions_count_after_an_exception_too() -> None:
    p = Program()

    def function(i: Any) -> Any:
        p.buffer.add_(1)
        return p.buffer.index_select(0, i)

    graph = capture(function, ferro.tensor([1]))
    version = p.buffer._version
    with pytest.raises(IndexError):
        graph.interpret(ferro.tensor([7]))
    assert (p.buffer._version, p.buffer[0].item()) == (version + 1, 2.0)


def test_saved_values_that_a_replay_changes_are_noticed() -> None:
    p = Program()
    graph = capture(lambda x: written(p, x), ferro.randn(4, 3))
    loss = (p.buffer * p.w.sum(1) * p.buffer).sum()
    graph.interpret(ferro.randn(4, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# -- where tensors are found -------------------------------------------------------------------------------------------

TABLE: dict[str, Any] = {"t": ferro.ones(2), "list": [ferro.ones(2)]}
GLOBAL = ferro.ones(2)


def helper(x: Any) -> Any:
    return x * GLOBAL


def test_tensors_are_looked_up_where_the_function_found_them(monkeypatch: pytest.MonkeyPatch) -> None:
    net: Any = ferro.nn.BatchNorm1d(2).eval()
    net.extra = [ferro.ones(2)]
    own = ferro.ones(2)
    some = {"a": [ferro.ones(2)]}

    def function(x: Any) -> Any:
        return net(x) + net.extra[0] + helper(x) + own * TABLE["t"] + TABLE["list"][0] + some["a"][0]

    x = ferro.randn(3, 2)
    graph = capture(function, x)
    net.running_mean = ferro.randn(2)
    net.weight = ferro.nn.Parameter(ferro.randn(2))
    net.extra[0] = ferro.randn(2)
    monkeypatch.setitem(TABLE, "t", ferro.randn(2))
    monkeypatch.setitem(TABLE, "list", [ferro.randn(2)])
    monkeypatch.setitem(globals(), "GLOBAL", ferro.randn(2))
    own = ferro.randn(2)
    some["a"][0] = ferro.randn(2)
    assert same_bits(graph.interpret(x)[0]._data, function(x)._data)


def test_what_is_no_longer_there_is_an_error_with_its_name() -> None:
    some = {"a": ferro.ones(2)}
    graph = capture(lambda x: x * some["a"], ferro.ones(2))
    some["a"] = ferro.ones(3)
    with pytest.raises(ValueError, match=r"float32\[3\], the graph was captured for float32\[2\]"):
        graph.interpret(ferro.ones(2))
    del some["a"]
    with pytest.raises(ValueError, match="no longer where the function found it: there is None"):
        graph.interpret(ferro.ones(2))


def test_places_that_part_are_an_error() -> None:
    one = ferro.ones(2)
    some = {"a": one, "b": one}
    graph = capture(lambda x: x * some["a"] + some["b"], ferro.ones(2))
    some["b"] = ferro.zeros(2)
    with pytest.raises(ValueError, match="2 places, which hold different ones now"):
        graph.interpret(ferro.ones(2))


def test_gradients_are_looked_up_at_their_tensors() -> None:
    p = Program(has_gradients)
    graph = capture(lambda x: p.w.grad * x.sum(), ferro.ones(2))
    p.w.grad = ferro.randn(3, 2)
    assert same_bits(graph.interpret(ferro.ones(2))[0]._data, (p.w.grad * 2)._data)
    p.w.grad = None
    with pytest.raises(ValueError, match="no longer where the function found it"):
        graph.interpret(ferro.ones(2))


def test_another_object_in_the_place_of_the_first_is_seen() -> None:
    p = Program()
    graph = capture(lambda x: p.loss(x), ferro.ones(4, 3))
    p = Program(lambda p: p.w.data.mul_(2))
    assert same_bits(graph.interpret(ferro.ones(4, 3))[0]._data, p.loss(ferro.ones(4, 3))._data)
