"""Sums, products and extrema by kernels, run thread by thread beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import launching, reductions
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Shapes and the dimensions that are reduced: rows and columns of every kind, one block and many, one element, none.
CASES: list[tuple[tuple, tuple]] = [
    ((1,), (0,)),
    ((7,), (0,)),
    ((255,), (0,)),
    ((257,), (0,)),
    ((1025,), (0,)),
    ((9001,), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0,)),
    ((3, 5), (0, 1)),
    ((70, 33), (1,)),
    ((70, 33), (0,)),
    ((2, 1500), (1,)),
    ((1500, 2), (0,)),
    ((9000, 3), (0,)),
    ((4, 3, 5), (1,)),
    ((4, 3, 5), (0, 2)),
    ((4, 3, 5), (1, 2)),
    ((5, 1, 6), (1,)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 3, 2, 3, 2), (0, 2, 4)),
    ((1, 64, 33), (0, 2)),
    ((0, 4), (1,)),
    ((600, 9), (0, 1)),
]
CASES += [((n, 2), (0,)) for n in (1, 2, 4, 33, 64, 257)] + [((2, n, 5), (1,)) for n in (1, 8, 31, 65)]
CASES += [((3, n), (1,)) for n in (2, 31, 33, 64)]
REFERENCE: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}


def launches(shape: tuple, dim: tuple) -> int:
    """How many launches a sum takes: two if it is cut into parts."""
    n = int(np.prod([shape[d] for d in dim]))
    return 0 if 0 in shape else 2 if n >= 2 * launching.PARTS_FROM else 1


def run(name: str, x: Any, dim: tuple, keepdim: bool) -> Any:
    """The array function of the device."""
    return getattr(functions, name)(x, dim, keepdim)


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_reductions_are_those_of_float64(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for k, (shape, dim) in enumerate(CASES):
        a = hand.floats(rng, shape, dtype)
        x, keepdim, what = hand.there(a), bool(k % 2), f"{shape} over {dim}"
        found = []
        for seed in hand.SEEDS:
            LAUNCHES.clear()
            with emulated.in_order(seed):
                found.append(run(name, x, dim, keepdim))
            assert LAUNCHES.total() == launches(shape, dim), what
        want = REFERENCE[name](hand.wide(a), dim, keepdims=keepdim)
        scale = 2.0 if name in ("amax", "amin", "mean") else 2.0 * np.sqrt(max(a.size // max(want.size, 1), 1))
        hand.close(found[0], want, dtype, what, scale)
        assert len({f.get().tobytes() for f in found}) == 1, what


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_products(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for shape, dim in [((7,), 0), ((3, 300), 1), ((300, 3), 0), ((5, 4, 3), 1), ((33, 9), None), ((9000,), 0)]:
        a = np.exp(hand.wide(hand.floats(rng, shape, dtype, -1, 1)) / 16).astype(hand.DTYPES[dtype])
        n = a.size if dim is None else shape[dim]
        got = hand.in_all_orders(
            lambda a=a, dim=dim: functions.prod(hand.there(a), dim, False),
            *["reduce_columns" if shape in ((300, 3), (5, 4, 3)) else "reduce_rows"] * (2 if n > 8192 else 1),
        )
        np.testing.assert_allclose(hand.wide(got), np.prod(hand.wide(a), dim), rtol=hand.TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_views_of_any_strides_are_read_where_they_lie(dtype: str) -> None:
    rng = np.random.default_rng(7)
    a = hand.floats(rng, (6, 8, 10), dtype)
    x = hand.there(a)
    views = [lambda y: y.transpose((2, 0, 1)), lambda y: y[::-1, 1::2], lambda y: y[:, :, 3], lambda y: y[2, ::-2]]
    for view in views:
        for dim in [(0,), (1,), (0, 1)]:
            got = run("sum", view(x), dim, False)
            hand.close(got, hand.wide(view(a)).sum(dim), dtype, str(dim), 8.0)
    spread = functions.expand(x[:, :1], (6, 8, 10))
    hand.close(run("mean", spread, (1,), False), hand.wide(a[:, 0]), dtype, "expanded", 2.0)


def test_nan_and_infinity_come_through() -> None:
    a = np.array(
        [[1, np.nan, 2], [np.inf, 1, 2], [-np.inf, np.inf, 0], [np.nan, np.inf, -np.inf], [3, 2, 1]], np.float32
    )
    for name in ("sum", "mean", "amax", "amin"):
        for dim in ((0,), (1,), (0, 1)):
            with np.errstate(invalid="ignore"):
                want = REFERENCE[name](a, dim)
            np.testing.assert_array_equal(run(name, hand.there(a), dim, False).get(), want)


def test_float32_is_added_in_double_and_16_bits_in_float() -> None:
    """Ones beside 2^24, where float32 has no odd numbers; and 4,096 ones, where a sum in float16 stops at 2,048."""
    x = np.ones(2000, np.float32)
    x[0] = 2**24
    assert run("sum", hand.there(x), (0,), False).item() == 2**24 + 2000  # (the nearest float32)
    ones = np.ones(4096, np.float16)
    assert run("sum", hand.there(ones), (0,), False).item() == 4096
    assert run("mean", hand.there(np.full(3000, 3e38, np.float32)), (0,), False).item() == np.float32(3e38)


def test_a_sum_and_its_gradient_on_tensors() -> None:
    LAUNCHES.clear()
    x = ferro.ones(40, 50, dtype=ferro.float32).to("cuda").requires_grad_()
    (x * x).mean(0).sum().backward()
    assert LAUNCHES == {"reduce_columns": 1, "reduce_rows": 1}
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.full((40, 50), 2 / 40), rtol=1e-6)


FAULTS = {
    "a missing barrier": ("if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;\n  __syncthreads();",
                          "if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;"),
    "a warp left out": ("for (int warp = 1; warp <", "for (int warp = 2; warp <"),
    "a wrong index": ("% near * near_step;", "% near * near_step + 1;"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    text = reductions._text("sum", "float32", "float32", "double")
    wrong = hand.planted(text, FAULTS[fault], FAULTS.values())
    rng = np.random.default_rng(8)
    a = hand.floats(rng, (3, 2000), "float32", 0.5, 2)
    want = hand.wide(a).sum(1)
    found = [by_text(t, a, seed) for t in (text, wrong) for seed in hand.SEEDS]
    np.testing.assert_allclose(found[0], want, rtol=1e-6)
    assert len({f.tobytes() for f in found[:3]}) == 1
    assert any(not np.allclose(f, want, rtol=1e-6) for f in found[3:])


def by_text(text: str, a: np.ndarray, seed: int) -> np.ndarray:
    """The sums of rows by a version of the text."""
    rows, n = a.shape
    out = stand_in.there(np.zeros(rows, np.float32))
    # (memory behind the rows, which a wrong index reads)
    x = stand_in.there(np.concatenate([a.reshape(-1), np.full(600, 99, np.float32)]))
    sizes = [np.int64(v) for v in (rows, rows, 0, n, n, 0, 1, n, n)]
    with emulated.in_order(seed):
        emulated.Kernel(text, "reduce_rows")((rows,), (256, 1), (*sizes, np.float64(1), x, out))
    return out.near


def test_additions_in_the_dtype_itself_are_found() -> None:
    right = reductions._text("sum", "float16", "float16", "float")
    wrong = right.replace("total = Sum()(total, float(v));", "total = load(__float2half(Sum()(total, float(v))));")
    assert wrong != right
    a = np.ones((1, 4096 * 8), np.float16)
    a[0, ::2] = 0.5
    for text, fine in ((right, True), (wrong, False)):
        out = stand_in.there(np.zeros(1, np.float16))
        n = a.size
        sizes = [np.int64(v) for v in (1, 1, 0, n, n, 0, 1, n, n)]
        emulated.Kernel(text, "reduce_rows")((1,), (1, 256), (*sizes, np.float64(1), stand_in.there(a), out))
        assert (abs(float(out.near[0]) - a.astype(np.float64).sum()) < 20) == fine
