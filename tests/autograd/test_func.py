"""ferro.func against torch.func: every transform, nested in each other, on nested arguments, and what they refuse."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import ferro

X = [0.7, -1.3, 0.4]
Y = [1.1, 0.2, -0.6]


class Pair(NamedTuple):
    """A tree with named branches."""

    left: Any
    right: Any


def tensor(T: Any, values: Any) -> Any:
    return T.tensor(values, dtype=T.float64)


def plain(tree: Any) -> Any:
    """A tree with NumPy arrays for its tensors."""
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        return [plain(v) for v in tree]
    return np.asarray(tree.detach().numpy()) if hasattr(tree, "detach") else tree


def agree(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for k in want:
            agree(got[k], want[k])
    elif isinstance(want, list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w)
    else:
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def applied(result: tuple, *given: Any) -> list:
    """A tuple (value, function, ...) with the function called."""
    value, function, *rest = result
    return [value, function(*given), *rest]


def f(T: Any) -> Any:
    """A function from vectors to a scalar whose derivatives of every order are dense."""
    return lambda x: (x.sin() * x.sum()).exp().prod() + (x[0] * x).square().sum()


def h(T: Any) -> Any:
    """A function from vectors to vectors."""
    return lambda x: T.stack((x.prod(), (x * x).sum(), x.sin().sum(), x[0] ** 3 * x[1]))


def written(T: Any) -> Any:
    """In-place changes of what the function made itself, through views too."""

    def run(x: Any) -> Any:
        y = x.clone()
        y.mul_(x)
        y[0] = x[2] * x[1]
        y[1:].mul_(x[0]).sin_()
        out = T.zeros_like(x)
        out[:2] = y[1:]
        return (out * y).sum()

    return run


def jumps(T: Any) -> Any:
    """Operations that are multilinear, that pick and that sort."""
    return lambda x: (T.outer(x, x).sort(1).values @ x).logsumexp(0) + x.abs().max() * x.cumprod(0)[-1]


SCALARS = {"dense": f, "in place": written, "picking": jumps}

NESTED: dict[str, Any] = {
    "grad": lambda T, F, s, x, t: F.grad(s)(x),
    "grad and value": lambda T, F, s, x, t: F.grad_and_value(s)(x),
    "grad of grad": lambda T, F, s, x, t: F.grad(lambda y: (F.grad(s)(y) * t).sum())(x),
    "grad of grad of grad": lambda T, F, s, x, t: F.grad(
        lambda z: (F.grad(lambda y: (F.grad(s)(y) * t).sum())(z) * t).sum()
    )(x),
    "jvp": lambda T, F, s, x, t: F.jvp(s, (x,), (t,)),
    "jvp of jvp": lambda T, F, s, x, t: F.jvp(lambda y: F.jvp(s, (y,), (t,))[1], (x,), (t * t,)),
    "jvp of grad": lambda T, F, s, x, t: F.jvp(F.grad(s), (x,), (t,)),
    "grad of jvp": lambda T, F, s, x, t: F.grad(lambda y: F.jvp(s, (y,), (t,))[1])(x),
    "jvp of grad of jvp": lambda T, F, s, x, t: F.jvp(F.grad(lambda y: F.jvp(s, (y,), (t,))[1]), (x,), (t,)),
    "grad of jvp of grad": lambda T, F, s, x, t: F.grad(lambda y: F.jvp(F.grad(s), (y,), (t,))[1].sum())(x),
    "vjp": lambda T, F, s, x, t: F.vjp(s, x)[1](t.sum()),
    "vjp of grad": lambda T, F, s, x, t: F.vjp(F.grad(s), x)[1](t),
    "grad of vjp": lambda T, F, s, x, t: F.grad(lambda y: (F.vjp(s, y)[1](y[0])[0] * t).sum())(x),
    "jvp of vjp": lambda T, F, s, x, t: F.jvp(lambda y: F.vjp(s, y)[1](y[0])[0], (x,), (t,)),
    "derivative by a cotangent": lambda T, F, s, x, t: F.grad(lambda u: (F.vjp(s, x)[1](u)[0] * t).sum())(t.sum()),
    "jacrev of grad": lambda T, F, s, x, t: F.jacrev(F.grad(s))(x),
    "jacfwd of grad": lambda T, F, s, x, t: F.jacfwd(F.grad(s))(x),
    "jacfwd of jacrev": lambda T, F, s, x, t: F.jacfwd(F.jacrev(s))(x),
    "jacrev of jacfwd": lambda T, F, s, x, t: F.jacrev(F.jacfwd(s))(x),
    "hessian": lambda T, F, s, x, t: F.hessian(s)(x),
    "jacrev of hessian": lambda T, F, s, x, t: F.jacrev(F.hessian(s))(x),
    "captured argument": lambda T, F, s, x, t: F.grad(lambda y: F.grad(lambda z: s(z) * y.sum())(x).sum() * s(y))(x),
    "inner argument made of the outer one": lambda T, F, s, x, t: F.grad(
        lambda y: F.grad(lambda z: s(z) + (z * y).sum())(y * t).prod()
    )(x),
    "stopped inside": lambda T, F, s, x, t: F.grad(lambda y: (y.detach() * y).sum() * s(y))(x),
    "autograd.grad inside": lambda T, F, s, x, t: F.grad(
        lambda y: T.autograd.grad(s(y), y, create_graph=True)[0].square().sum()
    )(x),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own decompositions
@pytest.mark.parametrize("function", SCALARS)
@pytest.mark.parametrize("name", NESTED)
def test_transforms_nest_as_in_torch(name: str, function: str, torch: Any) -> None:
    agree(*[plain(NESTED[name](T, T.func, SCALARS[function](T), tensor(T, X), tensor(T, Y))) for T in (ferro, torch)])


VECTORS: dict[str, Any] = {
    "jacrev": lambda T, F: F.jacrev(h(T))(tensor(T, X)),
    "jacrev in chunks": lambda T, F: F.jacrev(h(T), chunk_size=2)(tensor(T, X)),
    "jacfwd": lambda T, F: F.jacfwd(h(T))(tensor(T, X)),
    "jacfwd of jacrev": lambda T, F: F.jacfwd(F.jacrev(h(T)))(tensor(T, X)),
    "hessian": lambda T, F: F.hessian(h(T))(tensor(T, X)),
    "matrices": lambda T, F: F.jacrev(lambda x: x @ x)(tensor(T, [X, Y, X])),
    "0-d": lambda T, F: F.jacfwd(F.jacrev(lambda x: x**3))(tensor(T, 2.0)),
    "empty input": lambda T, F: [J(double)(tensor(T, [])) for J in (F.jacrev, F.jacfwd, F.hessian)],
    "empty output": lambda T, F: [J(lambda x: x[:0])(tensor(T, X)) for J in (F.jacrev, F.jacfwd)],
    "two arguments": lambda T, F: [
        J(lambda x, y: (x * y, [x.sum()]), argnums=(0, 1))(tensor(T, X), tensor(T, Y)) for J in (F.jacrev, F.jacfwd)
    ],
    "the last argument": lambda T, F: F.jacrev(lambda x, y: x * y**2, argnums=-1)(tensor(T, X), tensor(T, Y)),
    "all arguments": lambda T, F: F.jacfwd(lambda x, y: x * y, argnums=None)(tensor(T, X), tensor(T, Y)),
    "dictionaries": lambda T, F: [
        J(lambda p: {"s": p["a"] * p["b"][0].sum(), "t": (p["a"].sum(),)})({"a": tensor(T, X), "b": [tensor(T, Y)]})
        for J in (F.jacrev, F.jacfwd)
    ],
    "hessian of a tree": lambda T, F: F.hessian(lambda p: (p["w"] * p["b"][0]).exp().sum() * p["b"][1])(
        {"w": tensor(T, X), "b": (tensor(T, Y), tensor(T, 0.5))}
    ),
    "hessian by two arguments": lambda T, F: F.hessian(lambda x, y: (x * y * y).sum(), argnums=(1, 0))(
        tensor(T, X), tensor(T, Y)
    ),
    "independent": lambda T, F: [J(lambda x: T.ones(2))(tensor(T, X)) for J in (F.jacrev, F.jacfwd)],
    "aux": lambda T, F: [
        J(lambda x: (x * x, {"sum": x.sum()}), has_aux=True)(tensor(T, X)) for J in (F.jacrev, F.jacfwd)
    ],
    "grad of a tree": lambda T, F: F.grad(lambda p: (p["a"] * p["b"][0]).sum() + p["b"][1][0])(
        {"a": tensor(T, X), "b": (tensor(T, Y), [tensor(T, 1.0), tensor(T, 2.0)])}
    ),
    "grad with aux": lambda T, F: F.grad(lambda x: (x.prod(), [x * 2]), has_aux=True)(tensor(T, X)),
    "grad and value with aux": lambda T, F: F.grad_and_value(lambda x: (x.prod(), x), has_aux=True)(tensor(T, X)),
    "grad by two": lambda T, F: F.grad(lambda x, y, *, s: (x * y).sum() * s, argnums=(1, 0))(
        tensor(T, X), tensor(T, Y), s=3.0
    ),
    "vjp of trees": lambda T, F: F.vjp(lambda x, p: {"a": x * p[0], "b": [p[0].sum()]}, tensor(T, X), [tensor(T, Y)])[
        1
    ]({"a": tensor(T, Y), "b": [tensor(T, 2.0)]}),
    "vjp with aux": lambda T, F: applied(F.vjp(lambda x: (x * x, x.sum()), tensor(T, X), has_aux=True), tensor(T, Y)),
    "jvp of trees": lambda T, F: F.jvp(
        lambda p, y: (p["a"] * y, {"s": y.sum()}),
        ({"a": tensor(T, X)}, tensor(T, Y)),
        ({"a": tensor(T, Y)}, tensor(T, X)),
    ),
    "jvp with aux": lambda T, F: F.jvp(lambda x: (x * x, x * 3), (tensor(T, X),), (tensor(T, Y),), has_aux=True),
    "jvp of integers": lambda T, F: F.jvp(lambda x: (x.argmax(), x), (tensor(T, X),), (tensor(T, Y),)),
    "ordered": lambda T, F: F.grad(lambda p: (p["a"] * p["b"]).sum())(OrderedDict(b=tensor(T, X), a=tensor(T, Y))),
    "named": lambda T, F: F.grad(lambda p: (p.left * p.right).sum())(Pair(tensor(T, X), tensor(T, Y))),
    "complex": lambda T, F: F.grad(lambda z: (z * z.conj() * z.real.exp()).real.sum())(
        T.tensor([1 + 2j, 0.5 - 1j], dtype=T.complex128)
    ),
    "complex jvp": lambda T, F: F.jvp(lambda z: z * z.conj(), (T.tensor([1 + 2j]),), (T.tensor([0.5 - 1j]),)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("name", VECTORS)
def test_jacobians_trees_and_auxiliary_results_equal_those_of_torch(name: str, torch: Any) -> None:
    agree(plain(VECTORS[name](ferro, ferro.func)), plain(VECTORS[name](torch, torch.func)))


def double(x: Any) -> Any:
    return x * 2


REFUSED: dict[str, Any] = {
    "a vector as value": lambda T, F, x: F.grad(double)(x),
    "one element in a vector": lambda T, F, x: F.grad(lambda y: y[:1])(x),
    "a number as value": lambda T, F, x: F.grad(lambda y: 3.0)(x),
    "a complex value": lambda T, F, x: F.grad(lambda y: y.sum() * 1j)(x),
    "a number as argument": lambda T, F, x: F.grad(double)(3.0),
    "None as argument": lambda T, F, x: F.grad(lambda p: p[0].sum())((x, None)),
    "integers": lambda T, F, x: F.grad(lambda y: y.sum())(T.tensor([1, 2])),
    "argnums in a list": lambda T, F, x: F.grad(double, argnums=[0])(x.sum()),
    "argnums out of range": lambda T, F, x: F.grad(double, argnums=1)(x.sum()),
    "no argnums": lambda T, F, x: F.grad(double, argnums=())(x.sum()),
    "argnums twice": lambda T, F, x: F.grad(double, argnums=(0, 0))(x.sum()),
    "aux that is not there": lambda T, F, x: F.grad(lambda y: y.sum(), has_aux=True)(x),
    "vjp of nothing": lambda T, F, x: F.vjp(lambda y: None, x),
    "vjp of an empty tuple": lambda T, F, x: F.vjp(lambda y: (), x),
    "vjp of a number": lambda T, F, x: F.vjp(lambda y: (y, 2.0), x),
    "vjp of integers": lambda T, F, x: F.vjp(lambda y: y.argmax(), x),
    "vjp without aux": lambda T, F, x: F.vjp(double, x, has_aux=True),
    "cotangents nested otherwise": lambda T, F, x: F.vjp(lambda y: [y], x)[1](x),
    "cotangents of another shape": lambda T, F, x: F.vjp(double, x)[1](x[:2]),
    "a number as cotangent": lambda T, F, x: F.vjp(double, x)[1](1.0),
    "jvp without a tuple": lambda T, F, x: F.jvp(double, x, x),
    "tangents nested otherwise": lambda T, F, x: F.jvp(double, (x,), (x, x)),
    "jvp of no tensor": lambda T, F, x: F.jvp(lambda: x, (), ()),
    "jvp of numbers": lambda T, F, x: F.jvp(double, (1.0,), (1.0,)),
    "tangents of another shape": lambda T, F, x: F.jvp(double, (x,), (x[:2],)),
    "jvp by integers": lambda T, F, x: F.jvp(double, (T.tensor(1),), (T.tensor(1),)),
    "jvp of a function to numbers": lambda T, F, x: F.jvp(lambda y: 3.0, (x,), (x,)),
    "strict jvp of a constant": lambda T, F, x: F.jvp(lambda y: T.ones(2), (x,), (x,), strict=True),
    "jvp without aux": lambda T, F, x: F.jvp(double, (x,), (x,), has_aux=True),
    "jacrev of complex numbers": lambda T, F, x: F.jacrev(double)(x * 1j),
    "jacrev to complex numbers": lambda T, F, x: F.jacrev(lambda y: y * 1j)(x),
    "jacfwd of complex numbers": lambda T, F, x: F.jacfwd(double)(x * 1j),
    "no chunk": lambda T, F, x: F.jacrev(double, chunk_size=0),
    "jacrev to integers": lambda T, F, x: F.jacrev(lambda y: y.argmax())(x),
    "jacfwd by integers": lambda T, F, x: F.jacfwd(double)(T.tensor([1, 2])),
    "jacrev by integers": lambda T, F, x: F.jacrev(double)(T.tensor([1, 2])),
    "jacfwd to a number": lambda T, F, x: F.jacfwd(lambda y: 3.0)(x),
    "random numbers": lambda T, F, x: F.jacfwd(lambda y: y * T.rand(3))(x),
    "unknown randomness": lambda T, F, x: F.jacfwd(double, randomness="some")(x),
    "keywords of jacrev": lambda T, F, x: F.jacrev(lambda y: y)(y=x),
    "writing into the argument": lambda T, F, x: F.grad(lambda y: y.sin_().sum())(x),
    "writing into a view of the argument": lambda T, F, x: F.grad(lambda y: y[0].mul_(2).sum())(x),
    "writing into an inner argument": lambda T, F, x: F.grad(lambda y: F.grad(lambda z: z.sin_().sum())(y * 2).sum())(
        x
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_is_refused_with_the_same_type(name: str, torch: Any) -> None:
    with pytest.raises(Exception) as want:  # noqa: PT011 - the type is what is compared
        REFUSED[name](torch, torch.func, tensor(torch, X))
    with pytest.raises(want.type) as got:
        REFUSED[name](ferro, ferro.func, tensor(ferro, X))
    assert got.type is want.type
    assert len(str(got.value)) > 20


def test_the_last_argument_may_be_named_by_minus_one() -> None:
    x, y = tensor(ferro, X), tensor(ferro, Y)
    g = lambda x, y: x * y**2  # noqa: E731
    for transform in (ferro.func.jacfwd, ferro.func.jacrev, ferro.func.hessian):  # (torch's jacfwd gives zeros here)
        assert transform(g, argnums=-1)(x, y).tolist() == transform(g, argnums=1)(x, y).tolist()
    assert ferro.func.jacfwd(g, argnums=-1)(x, y)[0, 0].item() == 2 * X[0] * Y[0]


def test_a_jacobian_by_nothing_has_the_shape_of_the_output() -> None:
    for transform in (ferro.func.jacfwd, ferro.func.jacrev):
        assert transform(lambda x: ferro.cat((x, ferro.ones(3))))(ferro.ones(0)).shape == (3, 0)


# -- what is left of a history -----------------------------------------------------------------------------------------


def test_results_require_grad_only_if_what_is_outside_does() -> None:
    x, w = tensor(ferro, X), tensor(ferro, Y).requires_grad_()
    cube = lambda y: (y**3).sum()  # noqa: E731
    assert not ferro.func.grad(cube)(x).requires_grad
    assert not ferro.func.vjp(cube, x)[0].requires_grad
    assert not ferro.func.grad(lambda y: (cube(y), y * 2), has_aux=True)(x)[1].requires_grad
    assert ferro.func.grad(cube)(w).requires_grad
    assert ferro.func.grad(lambda y: (y * y * w).sum())(x).requires_grad
    assert not ferro.func.grad(lambda y: cube(y) + w.sum())(x).requires_grad
    with ferro.no_grad():
        assert not ferro.func.grad(cube)(w).requires_grad
        assert not ferro.func.vjp(cube, w)[0].requires_grad
    with ferro.inference_mode():
        assert ferro.func.grad(cube)(x * 1).tolist() == pytest.approx([3 * v * v for v in X])


def test_a_gradient_can_be_differentiated_by_backward() -> None:
    w = tensor(ferro, X).requires_grad_()
    ferro.func.grad(lambda y: (y**3).sum())(w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 6 * np.array(X))


def test_no_grad_inside_stops_reverse_mode_and_not_forward_mode() -> None:
    def stopped(x: Any) -> Any:
        with ferro.no_grad():
            return (x * x).sum()

    x = tensor(ferro, X)
    assert ferro.func.grad(stopped)(x).tolist() == [0.0, 0.0, 0.0]
    assert ferro.func.jvp(stopped, (x,), (ferro.ones_like(x),))[1].item() == pytest.approx(2 * sum(X))


def test_jvp_follows_a_write_into_the_argument() -> None:
    x = tensor(ferro, X)
    value, tangent = ferro.func.jvp(lambda y: y.sin_(), (x,), (tensor(ferro, Y),))
    np.testing.assert_allclose(tangent.numpy(), np.cos(X) * Y)
    np.testing.assert_array_equal(x.numpy(), value.numpy())


def test_aux_holds_tensors() -> None:
    _, aux = ferro.func.grad(lambda x: (x.sum(), {"t": x * 2, "more": [x]}), has_aux=True)(tensor(ferro, X))
    assert (aux["t"].requires_grad, aux["more"][0].requires_grad) == (False, False)
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type <class 'int'>"):
        ferro.func.grad(lambda x: (x.sum(), {"n": 3, "t": x * 2}), has_aux=True)(tensor(ferro, X))


def test_random_numbers_in_jacfwd_are_the_same_or_different() -> None:
    def noisy(x: Any) -> Any:
        return x * ferro.rand(2, dtype=ferro.float64)[0]

    for how, equal in (("same", True), ("different", False)):
        j = ferro.func.jacfwd(noisy, randomness=how)(ferro.ones(2, dtype=ferro.float64))
        assert (j[0, 0].item() == j[1, 1].item()) is equal


def test_linearize_runs_the_function_once_and_composes() -> None:
    runs = []

    def counted(x: Any) -> Any:
        runs.append(1)
        return h(ferro)(x)

    x, t = tensor(ferro, X), tensor(ferro, Y)
    value, derivative = ferro.func.linearize(counted, x)
    for direction in (t, x):
        np.testing.assert_allclose(
            derivative(direction).numpy(), ferro.func.jvp(h(ferro), (x,), (direction,))[1].numpy()
        )
    assert (len(runs), value.requires_grad, derivative(t).requires_grad) == (1, False, False)
    second = ferro.func.jacrev(lambda y: ferro.func.linearize(h(ferro), y)[1](t))(x)
    np.testing.assert_allclose(second.numpy(), (ferro.func.hessian(h(ferro))(x) @ t).numpy(), rtol=1e-12)
    pushed = ferro.func.jvp(lambda y: ferro.func.linearize(h(ferro), y)[1](t), (x,), (t,))[1]
    np.testing.assert_allclose(pushed.numpy(), (second @ t).numpy(), rtol=1e-12)
    by_tangent = ferro.func.jacrev(derivative)(t)
    np.testing.assert_allclose(by_tangent.numpy(), ferro.func.jacrev(h(ferro))(x).numpy(), rtol=1e-12)


def test_linearize_of_trees_equals_jvp() -> None:
    x, y = tensor(ferro, X), tensor(ferro, Y)
    function = lambda x, p: {"a": x * p[0], "b": [x.sum()], "c": ferro.ones(2), "d": "text"}  # noqa: E731
    value, derivative = ferro.func.linearize(function, x, [y])
    moved = derivative(y, [x])
    tangent = ferro.func.jvp(lambda x, p: {**function(x, p), "d": x}, (x, [y]), (y, [x]))[1]
    agree(plain({k: moved[k] for k in "abc"}), plain({k: tangent[k] for k in "abc"}))
    assert (value["d"], moved["d"], moved["c"].tolist()) == ("text", "text", [0.0, 0.0])
    for wrong in ((y,), (y, x), (y, [x[:2]]), (y, [x.float()]), (y, [1.0])):
        with pytest.raises(RuntimeError, match="linearize: expected"):
            derivative(*wrong)


def test_results_with_named_fields_keep_them() -> None:
    value, pullback = ferro.func.vjp(lambda x: x.sort().values, tensor(ferro, X))
    assert pullback(value)[0].tolist() == X
    (values, _), tangents = ferro.func.jvp(lambda x: x.sort(), (tensor(ferro, X),), (tensor(ferro, Y),))
    assert values.tolist() == sorted(X)
    assert (tangents.values.tolist(), tangents.indices.tolist()) == ([0.2, -0.6, 1.1], [0, 0, 0])


def test_debug_unwrap_shows_the_plain_tensor() -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append((x.requires_grad, ferro.func.debug_unwrap(x).requires_grad))
        return x * x

    x = ferro.tensor(3.0)
    assert ferro.func.debug_unwrap(x) is x
    ferro.func.grad(look)(x)
    assert seen == [(True, False)]
    with ferro.autograd.forward_ad.dual_level():
        dual = ferro.autograd.forward_ad.make_dual(x, ferro.tensor(1.0))
        for recurse in (True, False):
            unwrapped = ferro.func.debug_unwrap(dual, recurse=recurse)
            assert ferro.autograd.forward_ad.unpack_dual(unwrapped).tangent is None
    with pytest.raises(TypeError, match="must be Tensor"):
        ferro.func.debug_unwrap(1)


# -- modules -----------------------------------------------------------------------------------------------------------


def network(T: Any) -> Any:
    layers = T.nn.Sequential(T.nn.Linear(2, 3), T.nn.Tanh(), T.nn.Linear(3, 1)).double()
    with T.no_grad():
        for i, p in enumerate(layers.parameters()):
            p.copy_(T.arange(p.numel(), dtype=T.float64).reshape(p.shape) * 0.1 - 0.2 * i)
    return layers


def test_functional_call_differentiates_modules_by_their_parameters(torch: Any) -> None:
    found = []
    for T in (ferro, torch):
        net = network(T)
        x = tensor(T, [[0.5, -1.0], [0.3, 0.8]])
        loss = lambda p, net=net, x=x, T=T: T.func.functional_call(net, p, (x,)).square().sum()  # noqa: E731
        parameters = {k: v.detach() * 1.5 for k, v in net.named_parameters()}
        before = [p.detach().numpy().copy() for p in net.parameters()]
        found.append(plain((T.func.grad(loss)(parameters), T.func.hessian(loss)(parameters)["0.weight"]["2.weight"])))
        assert all(np.array_equal(p.detach().numpy(), b) for p, b in zip(net.parameters(), before, strict=True))
    agree(*found)


class Stateful(ferro.nn.Module):
    """A buffer that its forward replaces, and one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.w = ferro.nn.Parameter(ferro.ones(()))
        self.tied = self.w
        self.register_buffer("count", ferro.zeros(()))

    def forward(self, x: Any) -> Any:
        self.count = self.count + 1
        return x * self.w + self.tied


