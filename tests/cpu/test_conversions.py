"""Floats of 16 bits: every number there is goes to float32 and back, what lies between is rounded as NumPy and PyTorch round."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ferro
from ferro.cpu.kernels import conversions
from ferro.native import isa

HALF, BFLOAT = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
DTYPES = [HALF, BFLOAT]
EVERY = np.arange(1 << 16, dtype=np.uint16)


def same(found: Any, wanted: Any) -> None:
    """The same numbers, signs of zeros among them; nan is nan."""
    assert found.dtype == wanted.dtype
    a, b = [np.asarray(x, np.float64) for x in (found, wanted)]
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a) & (a == a), np.signbit(b) & (b == b))  # noqa: PLR0124


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@np.errstate(invalid="ignore")
def test_every_number_of_16_bits(dtype: Any) -> None:
    x = EVERY.view(dtype)
    wide = conversions.converted(x, np.dtype(np.float32))
    same(wide, x.astype(np.float32))
    same(conversions.converted(wide, dtype), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@np.errstate(over="ignore")
def test_what_lies_between_is_rounded_to_the_nearest_even(dtype: Any) -> None:
    x = EVERY.view(dtype).astype(np.float32)
    x = np.sort(x[np.isfinite(x)])
    middle = ((x[1:].astype(np.float64) + x[:-1]) / 2).astype(np.float32)
    given = np.concatenate(
        [middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    )
    given = np.concatenate([given, np.float32([1e38, -3.4e38, 65519.9, 65520, 1e-45, -1e-40, np.inf, -np.inf, np.nan])])
    same(conversions.converted(given, dtype), given.astype(dtype))


def nearest(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Every float64 as the nearest number of 16 bits, of two the one whose last bit is 0, found among all of them."""
    every = np.sort(EVERY.view(dtype)[np.isfinite(EVERY.view(dtype).astype(np.float64))].astype(np.float64))
    above = np.searchsorted(every, x).clip(1, len(every) - 1)
    low, high = every[above - 1], every[above]
    last = high.astype(dtype).view(np.uint16) & 1
    found = np.where((x - low > high - x) | ((x - low == high - x) & (last == 0)), high, low)
    found = np.where(np.abs(x) >= every[-1] + (every[-1] - every[-2]) / 2, np.copysign(np.inf, x), found)
    return np.copysign(np.where(np.isnan(x), x, found), x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@np.errstate(all="ignore")
def test_float64_is_rounded_once(dtype: Any) -> None:
    """Also where float32 lies in the middle between two, and where these are subnormal; in large arrays as in small ones."""
    x = EVERY.view(dtype).astype(np.float64)
    x = np.sort(x[np.isfinite(x)])
    middle = (x[1:] + x[:-1]) / 2
    given = [
        middle,
        *[np.nextafter(middle, side) for side in (np.inf, -np.inf)],
        *[middle * s for s in (1 + 1e-10, 1 - 1e-10)],
    ]
    given = np.concatenate(
        [*given, [1e300, -1e300, 5e-324, -5e-324, 0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9999999]]
    )
    wanted = nearest(given, dtype)
    same(conversions.converted(given, dtype), wanted)
    same(np.concatenate([conversions.converted(part, dtype) for part in np.array_split(given, 3000)]), wanted)
    same(conversions.converted(given[5], dtype), wanted[5])
    same(conversions.converted(np.asarray(given[5]), dtype), wanted[5])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.mul, operator.truediv])
@np.errstate(all="ignore")
def test_operators_round_once(dtype: Any, function: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = [rng.permutation(EVERY).view(dtype) for _ in range(2)]
    for b in (y, y[7:8].reshape(())):
        wanted = function(x.astype(np.float32), b.astype(np.float32)).astype(dtype)
        same(conversions.arithmetic(function, x, b), wanted)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 5), (70, 80), (400, 500)])
def test_tensors_are_those_of_torch(name: str, shape: tuple) -> None:
    """Casts, operators, and their gradients."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    rng = np.random.default_rng(1)
    x, y = [rng.normal(size=shape).astype(np.float32) for _ in range(2)]
    before = ferro.get_num_threads()
    for threads in (1, 2):
        ferro.set_num_threads(threads)
        try:
            found = []
            for lib in (ferro, torch):
                a, b = [lib.from_numpy(v).requires_grad_() for v in (x, y)]
                c, d = [v.to(getattr(lib, name)) for v in (a, b)]
                out = (c + d) * (c - d) / (d * d + 2.0)
                out.float().sum().backward()
                turned = c.detach().t() + 1
                found.append([v.detach().float().numpy() for v in (c, out, a.grad, b.grad, turned)])
        finally:
            ferro.set_num_threads(before)
        for p, q in zip(*found, strict=True):
            np.testing.assert_array_equal(p, q)


@pytest.mark.skipif(not isa.has_fma(), reason="NumPy converts where there are no instructions for it")
def test_kernels_answer_for_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(conversions, "_share", lambda name, *rest, **more: called.append(name))
    x = np.ones(5000, np.float32)
    for dtype in DTYPES:
        conversions.converted(x, dtype)
        conversions.converted(x.astype(dtype), np.dtype(np.float32))
        conversions.arithmetic(operator.add, x.astype(dtype), x.astype(dtype))
        conversions.converted(x.astype(np.float64), dtype)
    forms = ("float_to_{}", "{}_to_float", "{}_arithmetic", "double_to_{}")
    wanted = [form.format(k) for k in ("half", "bfloat") for form in forms]
    assert called == (wanted if conversions.readiness.MODE != "off" else [])
