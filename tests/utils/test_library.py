"""ferro.library: operations that a program defines behave as PyTorch's do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ferro
from ferro.ops.namespace import NAMESPACES


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    """What a test defines goes with it."""
    before = set(NAMESPACES)
    yield
    for name in set(NAMESPACES) - before:
        del NAMESPACES[name]


@pytest.fixture
def names(request: pytest.FixtureRequest) -> str:
    """A namespace of this test: PyTorch keeps them all."""
    return "ferro_" + "".join(c if c.isalnum() else "_" for c in request.node.name)


@pytest.fixture(params=["ferro", "torch"])
def m(request: pytest.FixtureRequest) -> Any:
    return ferro if request.param == "ferro" else pytest.importorskip("torch")


def test_operation_with_a_derivative(m: Any, names: str) -> None:
    def affine(x: Any, y: Any, k: float = 2.0) -> Any:
        return x * k + y, y.sum()

    operation = m.library.custom_op(
        f"{names}::affine", affine, mutates_args=(), schema="(Tensor x, Tensor y, float k=2.0) -> (Tensor, Tensor)"
    )

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[2]
        ctx.save_for_backward(output[0])

    def backward(ctx: Any, g: Any, s: Any) -> Any:
        (first,) = ctx.saved_tensors
        assert first.shape == g.shape
        return g * ctx.k * 10, g + s, None  # (ten times the truth, so that this formula is known to be asked)

    m.library.register_autograd(f"{names}::affine", backward, setup_context=keep)
    m.library.register_fake(f"{names}::affine", lambda x, y, k: (m.empty_like(x), y.new_empty(())))
    called = getattr(m.ops, names).affine
    for call in (operation, called, called.default):
        x, y = m.ones(2, requires_grad=True), m.tensor([3.0, 4.0], requires_grad=True)
        a, b = call(x, y, k=5.0)
        assert (a.tolist(), b.item()) == ([8.0, 9.0], 7.0)
        (a.sum() + 2 * b).backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([50.0, 50.0], [3.0, 3.0])
        assert call(x.detach(), y.detach())[0].tolist() == [5.0, 6.0]
        assert not call(x.detach(), y)[0].detach().requires_grad


def test_lists_of_tensors_have_gradients(m: Any, names: str) -> None:
    def total(xs: Any, scale: Any) -> Any:
        return sum(x.sum() for x in xs) * scale

    operation = m.library.custom_op(
        f"{names}::total", total, mutates_args=(), schema="(Tensor[] xs, Tensor scale) -> Tensor"
    )
    operation.register_autograd(
        lambda ctx, g: ([g * i * m.ones(2) for i in (1, 2)], None), setup_context=lambda ctx, inputs, output: None
    )
    xs = [m.ones(2, requires_grad=True), m.ones(2, requires_grad=True)]
    operation(xs, m.tensor(3.0)).backward()
    assert [x.grad.tolist() for x in xs] == [[1.0, 1.0], [2.0, 2.0]]


def test_without_a_derivative_the_backward_says_so(m: Any, names: str) -> None:
    operation = m.library.custom_op(f"{names}::twice", lambda x: 2 * x, mutates_args=(), schema="(Tensor x) -> Tensor")
    y = operation(m.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(
        RuntimeError, match=f"Trying to backward through {names}.twice.default but no autograd formula was registered"
    ):
        y.sum().backward()


def test_results_are_no_arguments(m: Any, names: str) -> None:
    operation = m.library.custom_op(f"{names}::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        operation(m.ones(2))


def test_operations_that_write(m: Any, names: str) -> None:
    operation = m.library.custom_op(
        f"{names}::double_", lambda x: (x.mul_(2), None)[1], mutates_args=("x",), schema="(Tensor(a!) x) -> ()"
    )
    x = m.ones(2)
    assert operation(x) is None
    assert x.tolist() == [2.0, 2.0]
    if m is ferro:  # (PyTorch writes, and its gradient is that of before)
        with pytest.raises(RuntimeError, match="writes to 'x', which requires grad"):
            operation(ferro.ones(2, requires_grad=True) * 1)


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
def test_library_of_schemas(m: Any, names: str) -> None:
    lib = m.library.Library(names, "DEF")
    assert lib.define("scaled(Tensor x, float by=2, *, int[] shift=[1, 2]) -> Tensor") == "scaled"
    lib.impl("scaled", lambda x, by=2.0, *, shift=(1, 2): x * by + shift[1], "CPU")
    lib.impl("scaled", lambda x, by=2.0, *, shift=(1, 2): None, "CUDA")
    scaled = getattr(m.ops, names).scaled
    assert scaled(m.ones(2)).tolist() == [4.0, 4.0]
    assert scaled(m.ones(1), 3.0, shift=[0, 5]).tolist() == [8.0]
    x = m.ones(1, requires_grad=True)
    scaled(x).backward()
    assert x.grad.tolist() == [2.0]
    assert str(scaled) == f"{names}.scaled"
    with pytest.raises(RuntimeError, match="Schema"):
        scaled(m.ones(1), unknown=1)


def test_functions_and_decorators(m: Any, names: str) -> None:
    m.library.define(f"{names}::plus", "(Tensor x, int n=1) -> Tensor")
    with pytest.raises(
        NotImplementedError, match=f"Could not run '{names}::plus' with arguments from the 'CPU' backend"
    ):
        getattr(m.ops, names).plus(m.ones(1))

    @m.library.impl(f"{names}::plus", "cpu")
    def plus(x: Any, n: int = 1) -> Any:
        return x + n

    assert getattr(m.ops, names).plus(m.ones(1)).item() == 2


@pytest.mark.parametrize("name", ["plain", "::x", "x::"])
def test_names_need_a_namespace(m: Any, name: str) -> None:
    if m is not ferro and name != "plain":
        pytest.skip("PyTorch's own text is about the schema")
    with pytest.raises(ValueError, match='Expected `qualname` to be of the form "namespace::name"'):
        m.library.define(name, "(Tensor x) -> Tensor")


def test_absent_operations(m: Any, names: str) -> None:
    m.library.define(f"{names}::here", "(Tensor x) -> Tensor")
    assert not hasattr(getattr(m.ops, names), "there")
    with pytest.raises(AttributeError, match="there"):
        m.library.register_autograd(f"{names}::there", lambda ctx, g: g)
    with pytest.raises(ValueError, match=r'expected schema to look like e.g. "\(Tensor x\) -> Tensor" but got'):
        m.library.define(f"{names}::unread", "Tensor x")


def test_libraries_in_cpp_are_refused_as_missing_files(torch: Any) -> None:
    from ferro.ops.namespace import load_library

    for load in (torch.ops.load_library, load_library):
        with pytest.raises(OSError, match=r"Could not load this library: /nowhere/x\.so"):
            load("/nowhere/x.so")
    assert ferro.library.register_fake("somewhere::nms", lambda x: x) is not None


def test_own_namespaces_stay() -> None:
    with pytest.raises(RuntimeError, match="the namespace 'aten' is PyTorch's own"):
        ferro.library.custom_op("aten::mine", lambda x: x.clone(), mutates_args=())
