"""vmap: batches against loops, under and over the other transforms, in place, random, and what it refuses."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.batched.levels import ALIVE, RUNNING
from ferro.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = ferro.tensor(np.random.default_rng(0).standard_normal((4, 3)))
W = ferro.tensor(np.random.default_rng(1).standard_normal((2, 3)))


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


def looped(f: Any, *xs: Any) -> Any:
    return ferro.stack([f(*slices) for slices in zip(*[x.unbind(0) for x in xs], strict=True)])


def energy(x: Any) -> Any:
    return ((W @ x).tanh() * x[:2]).sum() + (x * x).prod()


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        grad,
        lambda f: grad(lambda x: grad(f)(x).sin().sum()),
        jacrev,
        jacfwd,
        hessian,
        lambda f: lambda x: jvp(f, (x,), (x.cos(),))[1],
        lambda f: lambda x: vjp(f, x)[1](ferro.ones((), dtype=x.dtype))[0],
        lambda f: lambda x: ferro.func.linearize(f, x)[1](x.exp()),
    ],
    ids=["value", "grad", "grad of grad", "jacrev", "jacfwd", "hessian", "jvp", "vjp", "linearize"],
)
def test_over_transforms(transform: Any) -> None:
    f = transform(energy)
    close(vmap(f)(X), looped(f, X))


def test_under_transforms() -> None:
    def total(x: Any) -> Any:
        return vmap(energy)(x).sum()

    def by_loop(x: Any) -> Any:
        return looped(energy, x).sum()

    for transform in (grad, lambda f: grad(lambda x: grad(f)(x).sin().sum())):
        close(transform(total)(X), transform(by_loop)(X))
    close(jvp(total, (X,), (X.cos(),))[1], jvp(by_loop, (X,), (X.cos(),))[1])


def test_the_gradient_of_what_all_examples_share_is_their_sum() -> None:
    w = ferro.tensor([1.0, -2.0, 0.5], dtype=ferro.float64, requires_grad=True)
    v = w * 2  # a history that began before vmap did
    vmap(lambda x: (x * v).sum() ** 2 + v.prod())(X).sum().backward()
    expected = w.detach().requires_grad_()
    ((X * expected * 2).sum(1) ** 2 + (expected * 2).prod()).sum().backward()
    close(w.grad, expected.grad)


def test_a_derivative_inside_belongs_to_each_example() -> None:
    def loss(w: Any, x: Any) -> Any:
        return ((w * x).sum() ** 2).sin()

    def size(w: Any) -> Any:
        return (vmap(grad(loss), in_dims=(None, 0))(w, X) ** 2).sum()

    w = X[0]
    gradients = vmap(grad(loss), in_dims=(None, 0))(w, X)
    close(gradients, ferro.stack([grad(loss)(w, x) for x in X]))
    # and the derivative of something computed from these
    close(grad(size)(w), grad(lambda w: sum((grad(loss)(w, x) ** 2).sum() for x in X))(w))


def test_nested_dimensions() -> None:
    a, b = ferro.arange(6.0).reshape(2, 3), ferro.arange(8.0).reshape(4, 2)
    table = vmap(vmap(lambda x, y: x.dot(y) * x, in_dims=(1, None), out_dims=1), in_dims=(None, 0))(a, b)
    close(table, ferro.stack([ferro.stack([x.dot(y) * x for x in a.t()], 1) for y in b]))


def test_trees_of_arguments_and_results() -> None:
    a = ferro.arange(6.0).reshape(2, 3)
    f = vmap(lambda d: {"s": d["x"] + d["y"], "n": 1}, in_dims=({"x": 0, "y": None},), out_dims={"s": -1, "n": None})
    found = f({"x": a, "y": a[0, 1]})
    close(found["s"], (a + 1).t())
    assert found["n"] == 1


def test_chunks_are_the_same_as_the_whole() -> None:
    for size in (1, 3, 4, 9):
        close(vmap(energy, chunk_size=size)(X), vmap(energy)(X))


def test_in_place_writes_through_views_to_the_argument() -> None:
    def f(x: Any, y: Any) -> Any:
        x[0].mul_(y)
        x[1:].add_(1)
        return x.sum()

    given, expected = X.clone(), X.clone()
    expected[:, 0] *= ferro.arange(4.0)
    expected[:, 1:] += 1
    close(vmap(f)(given, ferro.arange(4.0, dtype=ferro.float64)), expected.sum(1))
    close(given, expected)


def test_gradients_of_in_place_changes() -> None:
    def f(x: Any) -> Any:
        y = x.sin()
        y[1] = x[0] * x[2]
        return (y**2).sum()

    close(vmap(grad(f))(X), looped(grad(f), X))
    close(grad(lambda x: vmap(f)(x).sum())(X), looped(grad(f), X))


def test_randomness() -> None:
    x = ferro.zeros(5, 3)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(lambda x: x + ferro.rand(3))(x)
    same = vmap(lambda x: x + ferro.rand(3), randomness="same")(x)
    assert (same == same[0]).all()
    assert same[0, 0] != same[0, 1]
    different = vmap(lambda x: x + ferro.rand(3), randomness="different")(x)
    assert len(set(different.flatten().tolist())) == 15
    dropped = vmap(lambda x: ferro.nn.functional.dropout(x, 0.5), randomness="different")(ferro.ones(8, 64))
    assert not (dropped == dropped[0]).all()


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x.sum().item(), r"calling .item\(\) on a Tensor"),
        (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda x: x.nonzero(), "data-dependent output shape"),
        (lambda x: ferro.zeros(3, dtype=x.dtype).add_(x), "inplace arithmetic"),
        (lambda x: x.sum().numpy(), "reads the numbers"),
    ],
    ids=["item", "control flow", "nonzero", "in place", "numpy"],
)
def test_refusals(f: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        vmap(f)(X)


def test_backward_inside_is_refused() -> None:
    w = ferro.ones(3, dtype=ferro.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
        vmap(lambda x: (x * w).sum().backward())(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vmap(energy)(), "got no inputs"),
        (lambda: vmap(energy, in_dims=(0, 0))(X), "in_dims is not compatible with the structure"),
        (lambda: vmap(energy, in_dims=None)(X), "expected `in_dims` to be int or a"),
        (lambda: vmap(energy, in_dims=(None,))(X), "Expected at least one Tensor to vmap over"),
        (lambda: vmap(energy, in_dims=(2,))(X), "-2 <= in_dim < 2"),
        (lambda: vmap(lambda x, y: x)(X, 1.0), "cannot vmap over non-Tensor arguments"),
        (lambda: vmap(lambda x, y: x)(X, W), "Expected all tensors to have the same size in the mapped dimension"),
        (lambda: vmap(lambda x: 1.0)(X), "must only return Tensors"),
        (lambda: vmap(lambda x: x, out_dims=(0, 0))(X), "out_dims is not compatible with the structure"),
        (lambda: vmap(lambda x: x, out_dims=None)(X), "can not return a BatchedTensor when out_dim is None"),
        (lambda: vmap(lambda x: x, out_dims="a")(X), "`out_dims` must be an int, None or"),
        (lambda: vmap(energy, randomness="some"), "Only allowed values for randomness"),
        (lambda: vmap(energy, chunk_size=0), "chunk_size should be None or greater than 0"),
    ],
    ids=["none", "in structure", "in None", "nothing", "range", "number", "sizes", "result", "out structure", "out None", "out type",
         "randomness", "chunk"],
)  # fmt: skip
def test_arguments(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_is_left_behind() -> None:
    gc.collect()
    before = len(ALIVE)
    vmap(energy)(X)
    with pytest.raises(RuntimeError):
        vmap(lambda x: x.item())(X[:, 0])
    assert not RUNNING.get()
    gc.collect()
    assert len(ALIVE) == before  # once it is empty, backward takes its short way again
