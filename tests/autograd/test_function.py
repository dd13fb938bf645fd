"""Custom functions, compared with the same class written for PyTorch where behaviour is PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.autograd import Function, forward_ad, gradcheck, gradgradcheck
from ferro.autograd.function import once_differentiable


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class SetupCube(Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t


@pytest.mark.parametrize("function", [Cube, SetupCube])
def test_first_and_second_order(function: Any) -> None:
    x = leaf(0.5, -2.0)
    assert gradcheck(function.apply, (x,))
    assert gradgradcheck(function.apply, (x,))


def test_forward_mode_uses_the_users_jvp() -> None:
    assert gradcheck(SetupCube.apply, (leaf(0.5, -2.0),), check_forward_ad=True)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        Cube.apply(forward_ad.make_dual(ferro.ones(1), ferro.ones(1)))


def test_the_node_is_named_after_the_function() -> None:
    y = Cube.apply(leaf(1.0))
    assert y.grad_fn.name() == "CubeBackward"
    assert "CubeBackward" in repr(y)


def test_needs_input_grad_and_non_tensor_arguments() -> None:
    seen: list = []

    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, factor: float) -> Any:
            ctx.factor = factor
            return (x + y) * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return g * ctx.factor, g * ctx.factor, None

    x = leaf(1.0)
    Scale.apply(x, ferro.ones(1, dtype=ferro.float64), 3.0).backward()
    assert seen == [(True, False, False)]
    assert x.grad.tolist() == [3.0]


def test_absent_cotangents_are_zeros_or_none_as_asked() -> None:
    seen: list = []

    def make(materialize: bool) -> Any:
        class Two(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.set_materialize_grads(materialize)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx: Any, a: Any, b: Any) -> Any:
                seen.append(None if b is None else b.tolist())
                return a

        return Two

    for materialize in (True, False):
        make(materialize).apply(leaf(1.0))[0].backward()
    assert seen == [[0.0], None]


def test_mark_dirty_rebases_the_input() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    (y * y).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"), ferro.enable_grad():
        Double.apply(leaf(1.0))


def test_non_differentiable_outputs() -> None:
    class Split(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            frozen = x * 2
            ctx.mark_non_differentiable(frozen)
            return x * 3, frozen

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return 3 * g

    x = leaf(1.0)
    a, b = Split.apply(x)
    assert a.requires_grad
    assert not b.requires_grad
    a.backward()
    assert x.grad.tolist() == [3.0]


def test_an_input_returned_as_is_becomes_a_new_tensor() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    assert x.is_leaf
    y.backward()
    assert x.grad.tolist() == [5.0]


def test_a_saved_output_does_not_keep_the_graph_alive_in_a_cycle() -> None:
    import gc
    import weakref

    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (out,) = ctx.saved_tensors
            return g * out

    gc.disable()
    try:
        y = Exp.apply(leaf(0.3))
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()
    assert gradgradcheck(Exp.apply, (leaf(0.3),))


def test_once_differentiable_refuses_a_second_derivative() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(1.0)
    (g,) = ferro.autograd.grad(Once.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate twice.*once_differentiable"):
        g.backward()


def test_a_saved_tensor_changed_in_place_is_found() -> None:
    x = leaf(1.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*'Cube'"):
        z.backward()


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (lambda g: (g, g), RuntimeError, "BadBackward returned an incorrect number of gradients .expected 1, got 2"),
        (lambda g: 3.0, RuntimeError, "BadBackward must return Tensors or None"),
        (lambda g: ferro.ones(3), RuntimeError, r"BadBackward returned an invalid gradient at index 0 - got \[3\]"),
    ],
)
def test_wrong_gradients_are_refused_by_name(result: Any, error: Any, message: str) -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return result(g)

    with pytest.raises(error, match=message):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()


def test_a_function_without_backward_says_so_and_cannot_be_instantiated() -> None:
    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x / 2

    with pytest.raises(NotImplementedError, match="backward or vjp"):
        Half.apply(leaf(1.0)).backward()
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        half = Half()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        half(leaf(1.0))


def test_the_class_of_the_nodes_and_old_names() -> None:
    class Inplace(ferro.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
                ctx.saved_variables
            return g * 2

    x = leaf(1.0)
    y = x * 1
    assert Inplace.apply(y) is y
    assert type(y.grad_fn) is Inplace._backward_cls
    y.backward()
    assert x.grad.tolist() == [2.0]
