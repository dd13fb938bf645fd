"""Rows and slices taken by index, by one launch that copies bytes, beside NumPy's take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import gathers
from ferro.cuda.functions import functions
from ferro.nn import functional as F
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Shape, dimension, shape of the index.
CASES: list[tuple[tuple, int, tuple]] = [((1, 1), 0, (1,)), ((5, 1), 0, (7,)), ((5, 3), 0, (0,)), ((5, 3), 0, (2, 4))]
CASES += [((9, 4), 0, (33,)), ((9, 8), 0, (1,)), ((9, 16), 0, (3,)), ((100, 17), 0, (65,)), ((40, 64), 0, (8, 8))]
CASES += [((3, 300), 0, (70,)), ((7,), 0, (9,)), ((7,), 0, (2, 3, 2)), ((3, 5), 1, (4,)), ((3, 5), 1, (1,))]
CASES += [((2, 3, 4), 1, (6,)), ((2, 3, 4), 2, (5,)), ((2, 3, 4, 5), 2, (3,)), ((6, 1, 2), 0, (9,))]
CASES += [((1000, 2), 0, (1000,)), ((33, 9), 0, (320,)), ((2, 257, 3), 1, (300,)), ((4, 6, 8), 1, (7,))]
DTYPES = [*hand.DTYPES, "int64", "int8", "bool", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for shape, dim, of in CASES:
        for kind in (np.int64, np.int32):
            a = rng.integers(-100, 100, shape).astype(hand.DTYPES.get(dtype, dtype))
            index = rng.integers(0, shape[dim], of).astype(kind)

            def run(a: Any = a, dim: int = dim, index: Any = index) -> Any:
                return gathers.gathered(hand.there(a), dim, hand.there(index), "take")

            got = hand.in_all_orders(run, *["gather_slices"] if index.size else [])
            np.testing.assert_array_equal(got.get(), a.take(index, dim), err_msg=f"{shape} {dim} {of}")


def test_slices_of_views_that_begin_anywhere() -> None:
    a = np.arange(41, dtype=np.float32)
    for start in (0, 1, 2, 3):
        x = hand.there(a)[start : start + 32].reshape(4, 8)
        got = functions.take_rows(x, hand.there(np.array([3, 0])))
        np.testing.assert_array_equal(got.get(), a[start : start + 32].reshape(4, 8)[[3, 0]])


def test_an_index_beyond_the_end_is_an_error_and_in_a_recording_row_0() -> None:
    table = ferro.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    for index in ([0, 2], [-1, 0]):
        with pytest.raises(IndexError, match="out of range"):
            F.embedding(ferro.tensor(index, device="cuda"), table)
    with pytest.raises(RuntimeError, match="out of bounds"):
        table.index_select(1, ferro.tensor([5], device="cuda"))
    recorded, index = ferro.cuda.CUDAGraph(), ferro.tensor([1, 0], device="cuda")
    with ferro.cuda.graph(recorded):
        rows = F.embedding(index, table)
    recorded.replay()
    assert rows.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    index.copy_(ferro.tensor([0, 7], device="cuda"))
    recorded.replay()
    assert rows.tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_embedding_is_one_launch_and_its_gradient_right() -> None:
    rng = np.random.default_rng(2)
    index, table = rng.integers(0, 9, (4, 6)), rng.standard_normal((9, 5))
    weight = ferro.tensor(table, device="cuda", requires_grad=True)
    out = F.embedding(ferro.tensor(index, device="cuda"), weight)
    g = rng.standard_normal((4, 6, 5))
    out.backward(ferro.tensor(g, device="cuda"))
    np.testing.assert_array_equal(out.detach().cpu().numpy(), table[index])
    want = np.zeros_like(table)
    np.add.at(want, index, g)
    np.testing.assert_allclose(weight.grad.cpu().numpy(), want, rtol=1e-12)


FAULTS = [
    ("(o * n + i)", "(o + i)"),
    ("slice % count", "slice"),
    ("i < 0 || i >= n", "i > n"),
    ("* units + u]", "* units]"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    text = gathers._text(4)
    wrong = hand.planted(text, (before, after), FAULTS)
    a = np.arange(3 * 5 * 2, dtype=np.float32).reshape(3, 5, 2)
    index = np.array([4, 0, 5, 2])  # (5 is beyond the end)
    agrees = []
    for each in (text, wrong):
        out, note = stand_in.there(np.zeros(24 * 4, np.int8)), stand_in.there(np.zeros(1, np.int32))
        # (memory behind the slices and the index, which a wrong place reads)
        near = stand_in.there(np.concatenate([a.reshape(-1), np.full(100, 99, np.float32)]).view(np.int8))
        places = stand_in.there(np.concatenate([index, np.zeros(30, np.int64)]))
        kernel = emulated.Kernel(each, "gather_slices")
        kernel((1,), (32,), (*[np.int64(v) for v in (24, 5, 4, 2)], places, near, out, note))
        want = a.take(np.where(index < 5, index, 0), 1)
        agrees.append(bool(np.array_equal(out.near.view(np.float32).reshape(3, 4, 2), want) and note.near[0]))
    assert agrees == [True, False]
