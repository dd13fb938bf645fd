"""Slices named by an index, and copies between views of every kind: what the kernels move, and what they leave to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu.kernels import gather_scatter, strided_copy
from ferro.cpu.thresholds import COPY_LEAST


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(300, 24), (200, 33), (100, 257), (7, 50, 31), (5, 60, 2, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slices_of_every_width(threads: int, shape: tuple, dtype: type, rng: np.random.Generator) -> None:
    before = ferro.get_num_threads()
    ferro.set_num_threads(threads)
    try:
        x = rng.uniform(-1, 1, shape).astype(dtype)
        for dim in range(len(shape)):
            for index in (rng.integers(0, shape[dim], 2000), rng.integers(0, shape[dim], 4000)[::2]):
                np.testing.assert_array_equal(cpu.index_select(x, dim, index), np.take(x, index, dim))
    finally:
        ferro.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_of_neighbours_in_an_index(threads: int, rng: np.random.Generator) -> None:
    x, n = rng.uniform(-1, 1, (4, 200, 310)).astype(np.float32), 310
    runs = (
        [1, *range(n), n - 2],
        [3, 2, 1, *range(n)],
        [*range(50, n), *range(60)],
        list(range(n)),
        [0] * 15 + [*range(n)],
    )
    before = ferro.get_num_threads()
    ferro.set_num_threads(threads)
    try:
        for index in map(np.array, runs):
            np.testing.assert_array_equal(cpu.index_select(x, 2, index), np.take(x, index, 2))
        for wrong in ([-1, *range(n)], [*range(5, n + 1)]):
            with pytest.raises(IndexError):
                cpu.index_select(x, 2, np.array(wrong))
    finally:
        ferro.set_num_threads(before)


@pytest.mark.parametrize("shape", [(200, 3, 256), (3000, 5), (40_000, 1), (70, 80)])
def test_windows_and_narrow_rows_are_copied(shape: tuple, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, shape).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 0)
    for view in (windows, windows[::2], x[::-1], np.moveaxis(x, 0, -1), x[:, :2]):
        found = strided_copy.contiguous(view)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, view)


@pytest.mark.parametrize("count", [1, 5, 40, 3000])
@pytest.mark.parametrize("wrong", [-1, 300, -(2**62)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_places_out_of_bounds_are_refused(count: int, wrong: int, dtype: type) -> None:
    x, index = np.ones((300, 48), dtype), np.zeros(count, np.int64)
    index[-1] = wrong
    for step in (1, -1):
        with pytest.raises(IndexError):
            cpu.index_select(x, 0, index[::step])
        with pytest.raises(RuntimeError, match=r"out of (bounds|range)"):  # as in PyTorch, of several dimensions
            ferro.tensor(x).index_select(0, ferro.tensor(index[::step].copy()))
        assert not gather_scatter.within(index[::step], 300)
    assert gather_scatter.within(np.zeros(0, np.int64), 0)


def test_several_copies_at_once(rng: np.random.Generator) -> None:
    out = np.zeros((4, 300, 200), np.float32)
    matrix, row = rng.uniform(-1, 1, (300, 200)).astype(np.float32), np.arange(200, dtype=np.float32)
    strided_copy.assign((out[0], matrix), (out[1], row), (out[2], 2.5), (out[3], matrix[:, :1]))
    for got, want in zip(out, (matrix, row, 2.5, matrix[:, :1]), strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(np.float32(want), got.shape))
    strided_copy.assign((out[0], matrix.astype(np.float64)), (out[1], matrix[::-1]))  # of two dtypes
    np.testing.assert_array_equal(out[0], matrix)
    np.testing.assert_array_equal(out[1], matrix[::-1])
    half = np.zeros((2, 300, 200), np.float16)
    strided_copy.assign((half[0], half[1] + np.float16(1)), (half[1], np.full((300, 200), 3, np.float16)[:, ::-1]))
    assert (half[0] == 1).all()
    assert (half[1] == 3).all()
    with pytest.raises(ValueError, match="broadcast"):
        strided_copy.assign((out[0], matrix[:, :7]))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_stacked_views(dim: int, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (200, 150, 3)).astype(np.float32)
    parts = [x[..., 0], x[::-1, :, 1], x[:, ::-1, 2]]
    np.testing.assert_array_equal(cpu.stack(parts, dim), np.stack(parts, dim))


def test_many_numbers_stacked() -> None:
    numbers = [np.asarray(k, np.float32) for k in range(COPY_LEAST)]
    np.testing.assert_array_equal(cpu.stack(numbers, 0), np.arange(COPY_LEAST))
