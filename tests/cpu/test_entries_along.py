"""Entries of small arrays along a dimension: indices, scans, moments, extrema, moved and cut arrays, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ferro import cpu
from ferro.native.entries import fallback
from tests.configuration import with_machine_code
from tests.cpu.test_small_entries import alike, answers

DTYPES = (np.float32, np.float64)
DIMS = (0, 1, 2)


@pytest.fixture(params=DTYPES)
def x(request: Any, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((3, 4, 5)).astype(request.param)


def along(rng: np.random.Generator, x: np.ndarray, dim: int, many: int) -> np.ndarray:
    """Places along a dimension for as many elements."""
    return rng.integers(0, x.shape[dim], (*x.shape[:dim], many, *x.shape[dim + 1 :]))


def by_loop(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, add: bool) -> np.ndarray:
    """What scatter and scatter_add are by their definition."""
    out = x.copy()
    for place in np.ndindex(index.shape):
        there = (*place[:dim], index[place], *place[dim + 1 :])
        out[there] = out[there] + source[place] if add else source[place]
    return out


# --- indices ----------------------------------------------------------------------------------------------------------


@with_machine_code
@pytest.mark.parametrize("dim", DIMS)
def test_an_index_of_the_same_dimensions(x: np.ndarray, dim: int, rng: np.random.Generator) -> None:
    for many in (1, 2, 7):
        index = along(rng, x, dim, many)
        alike(answers(cpu.gather, x, dim, index), np.take_along_axis(x, index, dim))
        source = rng.standard_normal(index.shape).astype(x.dtype)
        alike(answers(cpu.scatter, x, dim, index, source), by_loop(x, dim, index, source, False))
        alike(answers(cpu.scatter_add, x, dim, index, source), by_loop(x, dim, index, source, True))


@pytest.mark.parametrize("wrong", [-1, 4])
@pytest.mark.parametrize("function", [cpu.gather, cpu.scatter, cpu.scatter_add])
def test_places_out_of_bounds_are_refused(function: Any, wrong: int) -> None:
    for shape in ((4,), (2, 4), (2, 2, 4)):
        given = np.zeros(shape, np.float32)
        assert cpu.finds_wrong_places(given, len(shape) - 1, given)
        index = np.full(shape, wrong)
        more = () if function is cpu.gather else (given,)
        for each in (function, fallback(function)):
            with pytest.raises(IndexError, match="out of bounds"):
                each(given, len(shape) - 1, index, *more)
    with pytest.raises(IndexError, match="out of bounds"):
        cpu.index_select(np.zeros((2, 4), np.float32), 1, np.array([0, wrong]))


@with_machine_code
@pytest.mark.parametrize("dim", DIMS)
def test_an_index_of_slices(x: np.ndarray, dim: int, rng: np.random.Generator) -> None:
    index = rng.integers(0, x.shape[dim], 6)
    alike(answers(cpu.index_select, x, dim, index), x.take(index, dim))
    signed = rng.integers(-x.shape[dim], x.shape[dim], (1, 2, 3))
    alike(answers(cpu.index_get, x, signed, (dim,)), x.take(signed[0], dim))


@with_machine_code
def test_several_indices(x: np.ndarray) -> None:
    index = np.array([[0, -1, 2, 1], [3, 0, -4, 1], [4, -5, 0, 2]])
    for several in (2, 3):
        wanted = x[tuple(index[:several])]
        alike(answers(cpu.index_get, x, index[:several], tuple(range(several))), wanted)
    square = index[:2].reshape(2, 2, 2)
    alike(answers(cpu.index_get, x, square, (0, 1)), x[square[0], square[1]])
    alike(cpu.index_get(x, index[1:], (1, 2)), x[:, index[1], index[2]])
    for bad in (3, -4):
        with pytest.raises(IndexError):
            cpu.index_get(x, np.array([[0, bad], [0, 0]]), (0, 1))


# --- scans and products -----------------------------------------------------------------------------------------------


@with_machine_code
@pytest.mark.parametrize("dim", DIMS)
def test_scans(x: np.ndarray, dim: int) -> None:
    wide = x.astype(np.float64)
    alike(answers(cpu.cumsum, x, dim), wide.cumsum(dim).astype(x.dtype))
    alike(answers(cpu.cumprod, x, dim), wide.cumprod(dim).astype(x.dtype))
    x = np.round(x)  # so that some are equal
    x[1, 2, 3] = x[0, 0, 4] = np.nan
    for function, ufunc in ((cpu.cummax, np.maximum), (cpu.cummin, np.minimum)):
        values, index = answers(function, x, dim)
        wanted = ufunc.accumulate(x, dim)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(np.take_along_axis(x, index, dim), wanted)
        np.testing.assert_array_equal(index, fallback(function)(x, dim)[1])


@with_machine_code
@pytest.mark.parametrize("keep", [False, True])
def test_products(x: np.ndarray, keep: bool) -> None:
    for dim in (None, *DIMS):
        wanted = np.asarray(x.astype(np.float64).prod(dim, keepdims=keep)).astype(x.dtype)
        alike(answers(cpu.prod, x, dim, keep), wanted)


# --- moments and extrema ----------------------------------------------------------------------------------------------


@with_machine_code
@pytest.mark.parametrize("dim", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("keep", [False, True])
def test_moments(x: np.ndarray, dim: tuple, keep: bool) -> None:
    wide = x.astype(np.float64)
    mean = np.asarray(wide.mean(dim, keepdims=keep)).astype(x.dtype)
    for correction in (0, 1, 1.5):
        v = np.asarray(wide.var(dim, ddof=correction, keepdims=keep))
        variance, deviation = v.astype(x.dtype), np.sqrt(v).astype(x.dtype)
        alike(answers(cpu.var, x, dim, correction, keep), variance)
        alike(answers(cpu.std, x, dim, correction, keep), deviation)
        alike(answers(cpu.var_mean, x, dim, correction, keep), (variance, mean))
        alike(answers(cpu.std_mean, x, dim, correction, keep), (deviation, mean))
    norm = np.sqrt(np.asarray((wide**2).sum(dim, keepdims=keep))).astype(x.dtype)
    alike(answers(cpu.vector_norm, x, 2, dim, keep), norm)


def test_moments_of_numbers_far_from_one() -> None:
    for scale in (1e-200, 1e200):
        x = np.array([[1.0, 2.0], [3.0, 5.0]]) * scale
        for dim in (0, 1):
            np.testing.assert_allclose(cpu.std(x, (dim,), 1, False), (x / scale).std(dim, ddof=1) * scale)
            np.testing.assert_allclose(
                cpu.vector_norm(x, 2, (dim,), False), np.sqrt(((x / scale) ** 2).sum(dim)) * scale
            )


@with_machine_code
@pytest.mark.parametrize("shape", [(4, 5), (7, 40), (3, 17, 6)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extrema(shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    x = np.round(4 * rng.standard_normal(shape)).astype(dtype)
    bad = x.copy()
    bad.reshape(-1)[::9] = np.nan
    bad.reshape(-1)[1::9] = -np.nan
    for given in (x, bad, np.where(x > 0, dtype(np.inf), -dtype(np.inf))):
        for dim in range(len(shape)):
            for function, find, over in ((cpu.max_dim, np.argmax, np.max), (cpu.min_dim, np.argmin, np.min)):
                values, index = answers(function, given, dim, False)
                np.testing.assert_array_equal(values, over(given, dim))
                np.testing.assert_array_equal(index, find(given, dim))
            np.testing.assert_array_equal(answers(cpu.amax, given, (dim,), True), given.max(dim, keepdims=True))
            np.testing.assert_array_equal(answers(cpu.amin, given, (dim,), False), given.min(dim))
        np.testing.assert_array_equal(answers(cpu.amax, given, tuple(range(len(shape))), False), given.max())


# --- losses and softmax -----------------------------------------------------------------------------------------------


@with_machine_code
@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_of_labels(dtype: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 3)).astype(dtype)
    target = np.array([2, -100, 0, 1])
    kept = np.array([0, 2, 3])
    alike(
        answers(cpu.nll_pick, x, target, None, -100, "mean"),
        np.asarray(-x[kept, target[kept]].astype(np.float64).mean()).astype(dtype),
    )
    with np.errstate(invalid="ignore"):
        assert np.isnan(cpu.nll_pick(x, np.full(4, -100), None, -100, "mean"))
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        cpu.nll_pick(x, np.array([0, 1, 3, 0]), None, -100, "mean")


@with_machine_code
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_across(x: np.ndarray, dim: int) -> None:
    e = np.exp(x.astype(np.float64))
    wanted = e / e.sum(dim, keepdims=True)
    alike(answers(cpu.softmax_across, x, dim), wanted.astype(x.dtype))
    alike(answers(cpu.log_softmax_across, x, dim), np.log(wanted).astype(x.dtype))
    alike(cpu.softmax(x, dim), wanted.astype(x.dtype))
    alike(cpu.log_softmax(x, dim), np.log(wanted).astype(x.dtype))


# --- moved and cut ----------------------------------------------------------------------------------------------------


@with_machine_code
def test_padded(x: np.ndarray) -> None:
    for pads in (((0, 0), (1, 2), (0, 3)), ((2, 0), (0, 0), (1, 1)), ((0, 0),) * 3):
        for value in (0, 1.5, -np.inf):
            alike(answers(cpu.constant_pad, x, pads, value), np.pad(x, pads, constant_values=value))
    alike(cpu.constant_pad(x, ((0, 0), (-1, 2), (1, -2)), 2.0)[:, :3, 1:], x[:, 1:, :3])


@with_machine_code
@pytest.mark.parametrize("dim", DIMS)
def test_rolled(x: np.ndarray, dim: int) -> None:
    for by in (0, 1, -1, 2, 17, -23):
        alike(answers(cpu.roll, x, (by,), (dim,)), np.roll(x, by, dim))


@with_machine_code
def test_triangles(x: np.ndarray) -> None:
    for diagonal in (-9, -2, -1, 0, 1, 3, 9):
        alike(answers(cpu.tril, x, diagonal), np.tril(x, diagonal))
        alike(answers(cpu.triu, x, diagonal), np.triu(x, diagonal))


def test_turned_by_slices(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 2))
    for k in range(-5, 6):
        for dims in ((0, 1), (1, 0), (2, 0), (1, 2)):
            np.testing.assert_array_equal(cpu.rot90(x, k, dims), np.rot90(x, k, dims))