def test_functional_call_keeps_the_module_and_shows_what_forward_assigned() -> None:
    module, given = Stateful(), {"count": ferro.tensor(5.0)}
    assert ferro.func.functional_call(module, given, ferro.tensor(1.0)).item() == 2.0
    assert (given["count"].item(), module.count.item()) == (6.0, 0.0)
    with pytest.raises(TypeError):
        ferro.func.functional_call(module, {"w": ferro.tensor(9.0)})
    assert module.w.item() == 1.0


def test_functional_call_ties_weights() -> None:
    module, x, two = Stateful(), ferro.tensor(3.0), ferro.tensor(2.0)
    call = ferro.func.functional_call
    assert call(module, {"w": two}, x).item() == 8.0
    assert call(module, {"tied": two}, x).item() == 8.0
    assert call(module, {"w": two}, x, tie_weights=False).item() == 7.0
    assert call(module, {"w": two, "tied": two}, x).item() == 8.0
    with pytest.raises(ValueError, match="one parameter of the module"):
        call(module, {"w": two, "tied": ferro.tensor(4.0)}, x)
    assert call(module, {"w": two, "tied": ferro.tensor(4.0)}, x, tie_weights=False).item() == 10.0


def test_functional_call_refuses_wrong_names_and_dictionaries() -> None:
    module, x = Stateful(), ferro.tensor(3.0)
    call = ferro.func.functional_call
    with pytest.raises(RuntimeError, match=r"unexpected \['bias'\], missing \['count', 'tied', 'w'\]"):
        call(module, {"bias": x}, x, strict=True)
    assert call(module, {"bias": x}, x).item() == 4.0
    with pytest.raises(ValueError, match="appear in several"):
        call(module, ({"w": x}, {"w": x}), x)
    with pytest.raises(ValueError, match="dictionary or a sequence"):
        call(module, 3, x)
    with pytest.raises(ValueError, match="to be dictionaries"):
        call(module, [3], x)
    assert call(module, ({"w": x}, {"count": x}), kwargs={"x": x}).item() == 12.0


