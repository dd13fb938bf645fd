"""autograd.functional with every flag, compared with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.autograd import functional
from tests.autograd.both import both, error, leaf, outcome

NAMES = ("jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")


def vector(T: Any, *values: float) -> Any:
    return T.tensor(list(values), dtype=T.float64)


def requires(tree: Any) -> Any:
    """Which tensors of a result require grad."""
    return [requires(t) for t in tree] if isinstance(tree, (list, tuple)) else tree.requires_grad


def form(tree: Any) -> Any:
    """The nesting of a result."""
    return [type(tree).__name__, *[form(t) for t in tree]] if isinstance(tree, (list, tuple)) else "tensor"


def calls(T: Any, f: Any, inputs: Any, v_in: Any, v_out: Any, names: tuple = NAMES, **flags: Any) -> dict:
    """The results of the functions named."""
    F = T.autograd.functional
    vs = {"vjp": (v_out,), "jvp": (v_in,), "hvp": (v_in,), "vhp": (v_in,)}
    return {n: getattr(F, n)(f, inputs, *vs.get(n, ()), **flags) for n in names}


@both
def test_one_input_and_one_output(T: Any) -> Any:
    x = vector(T, 1.0, 2.0)
    v = vector(T, 3.0, 5.0)
    found = calls(T, lambda x: (x**3).sum(), x, v, T.tensor(2.0, dtype=T.float64))
    return found, {k: form(r) for k, r in found.items()}, {k: requires(r) for k, r in found.items()}


@both
def test_several_inputs_and_outputs(T: Any) -> Any:
    x, y = vector(T, 1.0, 2.0), vector(T, 3.0, 4.0, 5.0)
    v = (vector(T, 3.0, 5.0), vector(T, 1.0, -1.0, 2.0))
    first = calls(
        T,
        lambda x, y: (x.exp() * y.sum(), y[:1] * 2, y.sum()),
        (x, y),
        v,
        (v[0], vector(T, 7.0), T.tensor(2.0, dtype=T.float64)),
        ("jacobian", "vjp", "jvp"),
    )
    second = calls(T, lambda x, y: (x**3).sum() * (y**2).sum(), (x, y), v, None, ("hessian", "hvp", "vhp"))
    one = calls(
        T, lambda x: ((x**3).sum(),), (x,), (v[0],), (T.tensor(2.0, dtype=T.float64),), ("jacobian", "vjp", "jvp")
    )
    return [(r, {k: form(t) for k, t in r.items()}) for r in (first, second, one)]


@both
def test_inputs_keep_their_state(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    seen: list = []

    def f(y: Any) -> Any:
        seen.append((y is x, y.requires_grad, T.is_grad_enabled()))
        return (y**2).sum()

    with T.no_grad():
        calls(T, f, x, vector(T, 1.0, 1.0), T.tensor(1.0, dtype=T.float64))
    return x.grad, x.requires_grad, seen[0], len(seen)


@both
def test_create_graph_reaches_the_inputs_and_the_vectors(T: Any) -> Any:
    found = []
    for name in NAMES:
        x = leaf(T, 1.0, 2.0)
        v = leaf(T, 3.0, 5.0)
        r = calls(T, lambda x: (x**4).sum(), x, v, leaf(T, 3.0).sum(), (name,), create_graph=True)[name]
        out = r if not isinstance(r, tuple) else r[1]
        found += [name, requires(r), T.autograd.grad(out.sum(), [x, v], allow_unused=True)]
    return found


@both
def test_without_create_graph_nothing_requires_grad(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    v = leaf(T, 3.0, 5.0)
    return {k: requires(r) for k, r in calls(T, lambda x: (x**4).sum() + v.sum(), x, v, leaf(T, 3.0).sum()).items()}


@both
def test_outputs_that_do_not_depend_on_the_inputs(T: Any) -> Any:
    x, y = vector(T, 1.0, 2.0), vector(T, 3.0)
    v = (vector(T, 3.0, 5.0), vector(T, 1.0))
    one = T.tensor(1.0, dtype=T.float64)
    c = leaf(T, 1.0)
    found = []
    for f in (
        lambda x, y: c.sum(),
        lambda x, y: T.ones((), dtype=T.float64),
        lambda x, y: x.sum() * 2,
        lambda x, y: (x**2).sum(),
        lambda x, y: x.detach().sum(),
    ):
        found.append(calls(T, f, (x, y), v, one))
        found.append(
            {
                k: requires(r)
                for k, r in calls(T, f, (x, y), v, one, ("jacobian", "vjp", "jvp"), create_graph=True).items()
            }
        )
    return found


@both
def test_strict_mode(T: Any) -> Any:
    x, y = vector(T, 1.0, 2.0), vector(T, 3.0)
    v = (vector(T, 3.0, 5.0), vector(T, 1.0))
    one = T.tensor(1.0, dtype=T.float64)
    functions = {
        "constant": lambda x, y: T.ones((), dtype=T.float64),
        "another": lambda x, y: leaf(T, 1.0).sum(),
        "one input": lambda x, y: (x**3).sum(),
        "linear": lambda x, y: x.sum() * 2 + y.sum(),
        "mixed": lambda x, y: (x**3).sum() + y.sum(),
        "right": lambda x, y: (x**3).sum() * (y**3).sum(),
    }
    found = {}
    for name in NAMES:
        for label, f in functions.items():
            for create in (False, True):
                text = outcome(calls, T, f, (x, y), v, one, (name,), strict=True, create_graph=create)
                found[f"{name}, {label}, {create}"] = text
    return found


@both
def test_vectors_may_be_left_out_for_single_elements(T: Any) -> Any:
    F = T.autograd.functional
    x, y = vector(T, 1.0, 2.0), T.tensor(3.0, dtype=T.float64)
    return [
        F.vjp(lambda x: x.sum(), x),
        F.jvp(lambda y: y * x, y),
        F.vhp(lambda y: y**3, y),
        F.hvp(lambda y: y**3, y),
        error(lambda: F.vjp(lambda x: x * 2, x), "v can only be None"),
        error(lambda: F.jvp(lambda x: x.sum(), x), "v can only be None"),
        error(lambda: F.vhp(lambda x: x.sum(), x), "v can only be None"),
        error(lambda: F.hvp(lambda x: x.sum(), x), "v can only be None"),
    ]


@both
def test_wrong_vectors(T: Any) -> Any:
    F = T.autograd.functional
    x = vector(T, 1.0, 2.0)
    f = lambda x: (x**2).sum()  # noqa: E731
    found = []
    for name in ("jvp", "hvp", "vhp"):
        wrong = (vector(T, 1.0), (x, x), 3.0, (3.0,), T.ones(2, 1, dtype=T.float64))
        found += [outcome(getattr(F, name), f, x, v) for v in wrong]
    return found, error(lambda: F.vjp(f, x, x), "invalid size").split(",")[0], outcome(F.jvp, f, x, (x, x))


@both
def test_wrong_inputs_and_outputs(T: Any) -> Any:
    x = vector(T, 1.0, 2.0)
    one = T.tensor(1.0, dtype=T.float64)
    found = []
    for name in NAMES:
        for f, inputs in (
            (lambda x: 3.0, x),
            (lambda x: x.sum(), [x]),
            (lambda x: x.sum(), 3.0),
            (lambda *xs: xs[0].sum(), (x, 3.0)),
            (lambda x: (x.sum(), 2), x),
            (lambda x: [x.sum()], x),
        ):
            found.append((name, outcome(calls, T, f, inputs, x, one, (name,)).split(",")[0]))
    for name in ("hessian", "hvp", "vhp"):
        wrong = (lambda x: x * 2, lambda x: (x.sum(), x.sum()), lambda x: x[:1] * 2)
        found += [(name, outcome(calls, T, f, x, x, one, (name,)).split(",")[0]) for f in wrong]
    return found


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own decompositions
@both
def test_vectorised_and_forward_mode_strategies(T: Any) -> Any:
    F = T.autograd.functional
    x, y = vector(T, 1.0, 2.0), vector(T, 3.0, 4.0, 5.0)

    def f(x: Any, y: Any) -> Any:
        return x.exp() * y.sum(), y[:1] * x[0]

    def g(x: Any, y: Any) -> Any:
        return (x**3).sum() * (y**2).sum()

    return [
        F.jacobian(f, (x, y), vectorize=True),
        F.jacobian(f, (x, y), vectorize=True, strategy="forward-mode"),
        F.jacobian(lambda x: x * 2, x, vectorize=True, strategy="forward-mode"),
        F.hessian(g, (x, y), vectorize=True),
        F.hessian(g, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"),
    ]


def test_flags_that_pytorch_does_not_combine() -> None:
    x = vector(ferro, 1.0, 2.0)
    jacobian = functional.jacobian
    plain = jacobian(lambda x: x**3, x).tolist()
    assert jacobian(lambda x: x**3, x, strategy="forward-mode").tolist() == plain
    leaf = vector(ferro, 1.0, 2.0).requires_grad_()
    found = jacobian(lambda x: x**3, leaf, vectorize=True, strategy="forward-mode", create_graph=True)
    assert found.tolist() == plain
    (again,) = ferro.autograd.grad(found.sum(), leaf)
    assert again.tolist() == [6.0, 12.0]


@both
def test_strict_mode_and_strategies(T: Any) -> Any:
    F = T.autograd.functional
    x = vector(T, 1.0, 2.0)
    cube = lambda x: (x**3).sum()  # noqa: E731
    return [
        error(lambda: F.jacobian(cube, x, strict=True, vectorize=True), "are not supported together"),
        error(lambda: F.jacobian(cube, x, strict=True, strategy="forward-mode"), "are not supported together"),
        error(lambda: F.hessian(cube, x, strict=True, vectorize=True), "are not supported together"),
        error(lambda: F.jacobian(cube, x, strategy="sideways"), 'either "forward-mode" or "reverse-mode"'),
        error(
            lambda: F.hessian(cube, x, outer_jacobian_strategy="sideways"), 'either "forward-mode" or "reverse-mode"'
        ),
        error(
            lambda: F.jacobian(lambda x: x.detach(), x, strict=True),
            "Output 0 of the user-provided function does not require gradients",
        ),
        error(
            lambda: F.hessian(lambda x: (3 * x).sum(), x, strict=True),
            "jacobian of the user-provided function with respect to input 0 is",
        ),
        error(
            lambda: F.vhp(lambda x: (3 * x).sum(), x, x, strict=True),
            "jacobian of the user-provided function with respect to input 0 is",
        ),
        error(
            lambda: F.vjp(lambda x: 3 * x, x, x, create_graph=True, strict=True),
            "of the user-provided function is independent of input 0",
        ),
        error(
            lambda: F.vjp(lambda x: x, x, T.ones(3)),
            "v has invalid size: should be torch.Size([2]) but got torch.Size([3])",
        ),
        error(lambda: F.hvp(cube, [1.0]), "The inputs given to hvp must be either a Tensor"),
    ]


@both
def test_jacobians_of_many_rows_at_once(T: Any) -> Any:
    F = T.autograd.functional
    m, v = T.arange(6.0, dtype=T.float64).reshape(3, 2), vector(T, 0.5, 2.0)
    function = lambda m, v: ((m**2).sum(0) * v, (m @ v).sqrt())  # noqa: E731
    value = lambda m, v: ((m**2).sum(0) * v).sum() + (m @ v).sqrt().sum()  # noqa: E731
    forward = {"vectorize": True, "strategy": "forward-mode"}
    second = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    seconds = F.hessian(value, (m, v), vectorize=True), F.hessian(value, (m, v), **second)
    return (
        F.jacobian(function, (m, v), vectorize=True),
        F.jacobian(function, (m, v), **forward),
        [[[h.detach() for h in row] for row in found] for found in seconds],
    )


@both
def test_shapes_of_zero_and_more_dimensions(T: Any) -> Any:
    F = T.autograd.functional
    m = T.arange(4.0, dtype=T.float64).reshape(2, 2)
    return [
        F.jacobian(lambda x: x * x, T.tensor(3.0, dtype=T.float64)),
        F.jacobian(lambda m: m @ m, m),
        F.jacobian(lambda m: m.sum(), m),
        F.hessian(lambda m: (m**3).sum(), m),
        F.hessian(lambda m: (m**3).sum().reshape(1), m),
        list(F.jacobian(lambda x: x.sum(), T.zeros(0, 3)).shape),
        F.vjp(lambda m: m @ m, m, m),
        F.jvp(lambda m: m @ m, m, m),
        F.hvp(lambda m: (m**3).sum(), m, m),
    ]


def test_the_jacobian_of_no_elements() -> None:  # (PyTorch raises)
    assert list(functional.jacobian(lambda x: x * 2, ferro.zeros(0, 2)).shape) == [0, 2, 0, 2]


@both
def test_nested(T: Any) -> Any:
    F = T.autograd.functional
    x = vector(T, 1.0, 2.0)
    inner = lambda x: F.jacobian(lambda y: y**3, x, create_graph=True)  # noqa: E731
    return [
        F.jacobian(inner, x),
        F.jacobian(lambda x: F.vjp(lambda y: (y**3).sum(), x, create_graph=True)[1], x),
        F.jacobian(lambda x: F.jvp(lambda y: y**3, x, x, create_graph=True)[1], x),
        F.jacobian(lambda x: F.hvp(lambda y: (y**3).sum(), x, x, create_graph=True)[1], x),
        F.hessian(lambda x: F.hessian(lambda y: (y**4).sum(), x, create_graph=True).sum(), x),
    ]


@both
def test_complex_values(T: Any) -> Any:
    F = T.autograd.functional
    z = T.tensor([1 + 2j, 3 - 1j], dtype=T.complex128)
    v = T.tensor([1 + 0j, 2j], dtype=T.complex128)
    return [F.vjp(lambda z: z * z, z, v), F.jvp(lambda z: z * z, z, v), F.vjp(lambda z: (z * z.conj()).real, z, v.real)]
