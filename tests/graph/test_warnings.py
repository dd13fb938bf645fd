"""Numbers that NumPy warns of while a function is captured: an operation is one node all the same, and has its gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import ferro
from ferro.graph import capture
from ferro.graph.compare import same_bits
from ferro.native import readiness

INF = float("inf")
FUNCTIONS: dict[str, tuple[Callable, list[str]]] = {
    "inf * 0": (lambda x, y: (x * y).sum(), ["mul", "sum"]),
    "log of 0": (lambda x, y: (y.log() + x).exp().sum(), ["log", "add", "exp", "sum"]),
    "inf - inf": (lambda x, y: (x - x * 1.0).sum() / y.sum(), ["mul", "sub", "sum", "sum", "div"]),
    "1 / 0": (lambda x, y: x / y, ["div"]),
}


@pytest.mark.parametrize("size", [1, 500, 20_000])
@pytest.mark.parametrize("mode", ["off", "wait"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations_that_numpy_warns_of_are_nodes_with_gradients(name: str, mode: str, size: int) -> None:
    function, nodes = FUNCTIONS[name]
    x = ferro.tensor([INF, 1.0] * size, requires_grad=True)
    y = ferro.tensor([0.0, 2.0] * size, requires_grad=True)
    with warnings.catch_warnings(), readiness.as_if(mode):
        warnings.simplefilter("error")
        graph = capture(function, x, y)
        gradient = graph.differentiate()
        value = function(x, y)
        seed = ferro.ones(value.shape)
        want = [value.detach(), *ferro.autograd.grad(value, [x, y], seed)]
        got = gradient.joint.interpret(x.detach(), y.detach(), seed)
    assert [node.function for node in graph.nodes] == nodes
    assert gradient.gradients == [0, 1]
    assert all(same_bits(g._data, w._data) for g, w in zip(got, want, strict=True))
