"""Linear algebra of NumPy arrays by kernels and by LAPACK in the array's own dtype, against float64 and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from ferro import cpu
from ferro.cpu import joining, linalg_solve

DTYPES = (np.float32, np.float64)


def _near(got: Any, want: Any, scale: float = 1.0) -> None:
    single = got.dtype.char in "fF" or want.dtype.char in "fF"
    tolerance = (2e-5 if single else 1e-12) * scale
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _well_conditioned(rng: np.random.Generator, shape: tuple, dtype: Any) -> np.ndarray:
    return (np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, shape) / shape[-1]).astype(dtype)


# -- triangles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (7, 16), (8, 17), (9, 33), (40, 5), (70, 100)])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangles_of_every_kind_are_solved(
    dtype: Any, n: int, columns: int, upper: bool, unit: bool, rng: np.random.Generator
) -> None:
    a = _well_conditioned(rng, (n, n), dtype)
    other = a.copy()
    other[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan  # is not read
    if unit:
        np.fill_diagonal(other, np.nan)
    b = rng.uniform(-1, 1, (n, columns)).astype(dtype)
    want = scipy.linalg.solve_triangular(a.astype(float), b.astype(float), lower=not upper, unit_diagonal=unit)
    for given in (other, np.asfortranarray(other), np.repeat(other, 2, 1)[:, ::2]):
        _near(cpu.solve_tri(given, b, upper, True, unit), want)
        _near(cpu.solve_tri(given, b[:, ::-1], upper, True, unit), want[:, ::-1])
        # X A = B is Aᵀ Xᵀ = Bᵀ
        _near(cpu.solve_tri(given.T, b.T, not upper, False, unit), want.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks_of_triangles_are_broadcast(dtype: Any, rng: np.random.Generator) -> None:
    a = _well_conditioned(rng, (3, 1, 10, 10), dtype)
    b = rng.uniform(-1, 1, (2, 10, 4)).astype(dtype)
    got = cpu.solve_tri(a, b, False, True, False)
    assert got.shape == (3, 2, 10, 4)
    _near(np.tril(a) @ got, np.broadcast_to(b, got.shape))
    _near(cpu.solve_tri(a[0, 0], b, False, True, False), got[0])


@pytest.mark.parametrize("n", [3, 20])
def test_a_zero_on_the_diagonal_gives_inf_and_nan(n: int) -> None:
    a = np.eye(n)
    a[1, 1] = 0
    b = np.ones((n, 2))
    b[1, 1] = 0
    got = cpu.solve_tri(a, b, False, True, False)
    assert np.isinf(got[1, 0])
    assert np.isnan(got[1, 1])
    assert (got[0] == 1).all()


# -- factors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("stack", [(), (20,), (2, 10)])
def test_factors_multiply_to_the_matrix(char: str, n: int, stack: tuple, rng: np.random.Generator) -> None:
    a: Any = rng.uniform(-1, 1, (*stack, n, n))
    if char in "FD":
        a = a + 1j * rng.uniform(-1, 1, a.shape)
    a = (a / n + np.eye(n))[..., ::-1, :].astype(char)  # rows must be exchanged
    lu, pivots, info = cpu.lu_factor(a)
    assert lu.dtype == a.dtype
    assert not info.any()
    rows = np.take_along_axis(a, linalg_solve.permutation(pivots, n)[..., None], -2)
    _near((np.tril(lu, -1) + np.eye(n)) @ np.triu(lu), rows, 10)
    spd = (a @ a.conj().swapaxes(-1, -2)).astype(char)
    lower, info = cpu.cholesky_ex(spd)
    assert not info.any()
    assert not np.triu(lower, 1).any()
    _near(lower @ lower.conj().swapaxes(-1, -2), spd, 10)
    _near(cpu.inv_ex(a)[0] @ a, np.broadcast_to(np.eye(n, dtype=char), a.shape), 100)
    solution, _, lu, pivots = cpu.solve_lu(a, spd, True)
    _near(a @ solution, spd, 100)
    _near(cpu.solve_lu(a, spd, False)[0] @ a, spd, 100)
    if lu is not None:
        adjoint = cpu.lu_packed_solve(lu, pivots, spd, True, True)
        _near(a.conj().swapaxes(-1, -2) @ adjoint, spd, 100)
    for mode in ("reduced", "complete"):
        tall = a[..., : n - 2]
        for given in (tall, tall.swapaxes(-1, -2)):
            q, r = cpu.qr_factors(given, mode)
            assert q.dtype == r.dtype == a.dtype
            assert not np.tril(r, -1).any()
            _near(q @ r, given, 10)
            _near(q.conj().swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*stack, *q.shape[-1:] * 2)), 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 6), (6, 4)])
def test_elimination_in_a_stack_is_lapacks(dtype: Any, shape: tuple, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (30, *shape)).astype(dtype)
    x[3] = 0
    x[5, :, 1] = 0
    x[6, 1] = x[6, 0]
    lu, pivots, info = cpu.lu_factor(x)
    assert info[3] == 1
    assert info[5] == 2
    for k, a in enumerate(x):
        one, p, i = [r[0] for r in cpu.lu_factor(a[None])]
        _near(lu[k], one)
        assert k == 6 or i == info[k]  # (rounding decides whether the last pivot is 0)
        assert k in (3, 5, 6) or (p == pivots[k]).all()


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("char", "fdFD")
def test_slogdet_of_small_and_large_matrices(n: int, char: str, rng: np.random.Generator) -> None:
    a: Any = rng.uniform(-1, 1, (5, n, n))
    if char in "FD":
        a = a + 1j * rng.uniform(-1, 1, a.shape)
    a[2, 0] = 0
    a = a.astype(char)
    sign, log = cpu.slogdet(a)[:2]
    want_sign, want_log = np.linalg.slogdet(a.astype(complex if char in "FD" else float))
    assert sign.dtype == a.dtype
    assert log.dtype == a.real.dtype
    assert sign[2] == 0
    assert log[2] == -np.inf
    _near(sign, want_sign, 100)
    _near(log[[0, 1, 3, 4]], want_log[[0, 1, 3, 4]], 100)


# -- triangles of matrices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(3, 3), (128, 128), (129, 140), (300, 130), (130, 300), (2, 200, 100), (0, 3), (200, 0), (1, 500)]
)
def test_triangles_are_cut_out(shape: tuple, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, shape)
    x.flat[:1] = np.nan
    for diagonal in (-400, -129, -5, -1, 0, 1, 7, 128, 131, 400):
        for given in (x, np.flip(x.copy(), -1)):
            np.testing.assert_array_equal(joining.tril(given, diagonal), np.tril(given, diagonal))
            np.testing.assert_array_equal(joining.triu(given, diagonal), np.triu(given, diagonal))
