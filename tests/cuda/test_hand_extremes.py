"""Places of largest and smallest elements, and norms, by kernels, run thread by thread beside NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda import kernels
from ferro.cuda.by_hand import extremes, launching
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from tests.cuda import emulated, hand, stand_in
from tests.cuda.test_hand_reductions import CASES

pytestmark = pytest.mark.usefixtures("cuda")
# Shapes and a dimension, None for all elements.
LINES: list[tuple[tuple, int | None]] = [((1,), 0), ((2,), 0), ((33,), 0), ((257,), 0), ((1025,), 0), ((9001,), 0)]
LINES += [((20000,), None), ((3, 5), 0), ((3, 5), 1), ((3, 5), None), ((70, 33), 0), ((70, 33), 1), ((70, 33), None)]
LINES += [((2, 1500), 1), ((1500, 2), 0), ((9000, 3), 0), ((9000, 3), None), ((4, 3, 5), 1), ((4, 3, 5), 2)]
LINES += [((33, 4), 0), ((5, 1, 6), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), None), ((600, 9), 0), ((64, 1), 1)]


def in_orders(run: Any) -> Any:
    """What `run` gives, with the same bits in every order of threads."""
    found = []
    for seed in hand.SEEDS:
        with emulated.in_order(seed):
            found.append(run())
    assert len({b"".join([a.get().tobytes() for a in each]) for each in found}) == 1
    return found[0]


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_places_are_the_first_ones_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for k, (shape, dim) in enumerate(LINES):
        for a in (
            hand.floats(rng, shape, dtype),
            rng.integers(0, 3, shape).astype(hand.DTYPES[dtype]),
        ):  # (many are equal)
            x, keep, wide = hand.there(a), bool(k % 2), hand.wide(a)
            for name, of in (("argmax", np.argmax), ("argmin", np.argmin)):
                LAUNCHES.clear()
                (got,) = in_orders(lambda n=name, x=x, d=dim, keep=keep: (getattr(functions, n)(x, d, keep),))
                n = a.size if dim is None else shape[dim]
                assert LAUNCHES.total() == len(hand.SEEDS) * (2 if n >= 2 * launching.PARTS_FROM else 1)
                np.testing.assert_array_equal(got.get(), of(wide, dim, keepdims=keep), err_msg=f"{shape} {dim}")
            if dim is None:
                continue
            for name, of in (("max_dim", np.max), ("min_dim", np.min)):
                values, places = in_orders(lambda n=name, x=x, d=dim, keep=keep: getattr(functions, n)(x, d, keep))
                assert values.dtype == a.dtype
                np.testing.assert_array_equal(hand.wide(values), of(wide, dim, keepdims=keep))
                at = np.argmax if name == "max_dim" else np.argmin
                np.testing.assert_array_equal(places.get(), at(wide, dim, keepdims=keep))


def test_nan_comes_first_and_infinities_count() -> None:
    inf, nan = math.inf, math.nan
    a = np.array(
        [[1, nan, 3, nan], [-inf, inf, inf, 0], [nan, 0, 0, 0], [-inf] * 4, [-0.0, 0.0, -0.0, 0.0]], np.float32
    )
    for dim in (0, 1):
        np.testing.assert_array_equal(functions.argmax(hand.there(a), dim, False).get(), a.argmax(dim))
        np.testing.assert_array_equal(functions.argmin(hand.there(a), dim, False).get(), a.argmin(dim))
        np.testing.assert_array_equal(functions.max_dim(hand.there(a), dim, False)[0].get(), a.max(dim))


def test_views_and_tensors() -> None:
    rng = np.random.default_rng(6)
    a = rng.standard_normal((6, 8, 10))
    for view in (lambda y: y.transpose((2, 0, 1)), lambda y: y[::-1, 1::2], lambda y: y[2, ::-2]):
        for dim in (0, 1, None):
            got = functions.argmax(view(hand.there(a)), dim, False).get()
            np.testing.assert_array_equal(got, view(a).argmax(dim))
    LAUNCHES.clear()
    x = ferro.tensor(a, device="cuda", requires_grad=True)
    values, places = x.max(1)
    values.sum().backward()
    assert LAUNCHES["extreme_columns"] == 1
    np.testing.assert_array_equal(places.cpu().numpy(), a.argmax(1))
    want = np.zeros_like(a)
    np.put_along_axis(want, a.argmax(1)[:, None], 1, 1)
    np.testing.assert_array_equal(x.grad.cpu().numpy(), want)
    assert ferro.argmin(x).item() == a.argmin()


ORDERS = (2, 0, 1, math.inf, -math.inf, 3, 1.5, -2, 0.5)


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("ord", ORDERS)
def test_norms_are_those_of_float64(ord: float, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for k, (shape, dim) in enumerate(CASES):
        if 0 in shape:
            continue
        a = hand.floats(rng, shape, dtype, 0.25, 2) * rng.choice([-1, 1], shape).astype(hand.DTYPES[dtype])
        LAUNCHES.clear()
        (got,) = in_orders(lambda a=a, d=dim, keep=bool(k % 2): (functions.vector_norm(hand.there(a), ord, d, keep),))
        wide = np.abs(hand.wide(a))
        keep = bool(k % 2)
        if math.isinf(ord):
            want = (np.max if ord > 0 else np.min)(wide, dim, keepdims=keep)
        else:
            want = (wide**ord).sum(dim, keepdims=keep)
            want = want ** (1 / ord) if ord else want
        with np.errstate(over="ignore"):  # (of 65,504 in float16)
            want = want.astype(got.dtype).astype(float)
        np.testing.assert_allclose(hand.wide(got), want, rtol=2 * hand.TOLERANCE[dtype])
        assert set(LAUNCHES) <= {"reduce_rows", "reduce_columns"}
        n = int(np.prod([shape[d] for d in dim]))
        reductions = 2 if dtype == "float64" and ord not in (0, 1, math.inf, -math.inf) else 1  # (the largest before)
        assert LAUNCHES.total() == len(hand.SEEDS) * reductions * (2 if n >= 2 * launching.PARTS_FROM else 1)


def test_a_norm_and_its_gradient_look_at_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers whose squares leave float32, zeros, and one launch each way."""
    a = np.array([[3e30, -4e30], [3e-30, 4e-30], [0, 0], [3, 4]], np.float32)
    x = ferro.tensor(a, device="cuda", requires_grad=True)
    g = ferro.ones(4, device="cuda")

    def refuse(self: Any) -> bool:
        raise AssertionError("the processor asks for numbers")

    with monkeypatch.context() as patched:
        patched.setattr(stand_in.Array, "__bool__", refuse)
        before = kernels.LAUNCHES["count"]
        norm = x.norm(dim=1)
        norm.backward(g)
        assert kernels.LAUNCHES["count"] - before == 1
    np.testing.assert_allclose(norm.detach().cpu().numpy(), [5e30, 5e-30, 0, 5], rtol=1e-6)
    np.testing.assert_allclose(x.grad.cpu().numpy(), [[0.6, -0.8], [0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-305, 1e-200, 1.0, 1e200, 1e307])
@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_of_double_precision_nobody_looks_at_numbers_and_no_square_leaves_the_range(
    kind: Any, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.random.default_rng(11).uniform(0.5, 2, (4, 9)) * (1 if kind is np.float64 else 0.6 + 0.8j)
    x = hand.there((a * scale).astype(kind))
    monkeypatch.setattr(stand_in.Array, "__bool__", lambda self: pytest.fail("the processor asks for numbers"))
    size, tolerance = np.abs(a), 1e-14
    for ord in (2, 3, -1, 7.5, -400):
        got = functions.vector_norm(x, ord, (1,), False).get() / scale
        np.testing.assert_allclose(got, (size**ord).sum(1) ** (1 / ord), rtol=tolerance)
    spread, mean = functions.std_mean(x, (1,), 1, False)
    np.testing.assert_allclose(spread.get() / scale, a.std(1, ddof=1), rtol=tolerance)
    np.testing.assert_allclose(mean.get() / scale, a.mean(1), rtol=tolerance)
    if scale == 1:
        np.testing.assert_allclose(functions.var(x, (0,), 0, True).get(), a.var(0, keepdims=True), rtol=tolerance)


def test_norms_and_deviations_of_nan_infinity_and_zeros_in_double_precision() -> None:
    a = np.array([[math.nan, 1], [math.inf, 1], [0, 0], [-math.inf, math.nan], [math.inf, -math.inf]])
    x = hand.there(a)
    for ord in (2, 3, -1):
        with np.errstate(divide="ignore", invalid="ignore"):
            want = (np.abs(a) ** ord).sum(1) ** (1 / ord)
        np.testing.assert_array_equal(functions.vector_norm(x, ord, (1,), False).get(), want)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(functions.std(x, (1,), 1, False).get(), a.std(1, ddof=1))


FAULTS = [
    ("a.i < b.i ? a : b;\n  return (", "b;\n  return ("),
    ("known[at] : i", "known[at] : at"),
    ("int k = first + step; k < end", "int k = first + step; k < end - 1"),
    ("places[at] = mine.i;\n  __syncthreads();", "places[at] = mine.i;"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    text = extremes._text("float32", True)
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(8)
    a = rng.integers(0, 4000, (3, 2000)).astype(np.float32)
    a[1] = np.arange(2000)
    a[2, 500:] = 5000
    agrees = []
    for each in (text, wrong):
        found = []
        for seed in hand.SEEDS:
            values, places = stand_in.there(np.zeros(3, np.float32)), stand_in.there(np.zeros(3, np.int64))
            sizes = [np.int64(v) for v in (3, 3, 0, 2000, 2000, 0, 1, 2000, 2000)]
            none = stand_in.there(np.zeros(0, np.int64))
            with emulated.in_order(seed):
                kernel = emulated.Kernel(each, "extreme_rows")
                kernel((3,), (256, 1), (*sizes, stand_in.there(a), none, values, places))
            found.append(places.near.tolist())
        agrees.append(all(f == a.argmax(1).tolist() for f in found))
    assert agrees == [True, False]
