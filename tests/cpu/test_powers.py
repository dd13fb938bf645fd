"""Powers by kernels: against mpmath, against C's pow where that is exact or exceptional, and as steps of programs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ferro import cpu
from ferro.cpu import fusion, lowering
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.native import readiness, threads
from tests.configuration import with_kernels


@dataclass(frozen=True)
class Format:
    """A dtype: how right its powers are, in units in the last place, and where its numbers end."""

    dtype: Any
    units: float
    exponents: tuple[int, int]  # of 10, of normal numbers
    smallest: int  # of 10, of the others
    digits: int  # behind the point, of numbers close to 1
    largest: int  # power of 2 that is infinite
    far: float  # e^far is, and e^-far is 0
    whole: int  # powers of numbers up to 5 that are finite, or nearly


FORMATS = [
    Format(np.float32, 0.52, (-37, 38), -45, 6, 128, 105, 60),
    Format(np.float64, 0.75, (-300, 300), -323, 15, 1024, 750, 400),
]
RANGES: dict[str, Callable] = {
    "common": lambda rng, n, f: (rng.uniform(0.1, 3, n), rng.uniform(-3, 3, n)),
    "far": lambda rng, n, f: _to_the_ends(rng, 10.0 ** rng.uniform(*f.exponents, n), f),
    "near the root of 1/2 and of 2": lambda rng, n, f: _to_the_ends(rng, rng.uniform(0.5, 2, n), f),
    "close to 1": lambda rng, n, f: _to_the_ends(
        rng, 1 + 10.0 ** rng.uniform(-f.digits, -1, n) * np.where(rng.random(n) < 0.5, 1, -1), f
    ),
    "subnormal bases": lambda rng, n, f: (
        10.0 ** rng.uniform(f.smallest, f.exponents[0], n),
        rng.uniform(-1.05, 1.05, n),
    ),
    "negative bases": lambda rng, n, f: (
        -rng.uniform(0, 5, n),
        rng.integers(-f.whole, f.whole, n).astype(np.float64),
    ),
}
SPECIAL = [
    0.0,
    1.0,
    np.inf,
    2.0,
    0.5,
    3.0,
    1e-310,
    5e-324,
    1.5,
    1e308,
    2.0**53,
    2.0**53 + 2,
    2.0**52 + 1,
    1e300,
    1024.0,
]
SPECIAL += [1023.999999, 1074.0, 1075.0, 1074.5, 1076.0, np.nextafter(1, 0), np.nextafter(1, 2), np.nan]


def _to_the_ends(rng: np.random.Generator, x: np.ndarray, f: Format) -> tuple[np.ndarray, np.ndarray]:
    """Exponents with which powers of x go from below the smallest number to above the largest."""
    return x, rng.uniform(-1, 1, x.size) * f.far / np.abs(np.log(x))


@pytest.fixture(scope="module")
def power() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    numba = pytest.importorskip("numba")
    from ferro.cpu.kernels.jit_powers import raised

    @numba.njit(error_model="numpy", fastmath={"contract"})
    def run(x: Any, y: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = raised(x[i], y[i], out.itemsize)

    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        run(x, y, out)
        return out

    return function


@pytest.mark.parametrize("f", FORMATS, ids=lambda f: f.dtype.__name__)
@pytest.mark.parametrize("name", RANGES)
def test_powers_are_right_to_so_many_units(name: str, f: Format, power: Callable) -> None:
    mpmath = pytest.importorskip("mpmath")
    x, y = [a.astype(f.dtype) for a in RANGES[name](np.random.default_rng(0), 1500, f)]
    found = power(x, y)
    finite, digits = 0, np.finfo(f.dtype).nmant + 1
    with mpmath.workprec(160):
        # from here on numbers round to infinity
        largest = mpmath.mpf(2) ** f.largest * (1 - mpmath.mpf(2) ** -(digits + 1))
        for base, exponent, value in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
            true = mpmath.mpf(abs(base)) ** mpmath.mpf(exponent) * (-1 if base < 0 and exponent % 2 else 1)
            if abs(true) >= largest:
                assert value == (-np.inf if true < 0 else np.inf)
                continue
            finite += 1
            unit = float(np.spacing(f.dtype(abs(float(true)))))
            assert abs(mpmath.mpf(value) - true) <= f.units * unit, (base, exponent)
    assert finite > 500


def c_pow(x: float, y: float) -> float:
    """Of Python's own, which calls C's, without its errors."""
    odd = math.fmod(y, 2) in (1, -1) if abs(y) < math.inf else False
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:  # a negative base with a fraction, or 0 with a negative exponent
        return math.copysign(math.inf, x if odd else 1) if x == 0 else math.nan


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exceptions_are_those_of_c(dtype: Any, power: Callable) -> None:
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.array(SPECIAL + [-x for x in SPECIAL]).astype(dtype)
    x, y = [a.reshape(-1).copy() for a in np.meshgrid(numbers, numbers)]
    found, expected = power(x, y), np.array(list(map(c_pow, x.tolist(), y.tolist())))
    with np.errstate(over="ignore", under="ignore"):
        expected = expected.astype(dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))
    np.testing.assert_array_max_ulp(found[number], expected[number], 1)
    exact = number & ((expected == 0) | np.isinf(expected) | (expected == 1))
    np.testing.assert_array_equal(found[exact], expected[exact])


FORMULAS = {
    "alone": lambda xp, x, y: xp.power(x, y),
    "steps": lambda xp, x, y: y * x ** (y - 1),
    "number above": lambda xp, x, y: (x + y) * x**2.25,
    "number below": lambda xp, x, y: operator.pow(x, y) * x**-3.5,
}


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs compute powers by the kernel, whatever the instruction set."""
    before = threads.get_num_threads()
    for cached in (fusion._program, fusion._plan):
        cached.cache_clear()
    monkeypatch.setattr(lowering, "OWN_POWERS", {np.dtype(np.float32), np.dtype(np.float64)})
    readiness.parallel(fusion._PROGRAM)
    readiness.finish()
    yield
    threads.set_num_threads(before)
    for cached in (fusion._program, fusion._plan):
        cached.cache_clear()


@with_kernels
@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape", [(PROGRAM_LEAST + 4099,), (70, 700)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_programs_have_powers_as_steps(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Alone, beside others, with numbers and with a row that is repeated; the same bits for any number of threads."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0.1, 3, shape).astype(dtype), rng.uniform(-3, 3, shape[-1]).astype(dtype)
    with readiness.as_if("off"):
        expected = FORMULAS[name](cpu, x, y)
    found = []
    for n in (1, 2, 5):
        threads.set_num_threads(n)
        found.append(fusion.evaluate(FORMULAS[name], x, y))
    assert found[0] is not None
    np.testing.assert_allclose(found[0], expected, rtol=1e-14 if dtype is np.float64 else 1e-6)
    for other in found[1:]:
        assert found[0].tobytes() == other.tobytes()
    place = x.copy()
    np.testing.assert_array_equal(fusion.evaluate(FORMULAS[name], place, y, out=place), found[0])


@with_kernels
@pytest.mark.usefixtures("stepped")
def test_powers_that_numpy_does_better_are_no_steps() -> None:
    x = np.ones(2 * PROGRAM_LEAST)
    for exponent in (-2, -1, -0.5, 0, 0.5, 1, 3):
        assert fusion.evaluate(lambda xp, x, n: xp.power(x, n), x, exponent) is None
