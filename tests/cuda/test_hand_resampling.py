"""Images resampled by a kernel, run thread by thread beside a product with the whole matrix in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cpu.interpolation import Map
from ferro.cuda.by_hand import resampling
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Shape, the dimension, the new size.
CASES: list[tuple[tuple, int, int]] = [
    ((1,), 0, 1),
    ((5,), 0, 9),
    ((9,), 0, 3),
    ((3, 5), 1, 7),
    ((3, 5), 0, 7),
    ((3, 5), 1, 2),
]
CASES += [((2, 3, 4), 1, 6), ((2, 3, 4), 2, 300), ((2, 3, 4), 0, 1), ((1, 1, 40, 40), 3, 80), ((1, 2, 17, 9), 2, 33)]
CASES += [((2, 1, 4, 3, 5), 2, 6), ((2, 1, 4, 3, 5), 4, 3), ((2, 1, 4, 3, 5), 3, 3), ((0, 4), 1, 6), ((257,), 0, 256)]
CASES += [
    ((4, 64), 1, 255),
    ((300, 2), 0, 150),
    ((300, 2), 1, 1),
    ((7, 33, 3), 1, 31),
    ((1, 1000), 1, 10),
    ((3, 8, 8), 1, 0),
]


def some_map(rng: Any, old: int, new: int) -> tuple[Map, np.ndarray]:
    """A map with rows of none to four entries, and the matrix that it is."""
    lengths = rng.integers(0, min(old, 4) + 1, new)
    chosen = [rng.permutation(old)[:n] for n in lengths]
    columns = np.concatenate([*chosen, np.zeros(0, np.int64)]).astype(np.int64)
    weights = rng.uniform(-1, 1, len(columns))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    dense = np.zeros((new, old))
    dense[np.repeat(np.arange(new), lengths), columns] = weights
    return Map(starts, columns, weights, old), dense


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_a_map_is_the_product_with_its_matrix(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for shape, dim, new in CASES:
        found, dense = some_map(rng, shape[dim], new)
        a = hand.floats(rng, shape, dtype)
        want = np.moveaxis(np.tensordot(dense, hand.wide(a), (1, dim)), 0, dim)

        def run(a: Any = a, dim: int = dim, found: Any = found) -> Any:
            return resampling.resampled(hand.there(a), dim, found)

        got = hand.in_all_orders(run, *["resample"] if want.size else [])
        hand.close(got, want, dtype, f"{shape} {dim} {new}", 4.0)


def test_views_and_maps_without_weights() -> None:
    a = np.random.default_rng(2).standard_normal((4, 6, 5))
    found = Map(np.array([0, 2, 2, 3]), np.array([0, 3, 5]), None, 6)
    dense = np.zeros((3, 6))
    dense[0, [0, 3]] = dense[2, 5] = 1
    x = hand.there(a)
    got = resampling.resampled(x[::-1, :, 1::2], 1, found)
    np.testing.assert_allclose(got.get(), np.einsum("nr,brc->bnc", dense, a[::-1, :, 1::2]), rtol=1e-14)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_infinite_pixel_spoils_what_pytorchs_does(torch: Any, mode: str) -> None:
    a = np.ones((1, 1, 12, 12), np.float32)
    a[0, 0, 6, 6] = np.inf
    for size in ((24, 24), (9, 20)):
        ours = ferro.nn.functional.interpolate(ferro.tensor(a, device="cuda"), size=size, mode=mode)
        theirs = torch.nn.functional.interpolate(torch.tensor(a), size=size, mode=mode)
        found, want = (np.isfinite(y.numpy()) for y in (ours.cpu(), theirs))
        assert (found | ~want).all(), "a pixel is spoiled that PyTorch's is not"
        assert not found.all()


def test_16_bit_images_are_added_in_float32() -> None:
    """4,096 entries of 1, where a sum in float16 stops at 2,048."""
    ones = np.ones(4096, np.float16)
    found = Map(np.array([0, 4096]), np.arange(4096), None, 4096)
    assert resampling.resampled(hand.there(ones), 0, found).item() == 4096
    right = resampling.texts("float16")[0]
    wrong = right.replace("sum += float(", "sum = load(__float2half(sum + float(").replace("inner]));", "inner]))));")
    assert wrong != right
    for text, fine in ((right, True), (wrong, False)):
        assert bool(by_text(text, ones[None], found, np.float32)[0] == 4096) == fine


FAULTS = {
    "a wrong index": ("+ i;\n", "+ i + 1;\n"),
    "an entry left out": ("k < starts[r + 1]", "k + 1 < starts[r + 1]"),
    "a row of another image": ("id / inner % rows", "id / inner"),
    "one too many threads": ("id >= total", "id > total"),
}


def by_text(text: str, a: np.ndarray, found: Map, kind: Any, inner: int = 1) -> np.ndarray:
    """What a version of the text makes of the rows of a, with memory behind them that a wrong index reads."""
    size = found.size
    outer, count = a.size // (size * inner), a.size // size * found.rows
    x = stand_in.there(np.concatenate([a.reshape(-1), np.full(64, 99, a.dtype)]))
    out = stand_in.there(np.zeros(count + 1, a.dtype))
    weights = np.ones(len(found.columns)) if found.weights is None else found.weights
    # (behind the map further rows, which are empty, and a first column)
    tables = [np.concatenate([found.starts, np.full(64, found.starts[-1])]), np.concatenate([found.columns, [0]])]
    given = [stand_in.there(t.astype(np.int64)) for t in tables] + [stand_in.there(weights.astype(kind))]
    kernel = emulated.Kernel(text, "resample")
    kernel((-(-(count + 1) // 32),), (32,), (*[np.int64(v) for v in (count, found.rows, inner, size)], *given, x, out))
    assert outer * found.rows * inner == count
    return out.near


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    text = resampling.texts("float64")[0]
    wrong = hand.planted(text, FAULTS[fault], FAULTS.values())
    rng = np.random.default_rng(3)
    found = Map(np.array([0, 2, 3, 5]), np.array([0, 3, 2, 1, 4]), rng.uniform(0.5, 1, 5), 5)
    dense = np.zeros((3, 5))
    dense[[0, 0, 1, 2, 2], found.columns] = found.weights
    a = rng.uniform(1, 2, (2, 5, 3))
    want = np.append(np.einsum("nr,brc->bnc", dense, a).reshape(-1), 0)
    agrees = [np.allclose(by_text(t, a, found, np.float64, 3), want, rtol=1e-13) for t in (text, wrong)]
    assert agrees == [True, False]
