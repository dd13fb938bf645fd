"""Entries that move arrays of any size: joined, rolled, reversed, repeated, taken by an index; the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ferro import cpu
from ferro.cpu.thresholds import COPY_PLANS, TAKE_NARROW
from ferro.native import threads
from ferro.native.entries import fallback
from tests.configuration import with_machine_code
from tests.cpu.test_large_entries import Behind, ask, ask_all

pytestmark = with_machine_code

SHAPES = [(3, 4, 5), (300, 401), (7, 100, 3, 50), (60_000, 2), (100_000,), (1, 5000, 9)]
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=SHAPES)
def x(request: pytest.FixtureRequest, dtype: Any, rng: np.random.Generator) -> Array:
    return rng.standard_normal(request.param).astype(dtype)


def same(found: Any, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, wanted)


def test_joined(x: Array, rng: np.random.Generator) -> None:
    for dim in range(x.ndim):
        longer = rng.standard_normal((*x.shape[:dim], x.shape[dim] + 3, *x.shape[dim + 1 :])).astype(x.dtype)
        for xs in ((x, longer, x), (x,), (longer,) * 5):
            same(ask_all("cat", xs, dim), np.concatenate(xs, dim))
        same(ask_all("stack", (x, x + 1), dim), np.stack((x, x + 1), dim))
    same(ask_all("stack", (x, x + 1), x.ndim), np.stack((x, x + 1), x.ndim))


def test_large_arrays_that_others_join(dtype: Any) -> None:
    x = np.ones((300, 401), dtype)
    for xs in ((x, x[:, ::2]), (x, x[:0]), (x, x.astype(np.float16)), (x[:9, :401],) * (COPY_PLANS + 1), (x, x[0])):
        for name in ("cat", "stack"):
            with pytest.raises(Behind):
                ask(name, xs if name == "cat" else (*xs, x[:, 1:]), 0)


def test_rolled(x: Array) -> None:
    for dim in range(x.ndim):
        for by in (0, 1, -1, 3, 1000):
            same(ask_all("roll", x, (by,), (dim,)), np.roll(x, by, dim))
            same(fallback(cpu.roll)(x, (by,), (dim,)), np.roll(x, by, dim))


def test_reversed(x: Array) -> None:
    for first in range(x.ndim):
        for stop in range(first + 1, x.ndim + 1):
            dims = tuple(range(first, stop))
            same(ask_all("flip", x, dims), np.flip(x, dims))
            same(fallback(cpu.flip)(x, dims), np.flip(x, dims))
    if x.ndim > 2:
        same(cpu.flip(x, (0, 2)), np.flip(x, (0, 2)))


def test_repeated_in_place(x: Array) -> None:
    for dim in range(x.ndim):
        for times in (1, 2, 7):
            wanted = np.repeat(x, times, dim)
            same(ask_all("repeat_interleave", x, times, dim), wanted)
            same(fallback(cpu.repeat_interleave)(x, times, dim), wanted)


@pytest.mark.parametrize("many", [6, 5000])
def test_slices(x: Array, many: int, rng: np.random.Generator) -> None:
    for dim in range(x.ndim):
        if x.size // x.shape[dim] * many > 1 << 23:
            continue
        index = rng.integers(0, x.shape[dim], many)
        same(cpu.index_select(x, dim, index), x.take(index, dim))
        width = x[(0,) * (dim + 1)].size
        if width >= TAKE_NARROW or x.size // x.shape[dim] * many < 1 << 15:
            same(ask_all("index_select", x, dim, index), x.take(index, dim))
    if x.ndim == 2:
        for index in (rng.integers(0, len(x), many), rng.integers(0, len(x), (2, many, 1)), np.array(0)):
            same(cpu.take_rows(x, index), x[index])


@pytest.mark.parametrize("wrong", [-1, 300])
@pytest.mark.parametrize("many", [4, 1000])
def test_places_out_of_bounds_are_for_others(wrong: int, many: int, dtype: Any) -> None:
    x, index = np.zeros((300, 401), dtype), np.zeros(many, np.int64)
    index[-1] = wrong
    for name, given in (("index_select", (x, 0, index)), ("take_rows", (x, index))):
        with pytest.raises(Behind):
            ask(name, *given)
        with pytest.raises(IndexError, match=r"out of (bounds|range)"):
            getattr(cpu, name)(*given)


def test_what_entries_do_not_take_is_for_others(dtype: Any) -> None:
    x, index = np.zeros((300, 401), dtype), np.arange(300)
    for other in (x[:, ::2], x.astype(np.int64), x.astype(x.dtype.newbyteorder()), x[:0]):
        for name, rest in (("roll", ((1,), (0,))), ("flip", ((0,),)), ("repeat_interleave", (2, 0))):
            with pytest.raises(Behind):
                ask(name, other, *rest)
        for name, given in (("index_select", (other, 0, index)), ("take_rows", (other, index))):
            with pytest.raises(Behind):
                ask(name, *given)
    for name, given in (
        ("roll", (x, (1, 2), (0, 1))),
        ("roll", (x, (1,), (2,))),
        ("flip", (x, (2,))),
        ("flip", (x, (1, 0))),
        ("repeat_interleave", (x, 0, 0)),
        ("repeat_interleave", (x, 2, 2)),
        ("index_select", (x, 2, index)),
        ("index_select", (x, 0, index.astype(np.int32))),
        ("index_select", (x, 0, index[::2])),
        ("take_rows", (x[0], index)),
    ):
        with pytest.raises(Behind):
            ask(name, *given)
