"""vmap: batches against loops, under and over the other transforms, in place, random, and what it refuses."""

from __future__ import annotations

import gc
import itertools
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
    ids=[
        "none",
        "in structure",
        "in None",
        "nothing",
        "range",
        "number",
        "sizes",
        "result",
        "out structure",
        "out None",
        "out type",
        "randomness",
        "chunk",
    ],
)
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


# -- custom Functions --------------------------------------------------------------------------------------------------


class Cube(ferro.autograd.Function):
    """Batched as it is written."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Scaled(ferro.autograd.Function):
    """x times w by NumPy, which knows nothing of batches."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return ferro.tensor(x.detach().numpy() * w.detach().numpy())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return Scaled.apply(g, w), Scaled.apply(g, x)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Any, w: Any) -> Any:
        assert (info.batch_size, info.randomness) == (4, "error")
        x, w = [t if d is None else t.movedim(d, 0) for t, d in zip((x, w), in_dims, strict=True)]
        return Scaled.apply(x, w), 0


def test_functions_are_batched_by_their_own_code() -> None:
    f = lambda x: Cube.apply(x).sum()  # noqa: E731
    close(vmap(f)(X), (X**3).sum(1))
    close(vmap(grad(f))(X), 3 * X**2)
    close(vmap(grad(lambda x: grad(f)(x).sum()))(X), 6 * X)
    close(grad(lambda x: vmap(f)(x).sum())(X), 3 * X**2)


def test_functions_are_batched_by_their_staticmethod() -> None:
    w = X[0]
    close(vmap(Scaled.apply, in_dims=(0, None))(X, w), X * w)
    close(vmap(Scaled.apply, in_dims=(1, 0))(X.t().contiguous(), X), X * X)
    f = lambda x, w: Scaled.apply(x, w).sum() ** 2  # noqa: E731
    expected = ferro.stack([grad(lambda w, x=x: (x * w).sum() ** 2)(w) for x in X])
    close(vmap(grad(f, argnums=1), in_dims=(0, None))(X, w), expected)  # each slice has its own
    close(grad(lambda w: vmap(f, in_dims=(0, None))(X, w).sum())(w), expected.sum(0))


