"""Functions of two numbers by kernels: whole quotients and remainders, bit by bit those of C, angles and lengths within a unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ferro import cpu

DTYPES = [np.float32, np.float64]
SPECIAL = [
    0.0,
    -0.0,
    1,
    -1,
    np.inf,
    -np.inf,
    np.nan,
    5e-324,
    1e-45,
    1e-310,
    1e300,
    -1e300,
    3,
    0.1,
    -0.3,
    2.0**53 + 2,
    2.0**1023,
]
SIZE = 20_000


def pairs(dtype: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Numbers of all sizes, of like size, multiples and their neighbours, and those that are no numbers."""
    rng, integers = np.random.default_rng(3), {np.float32: np.uint32, np.float64: np.uint64}[dtype]

    def any_bits() -> np.ndarray:
        return rng.integers(0, 1 << 8 * dtype().itemsize, SIZE, dtype=np.uint64).astype(integers).view(dtype)

    special = np.resize(np.array(SPECIAL, np.float64).astype(dtype), (400, len(SPECIAL)))
    x, y = rng.normal(size=(2, SIZE)).astype(dtype)
    multiple = (y * rng.integers(1, 1000, SIZE)).astype(dtype)
    far = (multiple * 2.0 ** rng.integers(0, 60, SIZE)).astype(dtype)
    return [
        (np.repeat(special[0], 400), special.reshape(-1)),
        (any_bits(), any_bits()),
        (x, y),
        (multiple, y),
        (np.nextafter(multiple, dtype(0)), y),
        (far, y),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@np.errstate(all="ignore")
def test_quotients_and_remainders_are_those_of_numpy(name: str, dtype: Any) -> None:
    """Signs of zeros, too. In float32 NumPy rounds quotients before it takes their whole part; kernels do not below 2^24."""
    for x, y in pairs(dtype):
        found, wanted = getattr(cpu, name)(x, y), getattr(np, name)(x, y)
        if name == "floor_divide" and dtype is np.float32:
            exact = np.floor_divide(x.astype(np.float64), y.astype(np.float64))
            wanted = np.where((np.abs(exact) < 2.0**24) & (found == exact), exact, wanted).astype(dtype)
        np.testing.assert_array_equal(found, wanted)
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ours", "theirs"), [(cpu.atan2, np.arctan2), (cpu.hypot, np.hypot)])
@np.errstate(all="ignore")
def test_angles_and_lengths_are_right_to_a_unit(ours: Callable, theirs: Callable, dtype: Any) -> None:
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("there are no numbers with more digits")
    for x, y in pairs(dtype):
        found, exact = ours(x, y), theirs(x.astype(np.longdouble), y.astype(np.longdouble))
        near = exact.astype(dtype)
        unit = np.maximum(np.spacing(np.abs(near)), np.finfo(dtype).smallest_subnormal)
        distance = np.abs(found - exact) / unit
        fine = (found == near) | (np.isnan(found) & np.isnan(near)) | (distance <= 1.25)
        assert fine.all(), (x[~fine][0], y[~fine][0])
        number = ~np.isnan(near)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(near[number]))
