"""Copies in another order by kernels: every permutation of the dimensions, every size of element."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu.kernels import strided_copy
from tests.configuration import with_kernels

CODES = ("f4", "f8", "i8", "i4", "i2", "?", "c8", "c16")


@pytest.mark.parametrize("code", CODES)
def test_permuted_arrays_are_copied(code: str, rng: np.random.Generator) -> None:
    x = rng.integers(-100, 100, (5, 9, 33, 4)).astype(code)
    for order in permutations(range(4)):
        for view in (x.transpose(order), x[:, ::-1].transpose(order)):
            got = strided_copy.contiguous(view)
            assert got.flags.c_contiguous
            assert got.dtype == view.dtype
            assert not np.shares_memory(got, x)
            np.testing.assert_array_equal(got, view)


def test_bits_of_nan_are_moved_as_they_are() -> None:
    bits = np.arange(0x7F800000, 0x7F800000 + 90_000, dtype=np.uint32).reshape(300, 300)
    x = bits.view(np.float32)
    for view, want in ((x.T, bits.T), (x[:, ::-1], bits[:, ::-1]), (x[::-1, ::2], bits[::-1, ::2])):
        np.testing.assert_array_equal(strided_copy.contiguous(view).view(np.uint32), want)


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


@pytest.mark.parametrize("code", [*CODES, "f2"])
def test_views_are_copied_into_views(code: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2 if code == "?" else 100, (6, 50, 70, 4)).astype(code)
    keys = [
        np.s_[:],
        np.s_[..., ::-1],
        np.s_[:, ::2, :, 1:3],
        np.s_[::-1, :, ::-3],
        np.s_[..., ::2],
        np.s_[1:, None, 7],
    ]
    for key in keys:
        for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
            got, want = (np.zeros((6, 50, 70, 4), code).transpose(order) for _ in range(2))
            try:
                source = x.transpose(order)[key]
            except IndexError:
                continue
            strided_copy.assign((got[key], source))
            want[key] = source
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(strided_copy.contiguous(source), source)


@pytest.mark.parametrize("code", [*CODES, "f2"])
def test_several_views_and_numbers_at_once(code: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2, (200, 300)).astype(code)
    row = x[0].copy()
    got, want = np.zeros((200, 700), code), np.zeros((200, 700), code)
    pairs = [
        (np.s_[:, :300], x),
        (np.s_[:, 300:600], row),
        (np.s_[:, 600:650:2], 1),
        (np.s_[:50, 690:], 0),
        (np.s_[:, 5:5], 7),
    ]
    strided_copy.assign(*[(got[key], source) for key, source in pairs])
    for key, source in pairs:
        want[key] = source
    np.testing.assert_array_equal(got, want)


def test_copies_lie_like_what_is_copied(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (40, 50, 60))
    for view in (x, x.T, x.transpose(1, 0, 2), x[:, ::-1], x[::2].swapaxes(1, 2), np.broadcast_to(x[0], (2, 50, 60))):
        got, want = cpu.copy(view), view.copy("C" if 0 in view.strides else "K")
        np.testing.assert_array_equal(got, view)
        assert got.strides == want.strides
        assert not np.shares_memory(got, x)


def test_fills_keep_the_sign_of_zero() -> None:
    out = np.ones((300, 300), np.float32)
    strided_copy.assign((out, -0.0))
    assert np.signbit(out).all()
    assert not np.signbit(strided_copy.zeros((300, 300), np.float32)).any()


@pytest.mark.parametrize("code", ["f4", "f8", "i8", "c8", "?", "f2"])
@pytest.mark.parametrize("shape", [(200, 300), (7, 90, 80)])
def test_large_arrays_are_joined_rolled_padded_and_cut(code: str, shape: tuple, rng: np.random.Generator) -> None:
    x, y = (rng.integers(0, 2, shape).astype(code) for _ in range(2))
    for dim in range(-1, len(shape)):
        np.testing.assert_array_equal(
            cpu.cat((x, y, x[:0] if dim == 0 else y), dim), np.concatenate((x, y, x[:0] if dim == 0 else y), dim)
        )
        if dim >= 0:
            np.testing.assert_array_equal(cpu.stack((x, y, x), dim), np.stack((x, y, x), dim))
    for shifts, dims in (((3,), (1,)), ((-250, 5), (0, 1)), ((2, 3), (1, 1)), ((0,), (0,))):
        np.testing.assert_array_equal(cpu.roll(x, shifts, dims), np.roll(x, shifts, dims))
    for diagonal in (0, -3, 5, -1000, 1000):
        np.testing.assert_array_equal(cpu.tril(x, diagonal), np.tril(x, diagonal))
        np.testing.assert_array_equal(cpu.triu(x, diagonal), np.triu(x, diagonal))
    pads = [(1, 2)] * x.ndim
    np.testing.assert_array_equal(cpu.constant_pad(x, tuple(pads), 1), np.pad(x, pads, constant_values=1))
    np.testing.assert_array_equal(cpu.rot90(x, 1, (0, 1)), np.rot90(x))
    np.testing.assert_array_equal(cpu.repeat(x, (2,) * x.ndim), np.tile(x, (2,) * x.ndim))
    key = np.s_[1:-1, ::2]
    want = np.zeros((shape[0], shape[1], *shape[2:]), code)
    want[key] = x[key]
    np.testing.assert_array_equal(cpu.slice_place(x[key], shape, key), want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("code", ["?", "f4", "c16"])
def test_rows_of_all_lengths_are_written_between_others(code: str, threads: int, rng: np.random.Generator) -> None:
    """Rows end with parts of registers; what lies between two of them is left as it is."""
    before = ferro.get_num_threads()
    ferro.set_num_threads(threads)
    try:
        for width in (*range(1, 40), 63, 64, 65, 127, 255, 257, 300, 9000):
            x, y = [rng.integers(0, 2, (40_000 // width + 1, n)).astype(code) for n in (width, 2 * width)]
            got, want = (np.ones((len(x), 3 * width + 2), code) for _ in range(2))
            pairs = [(np.s_[:, :width], x), (np.s_[:, width + 1 : -1], y)]
            strided_copy.assign(*[(got[key], source) for key, source in pairs])
            for key, source in pairs:
                want[key] = source
            np.testing.assert_array_equal(got, want)
    finally:
        ferro.set_num_threads(before)


def test_joining_refuses_sizes_that_differ() -> None:
    x = np.zeros((200, 300), np.float32)
    with pytest.raises(ValueError, match="dimension"):
        cpu.cat((x, x[:, :-1]), 0)
    assert cpu.cat((x, x.astype(np.float64)), 0).dtype == np.float64


def test_views_in_another_shape_are_copied_only_where_they_must(rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, (60, 4, 300))
    views = [
        x[:, :, ::2],
        x[:, 1:3],
        x[:, 1],
        x.transpose(1, 0, 2),
        x[::-1],
        np.broadcast_to(x[:1], x.shape),
        x[..., :1],
    ]
    for view in views + [np.broadcast_to(view[..., None], (*view.shape, 3)) for view in views]:
        rows = view.shape[0]
        for shape in ((-1,), (rows, -1), (2, rows // 2, -1), (rows, 1, view.size // rows), (view.size // 2, 2)):
            got, want = cpu.reshape(view, shape), view.reshape(shape)
            np.testing.assert_array_equal(got, want)
            assert np.shares_memory(got, view) == np.shares_memory(want, view)
        with pytest.raises(ValueError, match="reshape"):
            cpu.reshape(view, (7, -1, 11, 13))
        with pytest.raises(ValueError, match="reshape"):
            cpu.reshape(view, (view.size + 1,))


@with_kernels
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", [(300, 400), (40, 50, 60), (130_000,), (1, 1, 120_000)])
def test_arrays_side_by_side(code: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Along each dimension that is there, and each that may be new."""
    xs = [rng.integers(0, 2, shape).astype(code) for _ in range(3)]
    for dim in range(len(shape) + 1):
        out = np.empty((*shape[:dim], 3, *shape[dim:]), code)
        if strided_copy.join(out, xs, dim):
            np.testing.assert_array_equal(out, np.stack(xs, dim))
        else:
            assert xs[0].itemsize < 4  # (numbers of one or two bytes, by turns)
            assert dim == len(shape)
        np.testing.assert_array_equal(cpu.stack(xs, dim), np.stack(xs, dim))
        if dim < len(shape):
            np.testing.assert_array_equal(cpu.cat(xs, dim), np.concatenate(xs, dim))


def test_what_is_not_joined_is_left_alone(rng: np.random.Generator) -> None:
    x = rng.standard_normal((300, 400))
    for other in (x[:, ::-1], x.astype(np.float32), x[:299], np.asfortranarray(x), x.astype(">f8")):
        out = np.zeros((2, 300, 400))
        assert not strided_copy.join(out, [x, other], 0)
        assert not out.any()
    assert not strided_copy.join(np.zeros((2, 3, 4)), [x[:3, :4].copy()] * 2, 0)