def test_functions_that_cannot_be_batched() -> None:
    class Plain(ferro.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None: ...

    class Both(Scaled):
        generate_vmap_rule = True

    class Old(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    for function, message in (
        (Plain, "does not have vmap support"),
        (Old, "must override the setup_context staticmethod"),
    ):
        with pytest.raises(RuntimeError, match=message):
            vmap(function.apply)(X)
    with pytest.raises(RuntimeError, match="generate_vmap_rule=True and an overridden vmap staticmethod"):
        vmap(Both.apply)(X, X)
    for result, message in ((1, "to have two returns"), ((X, (0, 0)), "returned an incompatible")):
        with pytest.raises(RuntimeError, match=message):
            vmap(type("F", (Scaled,), {"vmap": staticmethod(lambda *args, result=result: result)}).apply)(X, X)


def test_a_saved_input_must_not_be_returned_as_it_is() -> None:
    class Same(ferro.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            ctx.save_for_backward(output)

    with pytest.raises(
        RuntimeError, match="A input that has been returned as-is as output is being saved for backward"
    ):
        Same.apply(X)


# -- what else is built on it ------------------------------------------------------------------------------------------


def test_batched_gradients() -> None:
    x = X[0].clone().requires_grad_()
    y = (W @ x).tanh()
    units = ferro.eye(2, dtype=ferro.float64)
    (rows,) = ferro.autograd.grad(y, x, units, retain_graph=True, is_grads_batched=True, create_graph=True)
    close(rows, jacrev(lambda x: (W @ x).tanh())(x.detach()))
    close(ferro.autograd.grad(rows.sum(), x)[0], grad(lambda x: jacrev(lambda x: (W @ x).tanh())(x).sum())(x.detach()))


def test_chunks_of_jacobians() -> None:
    f = lambda x: {"a": (W @ x).exp(), "b": x.sum()}  # noqa: E731
    whole = jacrev(f)(X[0])
    for size in (1, 2, 100):
        for name, block in jacrev(f, chunk_size=size, _preallocate_and_copy=True)(X[0]).items():
            close(block, whole[name])
    close(jacfwd(f)(X[0])["a"], whole["a"])


def test_an_ensemble_of_modules() -> None:
    ferro.manual_seed(0)
    models = [
        ferro.nn.Sequential(ferro.nn.Linear(3, 4), ferro.nn.Tanh(), ferro.nn.Linear(4, 2)).double() for _ in range(3)
    ]
    params, buffers = ferro.func.stack_module_state(models)
    run = lambda p, b, x: ferro.func.functional_call(models[0], (p, b), (x,))  # noqa: E731
    close(vmap(run, in_dims=(0, 0, None))(params, buffers, X), ferro.stack([m(X) for m in models]))


def test_gradients_of_each_example() -> None:
    ferro.manual_seed(0)
    net = ferro.nn.Sequential(
        ferro.nn.Conv2d(1, 3, 3), ferro.nn.GroupNorm(3, 3), ferro.nn.ReLU(), ferro.nn.Flatten(), ferro.nn.Linear(12, 5)
    ).double()
    images = ferro.tensor(np.random.default_rng(0).standard_normal((4, 1, 4, 4)))
    labels = ferro.tensor([0, 3, 1, 1])
    params = {k: v.detach() for k, v in net.named_parameters()}

    def loss(params: dict, image: Any, label: Any) -> Any:
        out = ferro.func.functional_call(net, params, (image.unsqueeze(0),))
        return ferro.nn.functional.cross_entropy(out, label.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(params, images, labels)
    for name in params:
        close(found[name], ferro.stack([grad(loss)(params, i, n)[name] for i, n in zip(images, labels, strict=True)]))


def test_batch_norms_without_statistics() -> None:
    net = ferro.nn.Sequential(ferro.nn.BatchNorm1d(3), ferro.nn.InstanceNorm1d(3, track_running_stats=True))
    assert ferro.func.replace_all_batch_norm_modules_(net) is net
    assert net[0].running_mean is None
    assert not net[0].track_running_stats
    assert net[1].track_running_stats


@pytest.mark.parametrize("transform", [vmap, grad], ids=["vmap", "grad"])
def test_what_is_not_for_the_inside_of_a_transform(transform: Any) -> None:
    x = X[:, 0] if transform is vmap else X[0, 0]
    with pytest.raises(RuntimeError, match=r"Tensor.requires_grad_\(\)"):
        transform(lambda x: x.requires_grad_())(x)
    with pytest.raises(RuntimeError, match=r"Tensor.retain_grad\(\)"):
        transform(lambda x: x.sin().retain_grad())(x)


@pytest.mark.parametrize("transform", [grad, jacrev, hessian], ids=["grad", "jacrev", "hessian"])
def test_saved_tensor_hooks_are_refused(transform: Any) -> None:
    def hooked(x: Any) -> Any:
        with ferro.autograd.graph.save_on_cpu():
            return x.sin().sum()

    with pytest.raises(RuntimeError, match="saved tensor hooks"):
        transform(hooked)(X[0])
    with ferro.autograd.graph.save_on_cpu(), pytest.raises(RuntimeError, match="saved tensor hooks"):
        transform(lambda x: x.sin().sum())(X[0])


# -- any order of transforms -------------------------------------------------------------------------------------------

CAPTURED = np.random.default_rng(5).standard_normal((3, 3))


def step(library: Any, x: Any) -> Any:
    """A function of a vector that captures a matrix, writes in place and saves its result."""
    w = library.tensor(CAPTURED)
    y = library.sin(w @ x)
    z = y * 2 + x.exp()
    z[1:] *= y[:2]
    return z.softmax(0) * x.flip(0)


def transformed(library: Any, names: tuple) -> Any:
    """`step` under transforms, the innermost first; all keep the shape but vmap, which adds a dimension."""
    func = library.func
    known = {
        "vmap": func.vmap,
        "vmap from behind": lambda f: func.vmap(f, in_dims=-1, out_dims=-1),
        "grad": lambda f: func.grad(lambda x: f(x).sin().sum()),
        "jvp": lambda f: lambda x: func.jvp(f, (x,), (x.cos(),))[1],
        "vjp": lambda f: lambda x: func.vjp(f, x)[1](x * 2)[0],
        "jacrev": lambda f: lambda x: (func.jacrev(f)(x).reshape(x.numel(), x.numel()) ** 2).sum(0).reshape(x.shape),
        "jacfwd": lambda f: lambda x: (func.jacfwd(f)(x).reshape(x.numel(), x.numel()) ** 2).sum(0).reshape(x.shape),
    }
    f = lambda x: step(library, x)  # noqa: E731
    for name in names:
        f = known[name](f)
    return f


ORDERS = [
    names
    for names in itertools.product(["vmap", "vmap from behind", "grad", "jvp", "vjp", "jacrev", "jacfwd"], repeat=3)
    if any(name.startswith("vmap") for name in names)
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # (PyTorch's)
@pytest.mark.parametrize("inner", sorted({names[0] for names in ORDERS}))
def test_any_order_of_transforms_as_in_pytorch(inner: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test and is not installed")
    rng = np.random.default_rng(2)
    for names in ORDERS:
        if names[0] != inner:
            continue
        shape = [3]
        for name in names:
            if name == "vmap":
                shape.insert(0, 2)
            elif name == "vmap from behind":
                shape.append(2)
        data = rng.standard_normal(shape)
        want = transformed(torch, names)(torch.from_numpy(data.copy()))
        got = transformed(ferro, names)(ferro.from_numpy(data.copy()))
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-8, atol=1e-10, err_msg=" of ".join(names[::-1]))


# -- random functions, and how a tensor looks inside -------------------------------------------------------------------

RANDOM = {
    "rand": lambda x: ferro.rand(3),
    "randint": lambda x: ferro.randint(0, 10**9, (3,)),
    "randperm": lambda x: ferro.randperm(100),
    "randn_like": ferro.randn_like,
    "bernoulli": lambda x: ferro.bernoulli(ferro.full((64,), 0.5)),
    "normal": lambda x: ferro.normal(0.0, 1.0, (3,)),
    "dropout": lambda x: ferro.nn.functional.dropout(ferro.ones(64)),
    "rrelu": lambda x: ferro.nn.functional.rrelu(-ferro.ones(3), training=True),
    "uniform_": lambda x: x.clone().uniform_(),
    "exponential_": lambda x: x.clone().exponential_(),
    "log_normal_": lambda x: x.clone().log_normal_(),
    "multinomial": lambda x: ferro.multinomial(ferro.ones(1000), 5),
    "gumbel_softmax": lambda x: ferro.nn.functional.gumbel_softmax(ferro.zeros(3)),
    "poisson": lambda x: ferro.poisson(ferro.full((64,), 20.0)),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_functions(name: str) -> None:
    f = RANDOM[name]
    ferro.manual_seed(1)
    shape = f(X[0]).shape
    same, different = [vmap(f, randomness=how)(X) for how in ("same", "different")]
    assert same.shape == different.shape == (4, *shape)
    assert (same == same[0]).all()
    assert not any((different[i] == different[j]).all() for i in range(4) for j in range(i))
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(f)(X)


def test_random_functions_of_parameters_that_differ() -> None:
    rates = ferro.tensor([1.0, 1e6])
    drawn = vmap(ferro.poisson, randomness="different")(rates)
    assert drawn[0] < 1e3 < drawn[1]
    with pytest.raises(RuntimeError, match="does not currently support same randomness with a batched tensor input"):
        vmap(ferro.poisson, randomness="same")(rates)
    with pytest.raises(RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"):
        vmap(lambda x: ferro.zeros(3).normal_(), randomness="different")(X)


def test_how_a_tensor_looks_inside() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append((repr(x), x.shape, ferro.func.debug_unwrap(x), x.stride(), x.is_contiguous()))
        with pytest.raises(RuntimeError, match="accessing `data` under vmap"):
            _ = x.data
        return x

    vmap(f, in_dims=1)(X)
    text, shape, plain, stride, contiguous = seen[0]
    assert text.startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[")
    assert (shape, stride, contiguous) == ((4,), (3,), False)
    close(plain, X.t())


def test_a_captured_tensor_must_not_be_written_into() -> None:
    captured, before = X[1].clone(), X[1].clone()

    def f(x: Any) -> Any:
        captured.copy_(x)
        return (x * captured).sum()

    for call in (lambda: grad(f)(X[0]), lambda: vjp(f, X[0])):
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            call()
    close(captured, before)  # nothing was written

    def own(x: Any) -> Any:
        y = ferro.zeros(3, dtype=x.dtype)
        y.copy_(x)
        return (x * y).sum()

    close(grad(own)(X[0]), 2 * X[0])


def test_slices_that_share_memory_are_not_written_into() -> None:
    shared = ferro.zeros(3, dtype=ferro.float64).expand(4, 3)
    for write in (
        lambda x, y: x.add_(y),
        lambda x, y: x.copy_(y),
        lambda x, y: x.index_add_(0, ferro.tensor([0]), y[:1]),
    ):
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
        ):
            vmap(write)(shared, X)
    close(shared, ferro.zeros(4, 3, dtype=ferro.float64))


@pytest.mark.filterwarnings("ignore")
def test_tools_look_at_all_slices() -> None:
    w = ferro.zeros(3, dtype=ferro.float64, requires_grad=True)
    with ferro.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
        vmap(lambda x: ((x * w) / w).sum())(X).sum().backward()
    with ferro.debug.nan_guard(), pytest.raises(ferro.debug.NonFiniteError, match="made nan"):
        vmap(lambda x: (x * w) / w)(X)
    with ferro.profiler.profile() as profiled:
        vmap(lambda x: (x * w).sin())(X).sum().backward()
    assert "sin" in profiled.key_averages().table()


def test_parameters_may_be_made_inside() -> None:
    out = vmap(lambda x: ferro.nn.Linear(3, 2).double()(x), randomness="same")(X)
    assert out.shape == (4, 2)


def test_recomputed_functions() -> None:
    w = ferro.tensor([0.5, -1.0, 2.0], dtype=ferro.float64, requires_grad=True)
    f = lambda x: ferro.utils.checkpoint.checkpoint(lambda x: (x * w).sin(), x, use_reentrant=False)  # noqa: E731
    vmap(f)(X).sum().backward()
    close(w.grad, (X * (X * w).cos()).sum(0))


def test_a_tolerance_of_each_matrix() -> None:
    a = ferro.tensor(np.random.default_rng(4).standard_normal((4, 2, 3, 3)))
    atol = ferro.tensor([[0.0, 1.0], [2.0, 0.1], [0.5, 3.0], [1.0, 0.0]], dtype=ferro.float64)
    f = lambda a, tol: ferro.linalg.pinv(a, atol=tol) + ferro.linalg.matrix_rank(a, atol=tol)[:, None, None]  # noqa: E731
    close(vmap(f)(a, atol), looped(f, a, atol))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_second_derivatives_of_looked_up_rows(torch: Any) -> None:
    def program(T: Any) -> Any:
        def loss(w: Any, i: Any) -> Any:
            return T.nn.functional.embedding(i, w, padding_idx=0).pow(2).sum()

        def second(w: Any, i: Any) -> Any:
            return T.func.grad(lambda w: T.func.grad(loss)(w, i).pow(2).sum())(w)

        w = T.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=T.float64)
        return T.func.vmap(second, (None, 0))(w, T.tensor([[0, 1, 1], [2, 0, 1]])).tolist()

    assert program(ferro) == program(torch)
