"""Gradients of gradients by graphs: the backward graph is differentiated again, with eager's bits of both orders."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.nn import functional as F


def leaf(*shape: int, seed: int = 0, dtype: Any = ferro.float32) -> Any:
    ferro.manual_seed(seed)
    return ferro.randn(*shape, dtype=dtype).requires_grad_()


W, V = leaf(3, 4, dtype=ferro.float64), leaf(4, 2, seed=1, dtype=ferro.float64)


def both(x: Any) -> Any:
    return ferro.stack([x, x * 2])


FUNCTIONS = {
    "tanh": lambda x: (x @ W).tanh().sum(),
    "softmax": lambda x: ((x @ W).softmax(1) ** 2).sum(),
    "cross entropy": lambda x: F.cross_entropy((x @ W).sin() @ V, ferro.tensor([0, 1, 1, 0, 1])),
    "layer norm": lambda x: (F.layer_norm(x @ W, (4,)) ** 3).sum(),
    "batch norm": lambda x: (F.batch_norm(x @ W, None, None, training=True) ** 3).mean(),
    "products and sums": lambda x: ((x @ W + 1).exp() * (x @ W)).log1p().cumsum(0).mean(),
    "several uses": lambda x: (x.sin() * x.cos() + x * x * x).sum(),
    "attention": lambda x: F.scaled_dot_product_attention(both(x), both(x.cos()), both(x @ W)).square().sum(),
    "convolution": lambda x: (F.conv1d(x[None, None, :, 0], x[None, None, :3, 1]) ** 3).sum(),
    "matrices": lambda x: (x.T @ x + 3 * ferro.eye(3, dtype=x.dtype)).logdet(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessian_vector_products_have_eagers_bits(name: str) -> None:
    function = FUNCTIONS[name]
    x, v = leaf(5, 3, seed=2, dtype=ferro.float64), leaf(5, 3, seed=3, dtype=ferro.float64).detach()
    graph = capture(function, x)
    one = ferro.tensor(1.0, dtype=ferro.float64)
    for seed in (4, 5):
        y = leaf(5, 3, seed=seed, dtype=ferro.float64)
        loss = function(y)
        (first,) = ferro.autograd.grad(loss, y, one, create_graph=True)
        (want,) = ferro.autograd.grad(first, y, v)
        first_order = graph.differentiate(wrt=0)
        second = first_order.joint.differentiate(1, 0)
        value, slope, product = second.joint.interpret(y.detach(), one, v)
        assert same_bits(value._data, loss._data)
        assert same_bits(slope._data, first._data)
        assert same_bits(product._data, want._data)


def test_third_order() -> None:
    x = leaf(4)
    one = ferro.tensor(1.0)
    graph = capture(lambda x: (x.sin() * x.exp()).sum(), x)
    first = graph.differentiate()
    second = first.joint.differentiate(1, 0)
    third = second.joint.differentiate(2, 0)
    v, u = ferro.randn(4), ferro.randn(4)
    loss = (x.sin() * x.exp()).sum()
    (a,) = ferro.autograd.grad(loss, x, one, create_graph=True)
    (b,) = ferro.autograd.grad(a, x, v, create_graph=True)
    (want,) = ferro.autograd.grad(b, x, u)
    assert same_bits(third.joint.interpret(x.detach(), one, v, u)[3]._data, want._data)


def test_the_backward_of_the_pair_is_differentiated() -> None:
    x, w = leaf(2, 3), leaf(3, 4, seed=1)
    graph = capture(lambda x: (x @ w).tanh().sum(), x)
    pair = graph.differentiate(wrt=[0, w])
    again = pair.backward.differentiate()
    assert again.real_outputs == 2
    names = [v.name for v in pair.backward.inputs]
    outs = pair.forward.interpret(x.detach())
    given = [x.detach(), w.detach()]
    captured = [given[i] for i in pair.captured_inputs] + [outs[i] for i in pair.captured_outputs]
    given = [ferro.tensor(1.0), *captured]
    seeds = [ferro.randn(2, 3), ferro.randn(3, 4)]
    found = again.joint.interpret(*given, *seeds)

    leaves = [
        t.detach().clone().requires_grad_() for t in given
    ]  # the same by eager: cotangent, x, w and the value of tanh
    g, a, b, y = leaves
    slope = g.expand(2, 4) * (1 - y * y)
    want = ferro.autograd.grad([slope @ b.T, a.T @ slope], leaves, seeds)
    assert names[0] == "cotangent 0"
    for place, w2 in zip(again.gradients, want, strict=True):
        assert ferro.allclose(found[2 + place], w2, rtol=1e-5, atol=1e-6)


def test_the_graph_of_a_second_derivative_is_text() -> None:
    graph = capture(lambda x: F.cross_entropy(x.tanh(), ferro.tensor([1, 0])), leaf(2, 3))
    second = graph.differentiate().joint.differentiate(1, 0)
    assert str(Graph.parse(str(second.joint))) == str(second.joint)
    with pytest.raises(NotImplementedError, match=r"is a step of a gradient formula, from .*test_second_order"):
        Graph.parse(str(graph.differentiate().backward)).differentiate()


def test_what_is_asked_for_of_a_backward() -> None:
    x = leaf(3)
    first = capture(lambda x: (x**3).sum(), x).differentiate()
    by_value = first.joint.differentiate(first.joint.outputs[1], first.joint.inputs[0])
    by_number = first.joint.differentiate(1, 0)
    assert str(by_value.joint) == str(by_number.joint)


def test_graphs_with_derivatives_inside_are_differentiated() -> None:
    x = leaf(4)

    def function(x: Any) -> Any:
        (slope,) = ferro.autograd.grad((x**3).sum(), x, create_graph=True)
        return (slope**2).sum()

    graph = capture(function, x)
    gradient = graph.differentiate()
    (want,) = ferro.autograd.grad(function(x), x)
    one = ferro.tensor(1.0)
    assert same_bits(gradient.joint.interpret(x.detach(), one)[1]._data, want._data)
    (first,) = ferro.autograd.grad(function(x), x, one, create_graph=True)
    (want,) = ferro.autograd.grad(first, x, ferro.ones(4))
    second = gradient.joint.differentiate(1, 0)
    assert same_bits(second.joint.interpret(x.detach(), one, ferro.ones(4))[2]._data, want._data)


def through_the_pair(pair: Any, x: Any, v: Any) -> tuple:
    """Gradient and Hessian-vector product by the two graphs alone, each differentiated: captured values have cotangents."""
    given = [x, *[b.tensor for b in pair.forward.bound]]
    outs = pair.forward.interpret(x)
    captured = [given[i] for i in pair.captured_inputs] + [outs[i] for i in pair.captured_outputs]
    wrt = [i for i, value in enumerate(pair.backward.again().inputs) if i and value.requires_grad]
    backward = pair.backward.differentiate(pair.gradients[0], wrt)
    slope, *found = backward.joint.interpret(ferro.tensor(1.0, dtype=x.dtype), *captured, v)
    by = {i - 1: found[place] for i, place in zip(wrt, backward.gradients, strict=True) if place is not None}
    inputs = len(pair.captured_inputs)
    seeds = {i: ferro.zeros_like(o) for i, o in enumerate(outs) if o.dtype.is_floating_point}
    for k, place in enumerate(pair.captured_outputs):
        if inputs + k in by:
            seeds[place] = (seeds[place] + by[inputs + k]).contiguous()
    forward = pair.forward.differentiate(list(seeds), 0)
    product = forward.joint.interpret(x, *seeds.values())[-1]
    if 0 in pair.captured_inputs:
        product = product + by[pair.captured_inputs.index(0)]
    return slope, product


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("optimised", [False, True], ids=["as it is", "optimised"])
def test_second_derivatives_through_the_pair(name: str, optimised: bool) -> None:
    function = FUNCTIONS[name]
    x, v = leaf(5, 3, seed=2, dtype=ferro.float64), leaf(5, 3, seed=3, dtype=ferro.float64).detach()
    pair = capture(function, x).differentiate(wrt=0)
    if optimised:
        pair = pair.optimise(debug=True)
    y = leaf(5, 3, seed=4, dtype=ferro.float64)
    (first,) = ferro.autograd.grad(function(y), y, create_graph=True)
    (want,) = ferro.autograd.grad(first, y, v)
    slope, product = through_the_pair(pair, y.detach(), v)
    assert ferro.allclose(slope, first, rtol=1e-12, atol=1e-12)
    assert ferro.allclose(product, want, rtol=1e-10, atol=1e-10)
