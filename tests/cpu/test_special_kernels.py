"""Kernels of special functions beside mpmath: rounding, ends of the range, zeros of the result, signs of zeros, nan and infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from ferro import cpu
from tests.configuration import with_kernels

SIZE = 5000  # from 4096 on kernels answer


def inverse_of_erf(x: Any) -> Any:
    """By Newton's steps from SciPy's: mpmath's own is slow, and ends where 1 - x is small."""
    y = mpmath.mpf(float(scipy.special.erfinv(float(x))))
    for _ in range(2):
        y += (mpmath.erfc(y) - (1 - x)) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
    return y


def log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


def around(*centres: float) -> list[float]:
    """The neighbours of numbers, near and farther away."""
    steps = np.float32(2.0) ** -np.arange(2, 24)
    return [float(np.float32(c + sign * max(abs(c), 1e-3) * s)) for c in centres for s in steps for sign in (-1, 1)]


# Of each function: what it is, the largest error in units in the last place, and arguments.
FUNCTIONS: dict[str, tuple[Callable, float, Any]] = {
    "erfc": (
        mpmath.erfc,
        3.0,
        lambda rng: [*rng.uniform(-4, 10.05, 1200), *(10.0 ** rng.uniform(-30, 0, 100)), *around(0, 0.45, 1, 9.2, 10)],
    ),
    "erfinv": (
        inverse_of_erf,
        2.2,
        lambda rng: [
            *rng.uniform(-1, 1, 1200),
            *(1 - 2.0 ** rng.uniform(-23.9, -1, 300)),
            *(10.0 ** rng.uniform(-37, 0, 50)),
        ],
    ),
    "lgamma": (
        log_gamma,
        0.51,
        lambda rng: [
            *rng.uniform(-20.5, 12, 1000),
            *(10.0 ** rng.uniform(-30, 4, 200)),
            *around(0.5, 1, 1.5, 2, 2.5, 8, -2.4570247, -2.7476826, -3.1435809, -1, -2),
        ],
    ),
}


@with_kernels
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounding(name: str) -> None:
    function, bound, arguments = FUNCTIONS[name]
    points = np.unique(np.float32(arguments(np.random.default_rng(0))))
    points = points[np.abs(points) < 1] if name == "erfinv" else points
    points = points[(points > 0) | (points != np.rint(points))] if name == "lgamma" else points
    x = np.resize(points, SIZE)
    found = getattr(cpu, name)(x)
    with mpmath.workdps(40):
        wanted = [function(mpmath.mpf(float(v))) for v in points]
    for v, got, w in zip(points.tolist(), found.tolist(), wanted, strict=False):
        unit = float(np.spacing(max(np.float32(abs(w)), np.float32(1e-44))))
        assert abs(mpmath.mpf(got) - w) <= bound * unit, (name, v, got, float(w))


@with_kernels
def test_the_inverse_of_erf_in_float64() -> None:
    """Near 0, where it is large, and where the kernel goes from one polynomial to the next."""
    rng = np.random.default_rng(0)
    ends = np.float64([0.999, 1 - 1e-7, -0.999, 1 - 2.0**-53])
    points = np.concatenate(
        [rng.uniform(-1, 1, 600), 1 - 10.0 ** rng.uniform(-16, 0, 300), 10.0 ** rng.uniform(-300, 0, 50)]
    )
    points = np.concatenate([points[np.abs(points) < 1], ends, np.nextafter(ends[:3], 0)])
    special = np.float64([0.0, -0.0, 1, -1, 1.5, -2, np.nan, np.inf])
    found = cpu.erfinv(np.resize(np.concatenate([special, points]), SIZE))
    np.testing.assert_array_equal(found[:8], [0.0, -0.0, np.inf, -np.inf, *[np.nan] * 4])
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])
    with mpmath.workdps(40):
        for v, got in zip(points.tolist(), found[8:].tolist(), strict=False):
            wanted = inverse_of_erf(mpmath.mpf(v))
            assert abs(mpmath.mpf(got) - wanted) <= 2 * float(np.spacing(abs(float(wanted)))), v


@with_kernels
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("erfc", [(np.inf, 0), (-np.inf, 2), (np.nan, np.nan), (0.0, 1), (-0.0, 1), (11, 0), (3e38, 0), (-3e38, 2), (1e-45, 1)]),
        ("erfinv", [(1, np.inf), (-1, -np.inf), (1.5, np.nan), (-2, np.nan), (np.nan, np.nan), (np.inf, np.nan), (0.0, 0.0), (-0.0, -0.0)]),
        ("lgamma", [(np.inf, np.inf), (-np.inf, np.inf), (np.nan, np.nan), (1, 0.0), (2, 0.0), (3e38, np.inf)]),
        ("lgamma", [(-1, np.inf), (0.0, np.inf), (-0.0, np.inf), (-7, np.inf), (-1e10, np.inf)]),
    ],
)  # fmt: skip
def test_ends(name: str, pairs: list[tuple[float, float]]) -> None:
    x, wanted = np.array(pairs, np.float32).T
    found = getattr(cpu, name)(np.resize(x, SIZE))[: len(x)]
    np.testing.assert_array_equal(found, wanted)
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


@with_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_numpys(dtype: Any) -> None:
    info = np.finfo(dtype)
    some = [0, 1, 2, 3.5, np.inf, info.max, info.tiny, info.smallest_subnormal, 1 - info.epsneg, np.nan]
    ends = np.array([*some, *[-v for v in some]], dtype)
    x, y = [np.resize(a, SIZE) for a in np.meshgrid(ends, ends)]
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    found = cpu.nextafter(x, y)
    np.testing.assert_array_equal(found, wanted)
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("divisor", [1, 5, -3, 100])
def test_remainders_of_many_integers(kind: str, divisor: int) -> None:
    if divisor < 0 and kind == "uint8":
        divisor = 3
    ends = np.iinfo(kind)
    x = np.random.default_rng(0).integers(ends.min, ends.max, SIZE, dtype=kind, endpoint=True)
    x[:2] = ends.min, ends.max
    wanted = [v % divisor for v in x.tolist()]  # Python's
    np.testing.assert_array_equal(cpu.remainder(x, np.array(divisor, kind)), wanted)
