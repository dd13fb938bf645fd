"""differentiate: which nodes, captures and gradients there are, in which order they are added, and what is refused with its line."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.core.apply import apply
from ferro.core.op import OPS, Op
from ferro.core.samples import Arg, Sample
from ferro.graph import Gradient, Graph, capture
from ferro.graph.compare import same_bits
from ferro.graph.functional import functional


def leaf(*shape: int, seed: int = 0) -> Any:
    """A tensor that requires a gradient."""
    ferro.manual_seed(seed)
    return ferro.randn(*shape).requires_grad_()


def functions(graph: Graph) -> list[str]:
    return [node.function for node in graph.nodes]


def run(gradient: Gradient, inputs: list, seeds: list) -> list:
    """The gradients by the pair of graphs, which agree with the joint one to the last bit."""
    outs = gradient.forward.interpret(*inputs)
    given = [*inputs, *[v.tensor for v in gradient.forward.bound]]
    captured = [given[i] for i in gradient.captured_inputs] + [outs[i] for i in gradient.captured_outputs]
    found = gradient.backward.interpret(*seeds, *captured)
    joint = gradient.joint.interpret(*inputs, *seeds)[gradient.real_outputs :]
    assert all(same_bits(a._data, b._data) for a, b in zip(found, joint, strict=True))
    return [None if i is None else found[i] for i in gradient.gradients]


def test_only_what_lies_between_f_and_wrt_is_differentiated() -> None:
    w, u = leaf(3), leaf(3, seed=1)

    def function(x: Any) -> Any:
        return (x * w).exp(), (x * u).sin()

    graph = capture(function, ferro.ones(3))
    one = graph.differentiate(0, [w])
    assert functions(one.backward) == ["array.mul", "array.mul"]
    assert functions(graph.differentiate().backward) == ["elementwise.sin_slope", "array.mul", "array.mul", "array.mul"]
    assert graph.differentiate(0, [w, u]).gradients == [0, None]
    x, g = ferro.tensor([0.5, 1.0, 2.0]), ferro.tensor([1.0, -1.0, 2.0])
    (want,) = ferro.autograd.grad(function(x)[0], w, g)
    assert same_bits(run(one, [x], [g])[0]._data, want._data)


def test_captures_are_minimal() -> None:
    x, w, b = leaf(2, 3), leaf(3, 4, seed=1), leaf(4, seed=2)
    graph = capture(lambda x: x @ w, x)
    both = graph.differentiate()
    assert (both.captured_inputs, both.captured_outputs) == ([0, 1], [])
    frozen = graph.differentiate(wrt=0)
    assert (frozen.captured_inputs, frozen.captured_outputs) == ([1], [])
    added = capture(lambda x: x + b, leaf(2, 4)).differentiate()
    assert (added.captured_inputs, added.captured_outputs) == ([], [])
    assert functions(added.backward) == ["xp.sum"]
    assert added.backward.outputs[0] is added.backward.inputs[0]
    hidden = capture(lambda x: ((x @ w).tanh() * 2).sum(), x).differentiate()
    assert (hidden.captured_inputs, hidden.captured_outputs, hidden.real_outputs) == ([0, 1], [1], 1)
    assert hidden.cotangents == [0]
    run(hidden, [x.detach()], [ferro.tensor(1.0)])


def test_contributions_are_added_in_eagers_order_in_one_node() -> None:
    x = ferro.tensor([1e8, 1.0, 3e-5], requires_grad=True)

    def function(x: Any) -> Any:
        return (x * 3.0 + x.sin() + x * -3.0 + x).sum()

    gradient = capture(function, x).differentiate()
    assert functions(gradient.backward).count("array.total") == 1
    (want,) = ferro.autograd.grad(function(x), x)
    assert same_bits(run(gradient, [x.detach()], [ferro.tensor(1.0)])[0]._data, want._data)
    assert "array.total" not in functions(capture(lambda x: (x * 3.0).sum(), x).differentiate().backward)


def test_gradients_share_no_memory() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    gradient = capture(lambda x, y: x + y, x, y).differentiate()
    seed = ferro.ones(3)
    _, a, b = gradient.joint.interpret(x, y, seed)
    a.mul_(2)
    b.mul_(5)
    assert (a.tolist(), b.tolist(), seed.tolist()) == ([2.0] * 3, [5.0] * 3, [1.0] * 3)
    spread = capture(lambda x: x.sum(), x).differentiate()
    (g,) = spread.joint.interpret(x, ferro.tensor(1.0))[1:]
    g[0] = 7.0
    assert g.tolist() == [7.0, 1.0, 1.0]


def test_an_f_that_feeds_another_adds_its_cotangent() -> None:
    x = leaf(3)

    def function(x: Any) -> Any:
        y = x.exp()
        return y, (y * y).sum()

    gradient = capture(function, x).differentiate()
    seeds = [ferro.tensor([1.0, 2.0, 3.0]), ferro.tensor(0.5)]
    (want,) = ferro.autograd.grad(function(x), x, seeds)
    assert gradient.cotangents == [0, 1]
    assert same_bits(run(gradient, [x.detach()], seeds)[0]._data, want._data)


def test_a_path_that_is_cut_has_no_gradient() -> None:
    x, w = leaf(3), leaf(3, seed=1)

    def function(x: Any) -> Any:
        with ferro.no_grad():
            scale = w.exp()
        return x.detach() * x + scale * x.detach()

    graph = capture(function, x)
    gradient = graph.differentiate(wrt=[0, w])
    assert gradient.gradients == [0, None]
    g = ferro.ones(3)
    (want,) = ferro.autograd.grad(function(x), x, g)
    assert same_bits(run(gradient, [x.detach()], [g])[0]._data, want._data)


def test_absent_cotangents_stay_absent() -> None:
    x = leaf(6)
    graph = capture(lambda x: x.chunk(3)[1].exp(), x)
    gradient = graph.differentiate()
    assert (
        functions(gradient.backward) == ["array.mul", "xp.zeros_like", "xp.zeros_like", "xp.cat"]
        or len(gradient.backward.nodes) <= 4
    )
    values = capture(lambda x: x.max(0)[1].to(ferro.float32) + x.sum(), x).differentiate()
    assert not any("max" in name for name in functions(values.backward))


def test_gradients_of_intermediate_values() -> None:
    x = leaf(3)

    def function(x: Any) -> Any:
        y = x * 2.0
        y.retain_grad() if y.requires_grad else None
        kept.append(y)
        return (y.exp() + y).sum()

    kept: list = []
    graph = capture(function, x)
    y = graph.nodes[0].outputs[0]
    gradient = graph.differentiate()
    completed = gradient.gradient_of(y)
    assert completed is not None
    assert completed.seed is None
    assert completed.node is not None
    assert completed.node.function == "array.total"
    assert gradient.gradient_of(graph.constants[0]) is None
    function(x).backward()
    by_value = graph.differentiate(wrt=[y])
    assert same_bits(run(by_value, [x.detach()], [ferro.tensor(1.0)])[0]._data, kept[-1].grad._data)


def test_nodes_name_what_they_belong_to() -> None:
    graph = capture(lambda x: x.exp().sin().sum(), leaf(3))
    backward = graph.differentiate().backward
    assert {node.of for node in backward.nodes} == {0, 1, 2}
    assert all(node.line == graph.nodes[node.of or 0].line for node in backward.nodes)
    assert str(Graph.parse(str(backward))) == str(backward)


def test_a_parsed_graph_is_differentiated() -> None:
    w = leaf(4, 3)
    graph = capture(lambda x: (x.t() @ w).relu().sum(), leaf(4, 2, seed=1))
    again = Graph.parse(str(graph)).differentiate()
    assert str(again.joint) == str(graph.differentiate().joint)


def test_running_statistics_are_written_by_the_joint_graph() -> None:
    net: Any = ferro.nn.BatchNorm1d(3)
    graph = capture(lambda x: net(x).exp().sum(), ferro.randn(5, 3))
    twin = ferro.nn.BatchNorm1d(3)
    twin.load_state_dict(net.state_dict())
    x = ferro.randn(5, 3)
    _, *found = graph.differentiate().joint.interpret(x, ferro.tensor(1.0))
    twin(x).exp().sum().backward()
    assert same_bits(net.running_var._data, twin.running_var._data)
    for g, p in zip(found, twin.parameters(), strict=True):
        assert p.grad is not None
        assert same_bits(g._data, p.grad._data)


def test_an_operation_declared_elsewhere_is_differentiated() -> None:
    name = "tests.graph.squared"
    op = OPS.get(name) or Op(
        name, lambda xp, x: x * x, x=lambda xp, g, x: g * 2.0 * x, samples=[Sample(Arg(3))], path="tests.graph.squared"
    )
    gradient = capture(lambda x: apply(op, (x,)), leaf(3)).differentiate()
    assert run(gradient, [ferro.tensor([1.0, 2.0, 3.0])], [ferro.ones(3)])[0].tolist() == [2.0, 4.0, 6.0]


class Twice(ferro.autograd.Function):
    """x -> 2 x with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 20


