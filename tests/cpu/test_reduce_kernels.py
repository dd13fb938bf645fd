"""Kernels of reductions: few wide rows, long columns, parts and tiles that do not come out even, any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu.kernels import reduce
from ferro.native import threads
from tests.configuration import with_kernels

# wide and low, tall and narrow, more than one tile with a rest, one long row, matrices in a row
SHAPES = [(3, 70_001), (70_001, 3), (130, 1500), (200_003,), (9, 131, 150), (2, 70_000, 1), (140, 1, 1100)]


@pytest.fixture
def alike() -> Iterator[Callable]:
    """Calls a function with one and with several threads; gives its result if it is the same to the bit."""
    before = threads.get_num_threads()

    def call(function: Callable, *args: Any) -> np.ndarray:
        found = []
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            found.append(np.ascontiguousarray(function(*args)))
        assert all(x.tobytes() == found[0].tobytes() for x in found)
        return found[0].reshape(np.shape(function(*args)))

    yield call
    threads.set_num_threads(before)


def _arrays(shape: tuple[int, ...], dtype: Any) -> list[np.ndarray]:
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype)
    return [x, x.T, x[..., ::-1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_extrema_over_any_dimension(shape, dtype, alike):
    for x in _arrays(shape, dtype):
        exact = x.astype(np.float64)
        for dim in [(d,) for d in range(x.ndim)] + [tuple(range(x.ndim))]:
            size = np.abs(exact).sum(dim)
            found = alike(cpu.sum, x, dim, False)
            assert found.dtype == dtype
            assert found.shape == size.shape
            assert (np.abs(found - exact.sum(dim)) <= 3e-7 * size).all()
            squares = alike(reduce.total, x, dim, True, np.dtype(dtype), None, 2)
            np.testing.assert_allclose(squares, (exact**2).sum(dim, keepdims=True), rtol=3e-6)
            center = x.mean(dim, keepdims=True)
            for power in (1, 2):
                away = (exact - center) ** power
                found = alike(reduce.total, x, dim, True, np.dtype(np.float64), center, power)
                size = np.abs(away).sum(dim, keepdims=True)
                assert (np.abs(found - away.sum(dim, keepdims=True)) <= 3e-6 * size).all()
            assert (alike(cpu.amax, x, dim, False) == x.max(dim)).all()
            assert (alike(cpu.amin, x, dim, True) == x.min(dim, keepdims=True)).all()


@with_kernels
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_of_huge_numbers_that_cancel_stay_in_range(dim, alike):
    x = np.full((512, 1024), 3e38, np.float32)
    x[1::2, 1::2] = x[::2, ::2] = -3e38
    x[7], x[:, 9] = 1, 1
    np.testing.assert_array_equal(alike(cpu.sum, x, (dim,), False), x.astype(np.float64).sum(dim).astype(np.float32))


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_and_infinities_stay_in_their_tile(dim, alike):
    x = np.ones((130, 1500), np.float32)
    x[7, 1100], x[8, 1101], x[9, 1102] = np.nan, np.inf, -np.inf
    for function in (cpu.sum, cpu.amax):
        found = alike(function, x, (dim,), False)
        expected = (np.sum if function is cpu.sum else np.max)(x, dim)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1000, 100), (100, 1000), (20_001,), (40, 50, 60), (1, 7000), (30, 1, 300)])
def test_products_of_the_others_are_quotients(shape, dtype, alike):
    x = np.random.default_rng(0).uniform(0.9997, 1.0003, shape).astype(dtype)
    exact = x.astype(np.float64)
    for y, wide in ((x, exact), (x.T, exact.T)):
        for dim in range(y.ndim):
            found = alike(cpu.prod_others, y, dim)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wide.prod(dim, keepdims=True) / wide, rtol=3e-7)
        np.testing.assert_allclose(alike(cpu.prod_others, y, None), wide.prod() / wide, rtol=3e-7)


def test_products_of_the_others_where_there_is_a_zero():
    x = np.full((100, 100), 1.001, np.float32)
    x[3, 4] = 0
    found = cpu.prod_others(x, 1)
    assert found[3, 4] == pytest.approx(1.001**99, rel=1e-5)
    assert not found[3, :4].any()
    assert found[2, 4] == pytest.approx(1.001**99, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1000, 300), (1024, 257), (997, 301), (12, 20_000)])
def test_the_first_extreme_of_a_column_is_found_by_any_number_of_threads(shape, dtype, alike):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40, shape).astype(dtype)  # with ties
    x[rng.random(shape) < 0.0005] = np.nan
    x[:, 3], x[:, 5] = np.nan, -np.inf
    columns = np.arange(shape[1])
    for function, place in ((cpu.max_dim, x.argmax(0)), (cpu.min_dim, x.argmin(0))):
        np.testing.assert_array_equal(alike(lambda f: f(x, 0, False)[1], function), place)
        np.testing.assert_array_equal(alike(lambda f: f(x, 0, True)[0], function), x[place, columns][None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_of_large_extrema(dtype: Any, rng: np.random.Generator) -> None:
    """Numbers that tie share evenly, nan beside nan too; the gradient keeps its dtype on the way."""
    x = rng.integers(0, 9, (600, 300)).astype(dtype)
    x[3, 5], x[4, :2], x[5] = np.nan, np.inf, -np.inf
    best = x.max(-1)
    hit = (x == best[:, None]) | (np.isnan(x) & np.isnan(best)[:, None])
    share = cpu.tie_weights(x, best, (1,), False)
    assert share.dtype == dtype
    np.testing.assert_array_equal(share, (hit / hit.sum(-1, keepdims=True).astype(dtype)).astype(dtype))
    t = ferro.tensor(x, requires_grad=True)
    t.amax(-1).sum().backward()
    np.testing.assert_array_equal(np.asarray(t.grad), np.where(np.isnan(best)[:, None], np.nan, share))
