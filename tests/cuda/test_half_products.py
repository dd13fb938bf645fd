"""Products of 16-bit floats that are added to something and rounded once, beside NumPy in float64; numbers of complex32 on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.functions import functions
from tests.cuda import hand

pytestmark = pytest.mark.usefixtures("cuda")
HALVES = ("float16", "bfloat16")
SHAPES = [(1, 1, 1), (3, 5, 2), (5, 1, 4), (1, 7, 3), (16, 8, 24), (33, 17, 9)]


def whole(rng: Any, shape: tuple, dtype: str) -> np.ndarray:
    """Eighths, whose products and their sums float32 holds."""
    return (rng.integers(-8, 9, shape) / 8).astype(hand.DTYPES[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_a_bias_is_added_before_the_one_rounding(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for rows, inner, columns in SHAPES:
        x, w, b = (whole(rng, shape, dtype) for shape in ((2, rows, inner), (columns, inner), (columns,)))
        want = (hand.wide(x) @ hand.wide(w).T + hand.wide(b)).astype(hand.DTYPES[dtype])
        for how in (lambda a: hand.there(a), lambda a: hand.there(a.T).T):
            got = functions.linear(how(x), how(w), hand.there(b))
            np.testing.assert_array_equal(got.get(), want)


@pytest.mark.parametrize("dtype", HALVES)
def test_addmm_rounds_once(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for rows, inner, columns in SHAPES:
        x, y, c = (whole(rng, shape, dtype) for shape in ((rows, inner), (inner, columns), (columns,)))
        for beta, alpha in ((1, 1), (0.5, 2), (0, 1), (-1, 0.25)):
            want = (beta * hand.wide(c) + alpha * (hand.wide(x) @ hand.wide(y))).astype(hand.DTYPES[dtype])
            got = functions.addmm(*[hand.there(a) for a in (c, x, y)], beta, alpha)
            np.testing.assert_array_equal(got.get(), want)
    left, right = (hand.there(np.zeros(shape, hand.DTYPES[dtype])) for shape in ((2, 0), (0, 3)))
    got = functions.addmm(hand.there(np.ones(3, hand.DTYPES[dtype])), left, right, 2, 1)
    np.testing.assert_array_equal(hand.wide(got), np.full((2, 3), 2.0))


def test_a_product_is_repeated_by_a_graph() -> None:
    layer = ferro.nn.Linear(4, 3).to("cuda", ferro.float16)
    x = ferro.ones(2, 4, device="cuda", dtype=ferro.float16)
    with ferro.no_grad():
        layer(x)
        recorded = ferro.cuda.CUDAGraph()
        with ferro.cuda.graph(recorded):
            out = layer(x)
        x.mul_(2)
        recorded.replay()
        assert ferro.equal(out, layer(x))


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_numbers_of_complex32_lie_on_the_device() -> None:
    x = ferro.tensor([[1 + 2j, -0.5j], [3, 4j]], dtype=ferro.complex64, device="cuda")
    half = x.t().chalf()
    assert half.device == x.device
    assert half.tolist() == x.t().tolist()
    assert half.cpu().device.type == "cpu"
    assert half.cpu().tolist() == half.to("cpu").tolist() == x.t().tolist()
    assert half.to("cpu", ferro.complex128).dtype is ferro.complex128
    back = half.cpu().to("cuda")
    assert back.device == x.device
    assert (back + 1).cfloat().tolist() == (x.t() + 1).tolist()
    assert ferro.view_as_real(half).dtype is ferro.float16