class Same(ferro.autograd.Function):
    """x with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -g


def test_a_leaf_that_the_function_makes_ends_the_gradient() -> None:
    x, w = leaf(3), leaf(3, seed=1)

    def function(x: Any) -> Any:
        y = x.detach().requires_grad_()
        (slope,) = ferro.autograd.grad((y.sin() * w).sum(), y, create_graph=True)
        return (slope * x).sum()

    gradient = capture(function, x).differentiate()
    want = ferro.autograd.grad(function(x), [x, w])
    for got, wanted in zip(run(gradient, [x.detach()], [ferro.tensor(1.0)]), want, strict=True):
        assert same_bits(got._data, wanted._data)


def _reads_an_old_view(x: Any) -> Any:
    y = x * 1
    view = y[1:]
    y.mul_(2)
    return (view.detach() * y[1:]).sum()


def test_what_is_written_in_place_is_followed() -> None:
    x, w = leaf(3, 4), leaf(3, 4, seed=1)

    def function(x: Any) -> Any:
        y = (x * w).neg_()
        y[0] = x[1] * 2
        y += w
        y[1:].mul_(w[0])
        return y.sum()

    gradient = capture(function, x).differentiate()
    assert not [n for n in gradient.forward.nodes if n.effect]
    want = ferro.autograd.grad(function(x), [x, w])
    for got, wanted in zip(run(gradient, [x.detach()], [ferro.tensor(1.0)]), want, strict=True):
        assert same_bits(got._data, wanted._data)


def _squares_in_place(x: Any) -> Any:
    y = x.exp()
    return y.mul_(y).sum()


def test_what_is_written_unseen_is_read() -> None:
    """After a write that no history tells of, a tensor is its memory, not what was written into it before."""
    w = leaf(3)

    def function(x: Any) -> Any:
        y = x * w
        part = y.detach()[1:]
        y.add_(2)
        with ferro.no_grad():
            ferro.add(x[1:], x[1:], out=part)
        return y + w

    x = leaf(3, seed=1).detach()
    (got,) = functional(capture(function, x)).graph.interpret(x)
    assert same_bits(got._data, function(x)._data)


def test_what_a_gradient_needs_must_not_be_written_over() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        z = y * 2
        y.mul_(3)
        return (y + z).sum()

    with pytest.raises(
        NotImplementedError, match=r"needs %\d, made by 'exp' at .*, into which the function writes afterwards"
    ):
        capture(function, leaf(3)).differentiate()
    with pytest.raises(NotImplementedError, match="into which the function writes afterwards"):
        capture(_squares_in_place, leaf(3)).differentiate()


def test_what_has_no_derivative_is_refused_with_its_line() -> None:
    x = leaf(3, 3)
    for function, message in (
        (lambda x: ferro.geqrf(x)[0], r"geqrf"),
        (
            lambda x: (Twice.apply(x) * 3).sum(),
            r"'mul' at .*test_differentiate\.py.* has its history from a custom Function",
        ),
        (Twice.apply, r"f %\d, 'mul' at .*test_differentiate\.py.* has its history from a custom Function"),
        (lambda x: Same.apply(x), r"f %\d, .* has its history from a custom Function"),
        (
            _reads_an_old_view,
            r"'xp.write_' at .*test_differentiate\.py.* writes into memory that gradients meet",
        ),
    ):
        with pytest.raises(NotImplementedError, match=message):
            capture(function, x).differentiate()


def test_what_is_asked_for_is_checked() -> None:
    x, other = leaf(3), leaf(2)
    graph = capture(lambda x, y: (x * y, x.argmax()), x, ferro.ones(3))
    with pytest.raises(ValueError, match=r"wrt %1 \('y'\) did not require a gradient when the graph was captured"):
        graph.differentiate(wrt=1)
    with pytest.raises(ValueError, match=r"wrt is a tensor of shape \[2\] that the graph does not read"):
        graph.differentiate(wrt=[other])
    with pytest.raises(ValueError, match=r"f is 5; expected a value of the graph, a bound tensor or one of 2 numbers"):
        graph.differentiate(5)
    with pytest.raises(ValueError, match=r"f %\d is int64, which has no gradient"):
        graph.differentiate(1)
    with pytest.raises(ValueError, match="wrt %0 is no value of this graph"):
        graph.differentiate(wrt=[capture(lambda x: x, x).inputs[0]])
    with pytest.raises(ValueError, match="no output of the graph has a gradient"):
        capture(lambda x: x.detach(), x).differentiate()
