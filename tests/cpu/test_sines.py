"""Sines and cosines of large arrays: what a number becomes does not depend on the numbers beside it."""

import numpy as np
import pytest

from ferro import cpu
from ferro.native import readiness, threads, workers
from tests.helpers import of_arrays

# Where NumPy answers it warns of infinities; ferro keeps that from its users, pytest shows it.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

FUNCTIONS = {
    "sin": (lambda x: cpu.sin(x), np.sin),
    "cos": (lambda x: cpu.cos(x), np.cos),
    "sin_slope": (lambda x: of_arrays("sin_slope")(np.ones_like(x), x), np.cos),
    "cos_slope": (lambda x: of_arrays("cos_slope")(np.ones_like(x), x), lambda x: -np.sin(x)),
}


@pytest.fixture(autouse=True)
def _ready(monkeypatch):
    before = threads.get_num_threads()
    monkeypatch.setattr(workers, "_MOST", 4)
    for name in FUNCTIONS:
        for dtype in LIMITS:
            readiness.ready((name,), np.dtype(dtype))
    readiness.finish()
    yield
    threads.set_num_threads(before)


LIMITS = {np.float32: np.float32(1e5), np.float64: np.float64(1e8)}  # beyond, each number is computed by itself
by_name_and_dtype = pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in FUNCTIONS for d in LIMITS])


def numbers(size, dtype):
    x = np.random.default_rng(0).uniform(-10, 10, size).astype(dtype)
    x[::5003] = np.random.default_rng(1).uniform(-1e30, 1e30, x[::5003].size)
    x[1:6] = np.nan, np.inf, -np.inf, LIMITS[dtype], np.nextafter(LIMITS[dtype], dtype(np.inf))
    return x


@by_name_and_dtype
def test_large_numbers_are_right(name, dtype):
    function, reference = FUNCTIONS[name]
    x = numbers(20_000, dtype)
    with np.errstate(invalid="ignore"):
        expected = reference(x.astype(np.float64))
    np.testing.assert_allclose(function(x), expected, rtol=0, atol=3e-7 if dtype is np.float32 else 5e-16)


@by_name_and_dtype
def test_a_large_number_changes_nothing_beside_it(name, dtype):
    function, _ = FUNCTIONS[name]
    x = numbers(20_000, dtype)
    y = np.where(abs(x) <= 10, x, dtype(0))
    np.testing.assert_array_equal(function(x)[y == x], function(y)[y == x])


@by_name_and_dtype
def test_any_number_of_threads_gives_the_same(name, dtype):
    function, _ = FUNCTIONS[name]
    x = numbers(300_001, dtype)
    found = []
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        function(x)
        readiness.finish()
        found.append(function(x))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_zero_keeps_its_sign():
    x = np.zeros(5000, np.float32)
    assert np.signbit(cpu.sin(-x)).all()
    assert not np.signbit(cpu.sin(x)).any()


def test_the_cosine_of_zero_is_one() -> None:
    x = np.zeros(10_000, np.float32)
    assert (cpu.cos(x) == 1).all()
    assert (cpu.sin(x) == 0).all()
