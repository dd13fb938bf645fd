"""Elements chosen by a mask: the same bits as NumPy's, by kernels where arrays are large."""

from __future__ import annotations

import numpy as np
import pytest

from ferro import cpu
from ferro.cpu import masks

CODES = ("f4", "f8", "i8", "i4", "i2", "?", "c8", "f2")


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_large_arrays_and_masks(code: str, share: float, rng: np.random.Generator) -> None:
    x, y = (rng.integers(0, 100, (230, 300)).astype(code) for _ in range(2))
    mask = rng.uniform(size=x.shape) < share
    for m, a, b in ((mask, x, y), (mask.T, x.T, y.T), (mask[:, ::2], x[:, ::2], y[:, ::2])):
        kept = a[m]
        np.testing.assert_array_equal(cpu.masked_select(a, m), kept)
        spread, put = np.zeros(a.shape, code), b.copy()
        spread[m] = put[m] = kept
        np.testing.assert_array_equal(cpu.masked_spread(kept, a.shape, m), spread)
        more = np.concatenate((kept, kept[:3]))
        np.testing.assert_array_equal(cpu.masked_scatter(b, m, more), put)
        np.testing.assert_array_equal(cpu.where(m, a, b), np.where(m, a, b))
        np.testing.assert_array_equal(cpu.masked_fill(a, m, 1), np.where(m, np.ones((), code), a))
        filled = b.copy()
        assert cpu.masked_fill_(filled, m, 1) is filled
        np.testing.assert_array_equal(filled, np.where(m, np.ones((), code), b))


def test_masks_are_broadcast(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (8, 90, 90)).astype(np.float32)
    for mask in (x[0] > 0, x[:, :1] > 0, np.array(True)):
        np.testing.assert_array_equal(cpu.masked_fill(x, mask, -np.inf), np.where(mask, np.float32(-np.inf), x))
    wide = x[:1] > 0
    assert cpu.masked_fill(x[:, :1], wide, 0.0).shape == (8, 90, 90)


def test_bits_of_nan_and_signs_of_zero_stay() -> None:
    bits = np.arange(0x7F800000, 0x7F800000 + 40_000, dtype=np.uint32)
    x = bits.view(np.float32)
    mask = bits % 3 == 0
    np.testing.assert_array_equal(cpu.masked_select(x, mask).view(np.uint32), bits[mask])
    np.testing.assert_array_equal(cpu.where(mask, x, np.float32(-0.0)).view(np.uint32), np.where(mask, bits, 1 << 31))
    np.testing.assert_array_equal(cpu.masked_fill(x, mask, -0.0).view(np.uint32), np.where(mask, 1 << 31, bits))


def test_what_is_scattered_may_lie_in_the_target(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, 50_000).astype(np.float32)
    mask = x < 0.5
    want = x.copy()
    want[mask] = x[::-1][: mask.sum()].copy()
    np.testing.assert_array_equal(cpu.masked_scatter_(x, mask, x[::-1]), want)


def test_what_no_kernel_takes(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (100, 100)).astype(np.float32)
    for mask, a, b in ((x > 0, x, x.astype(np.float64)), (x > 0, x[:1], x), (x > 0, 1.0, 2)):
        np.testing.assert_array_equal(masks.select(mask, a, b), np.where(mask, a, b))
    signs = (x > 0).astype(np.int8)
    np.testing.assert_array_equal(masks.select(signs, x, -x), np.where(signs, x, -x))
