"""safe_where: no inf or nan where the function is not chosen, in any order and mode."""

from __future__ import annotations

from typing import Any

import pytest

import ferro


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


def test_masked_off_infinities_reach_no_derivative_of_any_order() -> None:
    x = leaf(0.0, 4.0, -1.0, float("nan"), float("inf"))
    y = ferro.safe_where((x > 0) & (x < 10), ferro.sqrt, x)
    assert y.tolist() == [0.0, 2.0, 0.0, 0.0, 0.0]
    want = [0.25, -1 / 32, 3 / 256, -15 / 2048]
    for w in want:
        (y,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == [0.0, w, 0.0, 0.0, 0.0]


def test_forward_mode_sees_only_what_is_chosen() -> None:
    x, t = ferro.tensor([0.0, 4.0]), ferro.tensor([1.0, 1.0])
    f = lambda x: ferro.safe_where(x > 0, ferro.log, x, -1.0)  # noqa: E731
    value, tangent = ferro.func.jvp(f, (x,), (t,))
    assert (value[0].item(), tangent.tolist()) == (-1.0, [0.0, 0.25])
    assert ferro.func.jvp(ferro.func.grad(lambda x: f(x).sum()), (x,), (t,))[1].tolist() == [0.0, -1 / 16]
    assert ferro.func.hessian(lambda x: f(x).sum())(x).tolist() == [[0.0, 0.0], [0.0, -1 / 16]]


def test_a_captured_parameter_gets_no_nan_either() -> None:
    x, power = leaf(0.0, 4.0), leaf(0.5).sum().detach().requires_grad_()
    ferro.safe_where(x > 0, lambda x: x**power, x).sum().backward()
    assert power.grad.item() == pytest.approx(2 * 4.0**0.5 * 0.6931471805599453)
    assert x.grad.tolist() == [0.0, 0.25]
    plain = leaf(0.0, 4.0)
    ferro.where(plain > 0, plain.sqrt(), 0.0).sum().backward()
    assert plain.grad.isnan().tolist() == [True, False]


def test_two_functions_share_the_elements() -> None:
    x = leaf(-2.0, 0.0, 3.0)
    seen: list = []

    def note(f: Any) -> Any:
        return lambda x: (seen.append(x.tolist()), f(x))[1]

    y = ferro.safe_where(x > 0, note(ferro.log), x, note(ferro.exp))
    y.sum().backward()
    assert seen == [[3.0], [-2.0, 0.0]]
    assert x.grad.tolist() == pytest.approx([2.718281828459045**-2, 1.0, 1 / 3])


def test_several_inputs_and_a_tensor_otherwise_broadcast() -> None:
    x, y, z = leaf(1.0, 2.0, 3.0), leaf(0.0, 5.0, 0.0), leaf(7.0)
    out = ferro.safe_where(ferro.tensor([[True], [False]]) & (y != 0), lambda x, y: x / y, (x, y), z)
    assert out.tolist() == [[7.0, 0.4, 7.0], [7.0, 7.0, 7.0]]
    out.sum().backward()
    assert (x.grad.tolist(), z.grad.tolist()) == ([0.0, 0.2, 0.0], [5.0])
    assert y.grad.tolist() == [0.0, -2 / 25, 0.0]


def test_the_result_has_the_common_dtype() -> None:
    x, c = ferro.tensor([1.0, 4.0]), ferro.tensor([True, False])
    assert ferro.safe_where(c, ferro.sqrt, x, 0).dtype is ferro.float32
    assert ferro.safe_where(c, ferro.sqrt, x, ferro.zeros(2, dtype=ferro.float64)).dtype is ferro.float64
    assert ferro.safe_where(c, ferro.sqrt, x, lambda x: x.double()).dtype is ferro.float64
    assert ferro.safe_where(c, lambda x: ferro.tensor(2.0), x).tolist() == [2.0, 0.0]
    assert ferro.safe_where(c & ~c, ferro.sqrt, x, 1j).tolist() == [1j, 1j]


def test_what_cannot_be_meant_is_refused() -> None:
    x, c = ferro.ones(3), ferro.tensor([True, False, True])
    with pytest.raises(RuntimeError, match="condition to be a boolean"):
        ferro.safe_where(x, ferro.sqrt, x)
    with pytest.raises(RuntimeError, match="must be elementwise"):
        ferro.safe_where(c, lambda x: x[:1], x)
    with pytest.raises(RuntimeError, match="must be elementwise"):
        ferro.safe_where(c, lambda x: 1.0, x)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        ferro.safe_where(c, ferro.sqrt, ferro.ones(2))
    with pytest.raises(TypeError, match="'input' must be Tensor"):
        ferro.safe_where(c, ferro.sqrt, 1.0)
    with pytest.raises(TypeError, match="'condition' must be Tensor"):
        ferro.safe_where(True, ferro.sqrt, x)