def _normed_networks(count: int) -> list:
    def one(k: int) -> Any:
        net = ferro.nn.Sequential(
            ferro.nn.Linear(3, 4), ferro.nn.BatchNorm1d(4), ferro.nn.Tanh(), ferro.nn.Linear(4, 2)
        )
        for i, p in enumerate(net.parameters()):
            p.data = (ferro.arange(p.numel(), dtype=ferro.float32).reshape(p.shape) * 0.1 + k * 0.3 + i * 0.05).sin()
        return net

    return [one(k) for k in range(count)]


def test_an_ensemble_keeps_running_statistics_for_each_of_its_networks() -> None:
    nets = _normed_networks(3)
    base = copy.deepcopy(nets[0])
    params, buffers = ferro.func.stack_module_state(nets)
    x = (ferro.arange(15, dtype=ferro.float32).reshape(5, 3) * 0.37).cos()

    def loss(p: dict, b: dict) -> Any:
        out = ferro.func.functional_call(base, (p, b), (x,))
        return out.pow(2).sum(), out

    grads, out = ferro.func.vmap(ferro.func.grad(loss, has_aux=True))(params, buffers)
    for k, net in enumerate(nets):
        want = net(x)
        want.pow(2).sum().backward()
        assert ferro.allclose(out[k], want, atol=1e-5)
        for name, p in net.named_parameters():
            assert ferro.allclose(grads[name][k], p.grad, rtol=1e-4, atol=1e-5), name
        for name, b in net.named_buffers():
            assert ferro.allclose(buffers[name][k].double(), b.double(), rtol=1e-5), name
    assert int(buffers["1.num_batches_tracked"][2]) == 1


