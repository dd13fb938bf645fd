"""Grad modes, hooks, graph utilities, forward mode, functional derivatives and gradcheck."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.autograd import functional, graph


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


# -- grad modes --------------------------------------------------------------------------------------------------------


def test_no_grad_as_context_decorator_generator_and_coroutine() -> None:
    x = leaf(1.0)
    with ferro.no_grad():
        assert not (x * 2).requires_grad
        with ferro.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @ferro.no_grad()
    def plain() -> bool:
        return (x * 2).requires_grad

    @ferro.no_grad
    def bare() -> bool:
        return (x * 2).requires_grad

    @ferro.no_grad()
    def generator() -> Any:
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    @ferro.no_grad()
    async def coroutine() -> bool:
        return (x * 2).requires_grad

    assert not plain()
    assert not bare()
    for inside in generator():
        assert not inside
        assert (x * 2).requires_grad
    assert not asyncio.run(coroutine())


def test_modes_are_restored_after_exceptions_and_belong_to_their_thread() -> None:
    with pytest.raises(ValueError, match="stop"), ferro.no_grad():
        raise ValueError("stop")
    assert ferro.is_grad_enabled()
    seen: list = []
    with ferro.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ferro.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_set_grad_enabled_as_call_and_context() -> None:
    ferro.set_grad_enabled(False)
    assert not ferro.is_grad_enabled()
    ferro.set_grad_enabled(True)
    assert ferro.is_grad_enabled()
    with ferro.set_grad_enabled(False):
        assert not ferro.is_grad_enabled()
    assert ferro.is_grad_enabled()


def test_inference_tensors_stay_out_of_recorded_computations() -> None:
    x = leaf(1.0)
    with ferro.inference_mode():
        y = x * 2
        made = ferro.zeros(3)
    assert made.is_inference()
    assert y.is_inference()
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y


# -- hooks and graph ---------------------------------------------------------------------------------------------------


def test_saved_tensors_hooks_pack_and_unpack() -> None:
    x = leaf(2.0, 3.0)
    packed: list = []

    def pack(t: Any) -> Any:
        packed.append(t.tolist())
        return t.numpy(force=True).astype("f4")

    with graph.saved_tensors_hooks(pack, lambda a: ferro.from_numpy(a).double()):
        y = x * x
        z = y.exp()
    z.sum().backward()
    assert packed == [[2.0, 3.0], [2.0, 3.0], [float(np.exp(4.0)), float(np.exp(9.0))]]
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([2.0, 3.0]) * np.exp([4.0, 9.0]), rtol=1e-6)


def test_saved_tensors_hooks_keep_second_order() -> None:
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = x * x * x
        (g,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ferro.autograd.grad(g.sum(), x)
    assert h.tolist() == [12.0]


def test_saved_tensors_hooks_can_be_disabled_and_must_not_write() -> None:
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        hooks.__enter__()
    y = leaf(1.0) * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input in place"),
    ):
        y * y


def test_node_hooks_see_and_replace_gradients() -> None:
    x = leaf(2.0)
    y = x * 3
    seen: list = []
    y.grad_fn.register_prehook(lambda gs: seen.append([g.tolist() for g in gs]))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, None))
    y.backward()
    assert seen == [[[1.0]]]
    assert x.grad.tolist() == [30.0]


def test_next_functions_lead_to_the_leaves() -> None:
    x, w = leaf(2.0), ferro.ones(1, dtype=ferro.float64)
    y = (x * w).sum()
    (mul, _), *_ = y.grad_fn.next_functions
    assert mul.name() == "MulBackward0"
    assert mul.next_functions[0][0].variable is x
    assert mul.next_functions[1] == (None, 0)
    a, b = ferro.ones(4, requires_grad=True).split(2)
    assert (a.grad_fn, a.output_nr, b.output_nr) == (b.grad_fn, 0, 1)
    assert graph.get_gradient_edge(b) == (b.grad_fn, 1)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks(mode: str) -> None:
    x, y = leaf(1.0), leaf(2.0)
    calls: list = []
    handle = graph.register_multi_grad_hook([x, y], calls.append, mode=mode)
    for _ in range(2):
        (x * 2 + y * 3).sum().backward()
    assert len(calls) == 2
    if mode == "all":
        assert [g.tolist() for g in calls[0]] == [[2.0], [3.0]]
    handle.remove()
    (x + y).sum().backward()
    assert len(calls) == 2


def test_increment_version_is_seen() -> None:
    y = leaf(1.0) * 1
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="increment_version"):
        z.backward()


def test_anomaly_mode_names_the_function_and_shows_the_forward_line() -> None:
    x = leaf(0.0)
    with ferro.autograd.detect_anomaly():
        y = x.sqrt() * 0
        warned = pytest.warns(UserWarning, match=r"SqrtBackward0.*Traceback of forward call(.|\n)*test_api.py")
        raised = pytest.raises(
            RuntimeError, match=r"Function 'SqrtBackward0' returned nan values in its 0th output.*index \[0\]"
        )
        with warned, raised:
            y.sum().backward()
    y = x.sqrt() * 0
    y.sum().backward()
    assert np.isnan(x.grad.item())


# -- derivatives of functions ------------------------------------------------------------------------------------------


def function(x: Any, y: Any) -> Any:
    return (x * y).sin() * x, (x * x).sum()


@pytest.mark.parametrize("name", ["jacobian", "vjp", "jvp"])
def test_functional_equals_torch(name: str, torch: Any) -> None:
    rng = np.random.default_rng(0)
    a, b, u, v = (rng.standard_normal(3) for _ in range(4))
    found = []
    for library in (ferro, torch):
        f = getattr(library.autograd.functional, name)
        t = [library.from_numpy(z) for z in (a, b, u, v)]
        extra = {"jacobian": (), "jvp": ((t[2], t[3]),), "vjp": ((t[2], t[3].sum()),)}[name]
        found.append(f(function, (t[0], t[1]), *extra))
    for g, w in zip(_flat(found[0]), _flat(found[1]), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["hessian", "vhp", "hvp"])
def test_second_order_functional_equals_torch(name: str, torch: Any) -> None:
    rng = np.random.default_rng(1)
    a, b, u, v = (rng.standard_normal(3) for _ in range(4))
    found = []
    for library in (ferro, torch):
        f = getattr(library.autograd.functional, name)
        t = [library.from_numpy(z) for z in (a, b, u, v)]
        extra = () if name == "hessian" else ((t[2], t[3]),)
        found.append(f(lambda x, y: (x * y * y).exp().sum(), (t[0], t[1]), *extra))
    for g, w in zip(_flat(found[0]), _flat(found[1]), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)


def _flat(tree: Any) -> list:
    if isinstance(tree, (tuple, list)):
        return [leaf for t in tree for leaf in _flat(t)]
    return [tree.detach().numpy()]


def test_strict_functional_refuses_what_does_not_depend() -> None:
    with pytest.raises(RuntimeError, match=r"Output 0 .* does not require gradients"):
        functional.jacobian(lambda x: ferro.ones(2), ferro.ones(2), strict=True)
    with pytest.raises(RuntimeError, match="The Tensor returned by the function given to hessian"):
        functional.hessian(lambda x: x * 2, ferro.ones(2))


def test_func_transforms_compose() -> None:
    f = lambda x: (x * x * x).sum()  # noqa: E731
    x = ferro.tensor(2.0)
    assert ferro.func.grad(f)(x).item() == 12.0
    assert ferro.func.grad(ferro.func.grad(f))(x).item() == 12.0
    assert ferro.func.grad(lambda y: ferro.func.jvp(f, (y,), (ferro.tensor(1.0),))[1])(x).item() == 12.0
    derivative = lambda y: ferro.func.jvp(f, (y,), (ferro.tensor(1.0),))[1]  # noqa: E731
    assert ferro.func.jvp(derivative, (x,), (ferro.tensor(1.0),))[1].item() == 12.0
    value, pullback = ferro.func.vjp(f, x)
    assert (value.item(), pullback(ferro.tensor(1.0))[0].item()) == (8.0, 12.0)


def test_forward_mode_follows_inplace_changes_and_views() -> None:
    fwAD = ferro.autograd.forward_ad
    with fwAD.dual_level():
        x = fwAD.make_dual(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 10.0]))
        base = ferro.zeros(3)
        view = base[1:]
        view.copy_(x)
        base.mul_(3)
        assert fwAD.unpack_dual(base).tangent.tolist() == [0.0, 3.0, 30.0]
        assert fwAD.unpack_dual(view).tangent.tolist() == [3.0, 30.0]
    assert fwAD.unpack_dual(base).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(base).tangent is None
    with pytest.raises(RuntimeError, match="no dual level exists"):
        fwAD.make_dual(ferro.ones(1), ferro.ones(1))


def test_dual_levels_can_be_entered_and_left_by_hand() -> None:
    fwAD = ferro.autograd.forward_ad
    level = fwAD.enter_dual_level()
    x = fwAD.make_dual(ferro.tensor(3.0), ferro.tensor(1.0))
    assert fwAD.unpack_dual(x * x).tangent.item() == 6.0
    with pytest.raises(RuntimeError, match="Trying to exit a forward AD level that was not the last one"):
        fwAD.exit_dual_level(level=level + 1)
    fwAD.exit_dual_level(level=level)
    with pytest.raises(RuntimeError, match="no dual level was entered"):
        fwAD.exit_dual_level()


def test_the_state_of_the_default_generator_can_be_kept_and_restored() -> None:
    state = ferro.get_rng_state()
    first = ferro.rand(3).tolist()
    ferro.set_rng_state(state)
    assert ferro.rand(3).tolist() == first
    with pytest.raises(RuntimeError, match="Expected a CPUGeneratorImplState of size 5056"):
        ferro.set_rng_state(ferro.zeros(3, dtype=ferro.uint8))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        ferro.set_rng_state(ferro.zeros(3))


# -- gradcheck ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_accepts_right_and_finds_wrong_derivatives(fast: bool) -> None:
    class Wrong(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2.001 * x * g

    x = leaf(0.7, -1.3)
    z = ferro.tensor([1 + 2j, 0.5 - 1j], requires_grad=True, dtype=ferro.complex128)
    assert ferro.autograd.gradcheck(
        lambda x, z: (x * z, z.real.sum()), (x, z), fast_mode=fast, check_forward_ad=True, check_batched_grad=True
    )
    assert ferro.autograd.gradgradcheck(lambda x, z: x * z * z, (x, z), fast_mode=fast, check_fwd_over_rev=True)
    with pytest.raises(ferro.autograd.GradcheckError, match="mismatch for output 0 with respect to input 0"):
        ferro.autograd.gradcheck(Wrong.apply, (x,), fast_mode=fast, rtol=1e-4)
    assert not ferro.autograd.gradcheck(Wrong.apply, (x,), fast_mode=fast, rtol=1e-4, raise_exception=False)


def test_gradcheck_refuses_unusable_inputs() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        ferro.autograd.gradcheck(lambda x: x, (ferro.ones(1, dtype=ferro.float64),))
    with pytest.warns(UserWarning, match="double precision"):
        ferro.autograd.gradcheck(lambda x: x, (ferro.ones(1, requires_grad=True),), eps=1e-2)
