"""Pooling by kernels, run thread by thread beside loops in NumPy in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import pooling
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from ferro.nn import functional
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Images, windows, how far these are apart, padding, dilation.
CASES: list[tuple] = [
    ((1, 1), (1,), (1,), (0,), (1,)), ((2, 7), (2,), (2,), (0,), (1,)), ((2, 7), (3,), (1,), (1,), (1,)),
    ((3, 300), (2,), (2,), (1,), (1,)), ((2, 9), (3,), (2,), (1,), (2,)), ((1, 5), (5,), (5,), (0,), (1,)),
    ((1, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1)), ((2, 5, 6), (3, 2), (1, 2), (1, 0), (1, 1)), ((1, 2, 8, 9), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((2, 3, 7, 5), (2, 3), (3, 1), (0, 1), (2, 1)), ((33, 5, 5), (2, 2), (1, 1), (0, 0), (1, 1)), ((1, 17, 31), (4, 4), (3, 5), (2, 2), (1, 1)),
    ((1, 1, 9), (1, 3), (1, 2), (0, 1), (1, 1)), ((4, 6, 1), (2, 1), (2, 1), (0, 0), (1, 1)), ((1, 20, 20), (20, 20), (1, 1), (0, 0), (1, 1)),
    ((1, 3, 4, 5), (2, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1)), ((2, 4, 4, 4), (2, 2, 2), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((1, 5, 5, 5), (3, 2, 1), (2, 1, 1), (1, 0, 0), (1, 2, 1)),
    ((2, 2, 6, 6), (3, 3), (3, 3), (0, 0), (1, 1)), ((1, 40, 3), (2, 2), (2, 1), (0, 0), (1, 1)),
]  # fmt: skip


def sizes(shape: tuple, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple:
    """How many windows there are."""
    image = shape[len(shape) - len(kernel) :]
    return tuple(
        (s + 2 * p - (k - 1) * d - 1) // t + 1
        for s, k, t, p, d in zip(image, kernel, stride, pad, dilation, strict=True)
    )


def windows(case: tuple) -> list[tuple]:
    """Of each window its place, and the places of its elements in the image."""
    shape, kernel, stride, pad, dilation = case
    image = shape[len(shape) - len(kernel) :]
    found = []
    for o in product(*map(range, sizes(*case))):
        along = [
            [i for i in (a * t - p + j * d for j in range(k)) if 0 <= i < s]
            for a, k, t, p, d, s in zip(o, kernel, stride, pad, dilation, image, strict=True)
        ]
        found.append((o, list(product(*along))))
    return found


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_maxima_and_where_they_are(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for case in CASES:
        shape, kernel, *rest = case
        n = len(kernel)
        image = shape[len(shape) - n :]
        a = np.round(hand.wide(hand.floats(rng, shape, dtype)) * 2).astype(hand.DTYPES[dtype])  # (with ties)
        size, x = sizes(*case), hand.there(a)
        best, index = hand.in_all_orders(lambda given=(x, kernel, size, *rest): functions.max_pool(*given), "pool_max")
        flat = hand.wide(a).reshape(-1, *image)
        for o, elements in windows(case):
            values = np.array([flat[(slice(None), *e)] for e in elements])
            at = values.argmax(0)
            places = np.array([np.ravel_multi_index(e, image) for e in elements])[at]
            assert np.array_equal(hand.wide(best).reshape(-1, *size)[(slice(None), *o)], values.max(0)), case
            assert np.array_equal(index.get().reshape(-1, *size)[(slice(None), *o)], places), case
        g = hand.floats(rng, best.shape, dtype)
        got = functions.pool_scatter(hand.there(g), index, image)
        want = np.zeros((flat.shape[0], int(np.prod(image))))
        for row, places, slopes in zip(
            want, index.get().reshape(len(want), -1), hand.wide(g).reshape(len(want), -1), strict=True
        ):
            np.add.at(row, places, slopes)
        hand.close(got, want.reshape(shape), dtype, str(case), max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("inside", [False, True])
def test_means_and_their_backward(inside: bool, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for case in CASES:
        shape, kernel, stride, pad, _ = case
        plain = (shape, kernel, stride, pad, (1,) * len(kernel))
        size, n = sizes(*plain), len(kernel)
        image = shape[len(shape) - n :]
        a, g = hand.floats(rng, shape, dtype), hand.floats(rng, (*shape[: len(shape) - n], *size), dtype)
        counts = tuple(
            np.array([len([i for i in range(o * t - p, o * t - p + k) if 0 <= i < s]) for o in range(count)])
            for count, k, t, p, s in zip(size, kernel, stride, pad, image, strict=True)
        )
        divisors: Any = tuple(hand.there(c) for c in counts) if inside else 3
        x, slopes = hand.there(a), hand.there(g)
        got = hand.in_all_orders(
            lambda given=(x, kernel, size, stride, pad, divisors): functions.avg_pool(*given), "pool_mean"
        )
        back = hand.in_all_orders(
            lambda given=(slopes, image, kernel, stride, pad, divisors): functions.avg_spread(*given), "pool_mean_vjp"
        )
        flat, want = hand.wide(a).reshape(-1, *image), np.zeros((int(np.prod(shape[: len(shape) - n])), *size))
        spread, each = np.zeros(flat.shape), hand.wide(g).reshape(want.shape)
        for o, elements in windows(plain):
            divisor = float(np.prod([c[i] for c, i in zip(counts, o, strict=True)])) if inside else 3.0
            for e in elements:
                want[(slice(None), *o)] += flat[(slice(None), *e)] / divisor
                spread[(slice(None), *e)] += each[(slice(None), *o)] / divisor
        hand.close(got, want.reshape(g.shape), dtype, str(case), 2.0)
        hand.close(back, spread.reshape(shape), dtype, str(case), max(1.0, float(np.abs(spread).max())))


def test_nan_is_the_last_of_a_window_and_a_window_of_infinities_the_first() -> None:
    nan, inf = np.nan, np.inf
    a = np.array([[1, nan, 5, nan, 2, 9], [-inf, -inf, -inf, -inf, inf, inf]], np.float32)
    best, index = functions.max_pool(hand.there(a), (3,), (2,), (3,), (0,), (1,))
    np.testing.assert_array_equal(best.get(), [[nan, nan], [-inf, inf]])
    assert index.get().tolist() == [[1, 3], [0, 4]]


def test_launches_on_tensors() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 3, 8, 8))
    found = []
    for device in ("cpu", "cuda"):
        x = ferro.tensor(a, device=device, requires_grad=True)
        LAUNCHES.clear()
        y = functional.max_pool2d(x, 3, 2, 1)
        z = functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        (y * z).sum().backward()
        found.append([t.detach().cpu().numpy() for t in (y, z, x.grad)])
    assert {name: n for name, n in LAUNCHES.items() if name.startswith(("pool", "add"))} == {
        "pool_max": 1, "pool_mean": 1, "pool_mean_vjp": 1, "add_chunks": 1, "add_carried": 1,
    }  # fmt: skip
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


FAULTS = [
    ("w >= width) continue;", "w > width) continue;"),
    ("v > best ||", "v >= best ||"),
    ("w = c * sw - pw;", "w = c * sw;"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = pooling.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    a = np.array([[3, 3, 1], [2, 2, 5], [9, 9, 9]], np.float32)
    agrees = []
    for each in (text, wrong):
        out, index = stand_in.there(np.zeros(9, np.float32)), stand_in.there(np.zeros(9, np.int64))
        given = [np.int64(9), *[np.int32(n) for n in (1, 1, 3, 1, 1, 3, 1, 1, 3, 1, 1, 1, 0, 0, 1, 1, 1, 1)]]
        emulated.Kernel(each, "pool_max")(
            (1,), (32,), (*given, stand_in.there(np.append(a, 0).astype(np.float32)), out, index)
        )
        agrees.append(
            out.near.tolist() == [3, 3, 3, 2, 5, 5, 9, 9, 9] and index.near.tolist() == [0, 0, 1, 0, 2, 2, 0, 0, 1]
        )
    assert agrees == [True, False]