def test_statistics_shared_by_the_slices_of_a_vmap_are_refused_before_they_change() -> None:
    [net] = _normed_networks(1)
    before = net[1].running_mean.clone()
    with pytest.raises(
        RuntimeError, match="Batch norm got a batched tensor as input while the running_mean or running_var"
    ):
        ferro.func.vmap(net)(ferro.ones(2, 5, 3))
    assert ferro.equal(net[1].running_mean, before)
    norm = ferro.nn.InstanceNorm1d(4, track_running_stats=True)
    with pytest.raises(RuntimeError, match="Instance norm got a batched tensor"):
        ferro.func.vmap(norm)(ferro.ones(2, 3, 4, 5))
    net.eval()
    assert ferro.func.vmap(net)(ferro.ones(2, 5, 3)).shape == (2, 5, 2)


def test_stack_module_state_gives_leaves() -> None:
    layers = [ferro.nn.Linear(2, 3) for _ in range(4)]
    params, buffers = ferro.func.stack_module_state(layers)
    assert (params["weight"].shape, params["bias"].shape, buffers) == ((4, 3, 2), (4, 3), {})
    assert params["weight"].is_leaf
    assert params["weight"].requires_grad
    assert params["weight"][2].tolist() == layers[2].weight.tolist()
    with pytest.raises(RuntimeError, match="at least one model"):
        ferro.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="of the same class"):
        ferro.func.stack_module_state([layers[0], ferro.nn.Tanh()])
    layers[0].eval()
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        ferro.func.stack_module_state(layers)
    layers[0].train()
    layers[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"same \.requires_grad"):
        ferro.func.stack_module_state(layers)
