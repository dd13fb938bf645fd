"""Singular values and vectors in LAPACK's steps, the last of which is a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ferro.cpu import linalg_spectral
from ferro.cpu.kernels import factor
from ferro.native import readiness, threads
from tests.configuration import with_tiles

pytestmark = with_tiles
DTYPES = (np.float32, np.float64)


@pytest.fixture(autouse=True)
def made():
    for dtype in factor.DTYPES:
        readiness.ready(factor._KERNELS, dtype)
    readiness.finish()


def check(x: Any, full: bool, found: tuple) -> None:
    """Against what the words mean, and NumPy's singular values in float64."""
    u, s, vh = [part.astype(float) for part in found]
    m, n = x.shape
    k, exact = min(m, n), x.astype(float)
    assert [part.dtype for part in found] == [x.dtype] * 3
    assert u.shape == (m, m if full else k)
    assert vh.shape == (n if full else k, n)
    bound = 20 * np.sqrt(max(m, n)) * np.finfo(x.dtype).eps
    size = np.abs(exact).max() * np.sqrt(k)
    np.testing.assert_allclose(s, np.linalg.svd(exact, compute_uv=False), rtol=0, atol=bound * size)
    np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), rtol=0, atol=bound)
    np.testing.assert_allclose(vh @ vh.T, np.eye(len(vh)), rtol=0, atol=bound)
    np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], exact, rtol=0, atol=bound * size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(96, 96), (100, 97), (97, 150), (130, 99), (330, 340)])
def test_factors_are_orthogonal_and_multiply_to_the_matrix(dtype: Any, shape: tuple, rng: Any) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    before = x.copy()
    for full in (False, True):
        found: Any = linalg_spectral._svd_in_steps(x, full)
        check(x, full, found)
        check(x, full, linalg_spectral.svd_factors(x, full))
        turned: Any = linalg_spectral._svd_in_steps(x.T, full)
        check(x.T, full, turned)
    assert (x == before).all()


def test_equal_and_zero_singular_values(rng: Any) -> None:
    x = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 110))
    check(x, True, linalg_spectral.svd_factors(x, True))
    x = np.eye(120, 110, dtype=np.float32)
    check(x, True, linalg_spectral.svd_factors(x, True))


def test_numbers_are_the_same_for_two_threads(rng: Any) -> None:
    x = rng.standard_normal((300, 280)).astype(np.float32)
    square = x @ x.T
    before, found = threads.get_num_threads(), []
    try:
        for count in (1, 2):
            threads.set_num_threads(count)
            found.append((*linalg_spectral.svd_factors(x, True), *linalg_spectral.eigh_factors(square, False)))
    finally:
        threads.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("scale", [1e-35, 1e30])
def test_numbers_out_of_range_are_left_to_lapack(scale: float, rng: Any) -> None:
    x = (rng.standard_normal((100, 100)) * scale).astype(np.float32)
    assert linalg_spectral._svd_in_steps(x, False) is None
    _, s, _ = linalg_spectral.svd_factors(x, False)
    np.testing.assert_allclose(s, np.linalg.svd(x.astype(float), compute_uv=False), rtol=1e-2, atol=1e-5 * scale)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_left_to_lapack(bad: float, rng: Any) -> None:
    x = rng.standard_normal((100, 100)).astype(np.float32)
    x[5, 3] = bad
    assert linalg_spectral._svd_in_steps(x, False) is None
