"""Eigenvalues and vectors of symmetric matrices in LAPACK's steps, the last of which is a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from ferro.cpu import linalg_spectral
from ferro.cpu.kernels import factor
from ferro.native import readiness
from tests.configuration import with_tiles

pytestmark = with_tiles


@pytest.fixture(autouse=True)
def made():
    for dtype in factor.DTYPES:
        readiness.ready(factor._KERNELS, dtype)
    readiness.finish()


def symmetric(n, dtype):
    x = np.random.default_rng(n).standard_normal((n, n))
    return ((x + x.T) / 2).astype(dtype)


def check(x, upper):
    """Against what the words mean, and NumPy's eigenvalues in float64."""
    dtype = x.dtype
    values, vectors = linalg_spectral.eigh_factors(x, upper)
    assert values.dtype == vectors.dtype == dtype
    half = np.triu(x, 1) if upper else np.tril(x, -1)
    whole = (half + half.T + np.diag(x.diagonal())).astype(np.float64)
    bound = 20 * np.sqrt(len(x)) * np.finfo(dtype).eps
    size = np.abs(whole).max() * np.sqrt(len(x))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(whole), rtol=0, atol=bound * size)
    v = vectors.astype(np.float64)
    np.testing.assert_allclose(v.T @ v, np.eye(len(x)), rtol=0, atol=bound)
    np.testing.assert_allclose(v @ np.diag(values.astype(np.float64)) @ v.T, whole, rtol=0, atol=bound * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [33, 48, 50, 129, 340])
def test_one_triangle_is_read(n, dtype):
    x = symmetric(n, dtype)
    assert linalg_spectral._eigh_in_steps(x) is not None
    for layout in ("C", "F"):
        check(np.array(np.tril(x) + 7 * np.triu(np.ones_like(x), 1), order=layout), False)
        check(np.array(np.triu(x) - 7 * np.tril(np.ones_like(x), -1), order=layout), True)


def test_the_matrix_is_left_as_it_is():
    for layout in ("C", "F"):
        x = np.array(symmetric(40, np.float32), order=layout)
        before = x.copy()
        check(x, False)
        check(x, True)
        assert (x == before).all()


def test_equal_and_zero_eigenvalues():
    x = np.diag(np.repeat(np.array([3, 0, -2], np.float32), 15))
    check(x, False)
    assert linalg_spectral._eigh_in_steps(np.zeros((40, 40), np.float32)) is None
    check(np.zeros((40, 40), np.float32), False)


@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_numbers_out_of_range_are_left_to_lapack(scale):
    x = symmetric(40, np.float32) * np.float32(scale)
    assert linalg_spectral._eigh_in_steps(x) is None
    values, _ = linalg_spectral.eigh_factors(x, False)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x.astype(np.float64)), rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(5, 3), (3, 3), (39, 0)])
def test_what_is_no_number_is_left_to_lapack(bad, place):
    x = symmetric(40, np.float32)
    x[place] = bad
    assert linalg_spectral._eigh_in_steps(x) is None
    assert np.isnan(linalg_spectral.eigh_factors(x, False)[0]).any()
