"""Scans: exact gradients of products with zeros, ties and nan of running extrema, accuracy, differences and areas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

NAN, INF = float("nan"), float("inf")


def leaf(values: Any, dtype: Any = ferro.float64) -> Any:
    return ferro.tensor(values, dtype=dtype, requires_grad=True)


def grad(y: Any, x: Any) -> list:
    return ferro.autograd.grad(y.sum(), x)[0].tolist()


@pytest.mark.parametrize(
    "values", [[2.0, 0.0, 3.0, 5.0], [0.0, 4.0, 0.0, 5.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
)
def test_cumprod_is_exact_to_third_order_where_elements_are_zero(values: list) -> None:
    weights = [0.5, -1.0, 2.0, 3.0]

    def by_multiplication(x: Any) -> Any:
        total, found = x[0], weights[0] * x[0]
        for k in range(1, 4):
            total = total * x[k]
            found = found + weights[k] * total
        return found

    def by_scan(x: Any) -> Any:
        return (x.cumprod(0) * ferro.tensor(weights, dtype=ferro.float64)).sum()

    derivatives = []
    for f in (by_multiplication, by_scan):
        x, y, found = leaf(values), None, []
        y = f(x)
        for order in range(3):
            (g,) = ferro.autograd.grad(y, x, create_graph=True)
            found.append(g.detach().numpy())
            y = (g * ferro.tensor([1.0, 2.0, -1.0, 0.5], dtype=ferro.float64) * (order + 1)).sum()
        derivatives.append(found)
    for a, b in zip(*derivatives, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 100])
def test_long_products_with_a_zero(columns: int, seed: int) -> None:
    a = np.random.default_rng(seed).uniform(0.8, 1.2, (70, columns))
    a[30] = 0
    x = leaf(a)
    y = x.cumprod(0)
    np.testing.assert_allclose(y.tolist(), np.cumprod(a, 0))
    (g,) = ferro.autograd.grad(y.sum(), x)
    others = a.copy()
    others[30] = 1
    np.testing.assert_allclose(g[30].tolist(), np.cumprod(others, 0)[30:].sum(0))
    assert g[31:].abs().amax().item() == 0


def test_float32_scans_are_accumulated_in_double_precision() -> None:
    x = ferro.full((200_000,), 0.1)
    assert x.cumsum(0)[-1].item() == pytest.approx(200_000 * float(np.float32(0.1)), rel=1e-7)
    assert ferro.ones(4096, dtype=ferro.bfloat16).cumsum(0)[-1].item() == 4096


def test_integers_are_scanned_as_int64() -> None:
    x = ferro.full((3,), 100, dtype=ferro.int8)
    assert x.cumsum(0).tolist() == [100, 200, 300]
    assert x.cumprod(0).dtype is ferro.int64
    assert ferro.tensor([True, True]).cumsum(0).tolist() == [1, 2]
    assert x.cumsum(0, dtype=ferro.float32).dtype is ferro.float32


def test_running_extrema_take_the_last_of_equal_elements_and_keep_nan() -> None:
    x = leaf([1.0, 1.0, 0.0, 1.0])
    values, indices = x.cummax(0)
    assert indices.tolist() == [0, 1, 1, 3]
    assert grad(values, x) == [1, 2, 0, 1]
    values, indices = ferro.cummin(ferro.tensor([1.0, 1.0, 0.0, 2.0, NAN, 3.0]), 0)
    assert indices.tolist() == [0, 1, 2, 2, 4, 4]
    assert np.isnan(values[4:].numpy()).all()
    z = ferro.tensor([[1.0, 3.0], [2.0, 0.0]])
    assert ferro.cummax(z, 0).values.tolist() == [[1, 3], [2, 3]]


def test_logcumsumexp_survives_infinities() -> None:
    x = leaf([-INF, -INF, 0.0, 1.0])
    y = x.logcumsumexp(0)
    np.testing.assert_allclose(y.tolist(), [-INF, -INF, 0, np.log(1 + np.e)])
    np.testing.assert_allclose(grad(y[2:], x), [0, 0, 1 + 1 / (1 + np.e), np.e / (1 + np.e)])
    big = leaf([1000.0, 999.0, -5000.0])
    np.testing.assert_allclose(big.logcumsumexp(0).tolist(), [1000, 1000.31326169, 1000.31326169])
    assert np.isfinite(grad(big.logcumsumexp(0), big)).all()


def test_scans_in_place() -> None:
    x = ferro.arange(4.0)
    y = leaf([1.0, 2.0, 3.0]) * 1
    assert x.cumsum_(0) is x
    assert x.tolist() == [0, 1, 3, 6]
    assert y.cumprod_(0).tolist() == [1, 2, 6]
    assert y.grad_fn is not None


def test_differences() -> None:
    x = ferro.tensor([1.0, 4.0, 9.0, 16.0])
    assert x.diff(2).tolist() == [2, 2]
    assert x.diff(5).shape == (0,)
    assert x.diff(0).tolist() == x.tolist()
    assert x.diff(prepend=ferro.zeros(1), append=ferro.zeros(2)).tolist() == [1, 3, 5, 7, -16, 0]
    assert ferro.diff(ferro.tensor([True, False, False])).tolist() == [True, False]
    for call, text in (
        (lambda: ferro.diff(ferro.tensor(1.0)), "at least one-dimensional"),
        (lambda: x.diff(-1), "non-negative but got -1"),
        (lambda: x.diff(prepend=ferro.ones(1, 1)), "prepend has 2, input 1"),
        (lambda: ferro.ones(2, 3).diff(prepend=ferro.ones(3, 1)), r"but got tensor.size\(0\) = 3"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_areas() -> None:
    y = ferro.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
    assert ferro.trapezoid(y).tolist() == [4.5, 1]
    assert ferro.trapz(y, dx=2).tolist() == [9, 2]
    assert ferro.trapezoid(y, ferro.tensor([0.0, 1.0, 3.0])).tolist() == [7.5, 1.5]
    assert ferro.trapezoid(y, ferro.tensor([0.0, 4.0]), dim=0).tolist() == [2, 6, 8]
    assert ferro.cumulative_trapezoid(y).tolist() == [[1.5, 4.5], [0.5, 1]]
    for f in (ferro.trapezoid, ferro.cumulative_trapezoid):
        with pytest.raises(RuntimeError, match="must be one `x` value for each sample point"):
            f(y, ferro.ones(2))
        with pytest.raises(TypeError, match="either the points x or the spacing dx"):
            f(y, ferro.ones(3), dx=1)


def test_a_dimension_is_needed_and_checked() -> None:
    x = ferro.ones(3)
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
        with pytest.raises(TypeError, match=rf"{name}\(\) missing .*'dim'"):
            getattr(x, name)()
        with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
            getattr(x, name)(1)
    assert x.cumsum(axis=0).tolist() == [1, 2, 3]


def test_the_area_under_nothing_is_a_constant(torch: Any) -> None:
    for T in (ferro, torch):
        x = T.zeros(0, 2, requires_grad=True)
        assert (T.trapezoid(x, dim=0).tolist(), T.trapezoid(x, dim=0).requires_grad) == ([0.0, 0.0], False)
        assert T.cumulative_trapezoid(x, dim=0).requires_grad


def test_no_difference_is_a_copy_whatever_the_dimension(torch: Any) -> None:
    for T in (ferro, torch):
        x = T.ones(3)
        y = T.diff(x, n=0, dim=5)
        assert (y.tolist(), y is x) == ([1.0, 1.0, 1.0], False)


def test_logcumsumexp_of_infinite_and_undefined_complex_numbers_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    inf, nan = float("inf"), float("nan")
    rows = [
        [
            complex(-inf, 4),
            complex(-inf, 1),
            1.2 + 2.1j,
            1e10 + 1e20j,
            complex(inf, 0),
            complex(inf, 1),
            complex(inf, 3),
            complex(nan, 2),
        ],
        [complex(-inf, inf), complex(-inf, 1), 1.2 + 2.1j, complex(2.4, inf)],
        [1, complex(0, nan)],
        [complex(inf, 3), complex(inf, 3)],
        [1, complex(inf, inf)],
    ]
    for row in rows:
        ours, theirs = (T.logcumsumexp(T.tensor(row, dtype=T.complex128), 0).tolist() for T in (ferro, torch))
        np.testing.assert_array_equal([z.real for z in ours], [z.real for z in theirs])
        np.testing.assert_array_equal([z.imag for z in ours], [z.imag for z in theirs])
