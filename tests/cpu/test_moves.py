"""Copies in another order by kernels: every permutation of the dimensions, every size of element."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ferro import cpu
from ferro.cpu.kernels import moves

CODES = ("f4", "f8", "i8", "i4", "i2", "?", "c8", "c16")


@pytest.mark.parametrize("code", CODES)
def test_permuted_arrays_are_copied(code: str, rng: np.random.Generator) -> None:
    x = rng.integers(-100, 100, (5, 9, 33, 4)).astype(code)
    for order in permutations(range(4)):
        for view in (x.transpose(order), x[:, ::-1].transpose(order)):
            got = moves.contiguous(view)
            assert got.flags.c_contiguous
            assert got.dtype == view.dtype
            assert not np.shares_memory(got, x)
            np.testing.assert_array_equal(got, view)


def test_bits_of_nan_are_moved_as_they_are() -> None:
    bits = np.arange(0x7F800000, 0x7F800000 + 90_000, dtype=np.uint32).reshape(300, 300)
    x = bits.view(np.float32)
    for view, want in ((x.T, bits.T), (x[:, ::-1], bits[:, ::-1]), (x[::-1, ::2], bits[::-1, ::2])):
        np.testing.assert_array_equal(moves.contiguous(view).view(np.uint32), want)


@pytest.mark.parametrize("code", CODES)
def test_rows_are_reversed(code: str, rng: np.random.Generator) -> None:
    x = rng.integers(-100, 100, (70, 99)).astype(code)
    for given in (x, x.T, x[:, ::2], x[:0], x[:, :1], x.reshape(-1), x.reshape(7, 10, 99)):
        got = cpu.flip(given, (given.ndim - 1,))
        np.testing.assert_array_equal(got, given[..., ::-1])
        assert not np.shares_memory(got, x)


@pytest.mark.parametrize(
    "pads", [((1, 2), (3, 0)), ((0, 0), (-1, 2)), ((-2, -1), (0, 5)), ((4, -3), (1, 1)), ((-5, 7), (-7, 9))]
)
def test_only_the_edges_are_filled(pads: tuple, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (5, 7))
    want = np.full((5 + sum(pads[0]), 7 + sum(pads[1])), 2.5)
    rows, columns = [np.arange(s) for s in x.shape]
    for i in rows:
        for j in columns:
            if 0 <= i + pads[0][0] < want.shape[0] and 0 <= j + pads[1][0] < want.shape[1]:
                want[i + pads[0][0], j + pads[1][0]] = x[i, j]
    np.testing.assert_array_equal(cpu.constant_pad(x, pads, 2.5), want)
