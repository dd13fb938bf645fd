"""Factorisations and products with vectors by kernels of our own, against SciPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ferro
from ferro import cpu
from ferro.cpu import linalg_solve, products
from ferro.cpu.kernels import factor
from tests.configuration import with_tiles

DTYPES = (np.float32, np.float64)
SHAPES = [(1, 1), (3, 3), (16, 16), (17, 17), (40, 33), (33, 40), (5, 50), (100, 100), (330, 20)]


def _bound(x: np.ndarray) -> float:
    return 4 * max(x.shape[-2:]) * float(np.finfo(x.dtype).eps) * float(np.abs(x).max())


def _product(lu: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """P⁻¹ L U of one matrix in float64."""
    k = min(lu.shape)
    rows = np.tril(lu[:, :k], -1).astype(float) + np.eye(len(lu), k)
    out = rows @ np.triu(lu[:k]).astype(float)
    for i in reversed(range(k)):
        out[[i, pivots[i] - 1]] = out[[pivots[i] - 1, i]]
    return out


# -- LU ----------------------------------------------------------------------------------------------------------------


@with_tiles
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_factors_multiply_to_the_matrix_and_pivots_are_lapacks(dtype: Any, shape: tuple, rng: Any) -> None:
    x = rng.uniform(-1, 1, shape).astype(dtype)
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1].copy()[::-1]):
        lu, pivots, info = factor.lu(given)
        assert np.abs(_product(lu, pivots) - x).max() <= _bound(x)
        assert info == 0
    assert (np.abs(np.tril(lu, -1)) <= 1).all()
    if shape[0] == shape[1]:
        assert (pivots == scipy.linalg.lu_factor(x)[1] + 1).all()


@with_tiles
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_of_singular_matrices(dtype: Any, rng: Any) -> None:
    x = rng.uniform(-1, 1, (2, 3, 40, 40)).astype(dtype)
    x[0, 1, :, 20] = 0
    x[1, 2, 7] = np.nan
    lu, pivots, info = factor.lu(x)
    assert info[0].tolist() == [0, 21, 0]
    sign, log = factor.log_determinants(lu, pivots)
    assert (sign[0, 1], log[0, 1]) == (0, -np.inf)
    assert np.isnan([sign[1, 2], log[1, 2]]).all()
    want = np.linalg.slogdet(x[0, ::2].astype(float))
    assert (sign[0, ::2] == want[0]).all()
    np.testing.assert_allclose(log[0, ::2], want[1], rtol=1e-4 if dtype is np.float32 else 1e-12)


# -- QR ----------------------------------------------------------------------------------------------------------------


def _check_qr(x: np.ndarray, factors: Any, mode: str) -> None:
    q, r = factors
    bound = _bound(x) + np.finfo(x.dtype).tiny
    assert np.abs(q.astype(float) @ r - x).max() <= bound
    assert np.abs(q.T.astype(float) @ q - np.eye(q.shape[1])).max() <= _bound(q)
    assert (np.tril(r, -1) == 0).all()
    want: Any = scipy.linalg.qr(x.astype(float), mode="economic" if mode == "reduced" else "full")
    assert (q.shape, r.shape) == (want[0].shape, want[1].shape)
    signs = np.sign(want[1].diagonal())
    assert (np.sign(r.diagonal())[: len(signs) - 1] == signs[:-1]).all()  # LAPACK's choice


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_factors_are_orthogonal_and_triangular_with_lapacks_signs(
    dtype: Any, shape: tuple, mode: str, rng: Any
) -> None:
    x = rng.uniform(-1, 1, shape).astype(dtype)
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        _check_qr(x, cpu.qr_factors(given, mode), mode)
    assert np.array_equal(cpu.qr_factors(x, "r")[1], cpu.qr_factors(x, "reduced")[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_where_columns_are_zeros_or_numbers_extreme(dtype: Any, rng: Any) -> None:
    x = rng.uniform(-1, 1, (20, 18)).astype(dtype)
    x[:, 3] = 0
    _check_qr(np.triu(x), cpu.qr_factors(np.triu(x), "reduced"), "reduced")
    _check_qr(x[:, 4:], cpu.qr_factors(x[:, 4:], "reduced"), "reduced")
    q, r = cpu.qr_factors(np.zeros((4, 3), dtype), "reduced")
    assert np.array_equal(q, np.eye(4, 3))
    assert not r.any()
    for size in (np.finfo(dtype).tiny, np.finfo(dtype).max / 64):
        y = x[:, 4:] * dtype(size)
        q, r = cpu.qr_factors(y, "reduced")
        np.testing.assert_allclose(
            q.astype(float) @ (r.astype(float) / size),
            y.astype(float) / size,
            atol=1e-5 if dtype is np.float32 else 1e-13,
        )
    x[2, 2] = np.nan
    assert np.isnan(cpu.qr_factors(x, "reduced")[1]).any()


def test_a_matrix_is_factored_as_it_is_in_a_stack(rng: Any) -> None:
    x = rng.uniform(-1, 1, (6, 5, 40, 40)).astype(np.float32)
    found = [*linalg_solve.lu_factor(x), *cpu.qr_factors(x, "reduced")]
    single = [*linalg_solve.lu_factor(x[3, 2]), *cpu.qr_factors(x[3, 2], "reduced")]
    for a, b in zip(single, found, strict=True):
        assert np.array_equal(a, b[3, 2])


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@with_tiles
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 8, 16, 17, 31, 32, 33, 64, 100, 128, 255])
def test_cholesky_factors_read_the_lower_triangle_alone(dtype: Any, n: int, rng: Any) -> None:
    x = rng.uniform(-1, 1, (3, n, n))
    x = (x @ x.swapaxes(-1, -2) + np.eye(n)).astype(dtype)
    want = np.linalg.cholesky(x.astype(float))
    x[..., *np.triu_indices(n, 1)] = np.nan
    got: Any = factor.cholesky(x)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(got, want, rtol=1e-12 if dtype is np.float64 else 1e-4, atol=20 * n * eps)
    assert (np.triu(got, 1) == 0).all()
    np.testing.assert_array_equal(factor.cholesky(x[1].T.copy().T), got[1])
    x[1, n // 2, n // 2] = -1
    assert factor.cholesky(x) is None
    x[1, n // 2, n // 2] = np.nan
    assert factor.cholesky(x) is None


# -- products with vectors ---------------------------------------------------------------------------------------------


def test_nan_stays_in_its_row(rng: Any) -> None:
    x, v = rng.uniform(-1, 1, (401, 200)).astype(np.float32), np.ones(200, np.float32)
    x[400, 3], x[7, 9] = np.nan, np.inf
    for matrix in (x, np.asfortranarray(x)):
        out = products.mv(matrix, v)
        assert np.isnan(out[400])
        assert out[7] == np.inf
        assert np.isfinite(np.delete(out, [7, 400])).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spoilt", [1, 96, 97, 700], ids="minor {}".format)
def test_a_large_matrix_without_cholesky_factor_says_which_minor(spoilt: int, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((700, 700))
    a = (x @ x.T + 700 * np.eye(700)).astype(dtype)
    _, info = ferro.linalg.cholesky_ex(ferro.from_numpy(a))
    assert info.item() == 0
    a[spoilt - 1, spoilt - 1] = -1
    _, info = ferro.linalg.cholesky_ex(ferro.from_numpy(a))
    assert info.item() == spoilt
    a[spoilt - 1, spoilt - 1] = np.nan
    _, info = ferro.linalg.cholesky_ex(ferro.from_numpy(a))
    assert info.item() == spoilt
    both = np.stack([np.eye(700, dtype=dtype), a])
    with pytest.raises(ferro.linalg.LinAlgError, match=rf"minor of order {spoilt}\b"):
        ferro.linalg.cholesky(ferro.from_numpy(both))


def test_the_upper_triangle_of_a_large_matrix_is_not_read() -> None:
    x = np.random.default_rng(1).standard_normal((700, 700))
    a = x @ x.T + 700 * np.eye(700)
    want = np.linalg.cholesky(a)
    a[np.triu_indices(700, 1)] = np.nan
    found = ferro.linalg.cholesky(ferro.from_numpy(a)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)
    assert (np.triu(found, 1) == 0).all()
