"""Normalisation of layers, groups and batches by kernels, run thread by thread beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import norms
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from ferro.nn import functional
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
EPS = 1e-3
# (shape, trailing dimensions) of layers
LAYERS = [
    ((1,), 1), ((2,), 1), ((300,), 1), ((1200,), 1), ((3, 1), 1), ((3, 5), 1), ((3, 5), 2), ((70, 2), 1), ((70, 7), 1),
    ((9, 33), 1), ((5, 64), 1), ((4, 100), 1), ((2, 1030), 1), ((3, 2500), 1), ((257, 4), 1), ((600, 3), 1), ((2, 3, 4), 1),
    ((2, 3, 4), 2), ((2, 3, 4), 3), ((1, 1, 9), 1), ((9000, 2), 1),
    ((7, 1), 1), ((64, 1), 1), ((100, 1), 1), ((257, 1), 1), ((1025, 1), 1), ((33, 1), 1), ((3, 2, 1), 1), ((9, 5, 1), 1),
    ((2, 1, 1), 2), ((70, 1, 1), 2), ((5, 1, 1, 1), 3), ((6, 6, 1), 1), ((300, 1), 1), ((2, 2, 2, 1), 1), ((17, 3, 1), 1), ((31, 1), 1),
]  # fmt: skip
# (shape, groups) of images
IMAGES = [
    ((1, 1), 1), ((3, 2), 1), ((3, 4), 2), ((2, 6), 6), ((2, 3, 5), 3), ((2, 4, 5), 2), ((1, 4, 3, 3), 4), ((2, 4, 3, 5), 2),
    ((3, 6, 2, 2), 3), ((2, 3, 40), 1), ((2, 2, 17, 19), 1), ((1, 2, 40, 40), 2), ((33, 2, 3), 2), ((70, 8), 4), ((300, 3), 3),
    ((2, 3, 2, 2, 2), 3), ((5, 1, 9), 1), ((2, 34, 3), 17), ((600, 9), 3), ((1, 3, 9000), 3), ((4, 2, 1, 64), 2),
    ((2, 1, 7), 1), ((9, 1), 1), ((3, 1, 5), 1), ((2, 3, 33), 3), ((1, 4, 64), 2), ((3, 2, 100), 1), ((2, 6, 5, 7), 2), ((2, 2, 8, 8), 2),
    ((1, 5, 6, 6), 5), ((70, 1), 1), ((1, 2, 257), 1), ((5, 2, 32), 2), ((2, 3, 3, 3, 4), 1), ((4, 3, 31), 1), ((7, 6), 2), ((2, 8, 3), 4),
    ((31, 4, 2), 2), ((1, 12, 5), 3), ((3, 3, 2, 2), 1), ((64, 2), 1), ((5, 10, 3), 5),
]  # fmt: skip


def standard(x: np.ndarray, dims: tuple, centred: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x - mean) r, the mean and r = 1 / sqrt(var + eps) over `dims`."""
    mean = x.mean(dims, keepdims=True) if centred else np.zeros(())
    r = 1 / np.sqrt(((x - mean) ** 2).mean(dims, keepdims=True) + EPS)
    return (x - mean) * r, mean, r


def slope(h: np.ndarray, z: np.ndarray, r: np.ndarray, dims: tuple, centred: bool = True) -> np.ndarray:
    """The backward of `standard`."""
    d = h - z * (h * z).mean(dims, keepdims=True)
    return (d - h.mean(dims, keepdims=True) if centred else d) * r


def check(found: Any, want: tuple, dtype: str, what: str) -> None:
    """Results beside those of float64."""
    for got, right in zip(found, want, strict=True):
        hand.close(got, right, dtype, what, max(1.0, float(np.abs(right).max(initial=0))))


def several(rng: Any, dtype: str, *shapes: tuple) -> tuple[list, list]:
    """Arrays on the device and in float64."""
    arrays = [hand.floats(rng, shape, dtype) for shape in shapes]
    return [hand.there(a) for a in arrays], [hand.wide(a) for a in arrays]


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("centred", [True, False])
def test_layers(centred: bool, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for k, (shape, n) in enumerate(LAYERS):
        tail, dims = shape[len(shape) - n :], tuple(range(len(shape) - n, len(shape)))
        lead = tuple(range(len(shape) - n))
        (x, g, w, b), (wx, wg, ww, wb) = several(rng, dtype, shape, shape, tail, tail)
        what = f"{shape}, {n}"
        plain = k % 3 == 2  # without weight and bias
        if plain:
            w, b, ww, wb = None, None, np.ones(tail), np.zeros(tail)
        z, mean, r = standard(wx, dims, centred)
        if centred:
            got = hand.in_all_orders(lambda a=(x, w, b, n, EPS): functions.layer_norm(*a), "norm_rows")
            check(got, (z * ww + wb, mean.reshape(-1), r.reshape(-1)), dtype, what)
        else:
            got = hand.in_all_orders(lambda a=(x, w, n, EPS): functions.rms_norm(*a), "rms_rows")
            check(got, (z * ww, r.reshape(-1)), dtype, what)
        kind = "rows" if np.prod(tail) == 1 else "columns"
        names = ("norm_vjp_rows" if centred else "rms_vjp_rows", f"channel_sums_{kind}", parts_name(int(np.prod(tail))))
        given = (g, x, w, *got[1:], n, EPS)
        name = "layer_norm_vjp" if centred else "rms_norm_vjp"
        needs = (True, True, True)[: 3 if centred else 2]
        found = hand.in_all_orders(lambda a=given, needs=needs, name=name: getattr(functions, name)(*a, needs), *names)
        want = (slope(wg * ww, z, r, dims, centred), (wg * z).sum(lead), wg.sum(lead))
        check(found, want[: len(needs)], dtype, what)


def parts_name(count: int) -> str:
    """The kernel that adds the parts of `count` channels."""
    return "reduce_rows" if count == 1 else "reduce_columns"


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_groups(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for shape, groups in IMAGES:
        (x, g, w, b), (wx, wg, ww, wb) = several(rng, dtype, shape, shape, shape[1:2], shape[1:2])
        apart = (shape[0], groups, shape[1] // groups, -1)
        column = (1, -1, *[1] * (len(shape) - 2))
        sums = (0, *range(2, len(shape)))
        z, mean, r = standard(wx.reshape(apart), (2, 3))
        got = hand.in_all_orders(lambda a=(x, w, b, groups, EPS): functions.group_norm(*a), "norm_rows")
        want = z.reshape(shape) * ww.reshape(column) + wb.reshape(column)
        check(got, (want, mean.reshape(-1), r.reshape(-1)), dtype, f"{shape}, {groups}")
        given = (g, x, w, *got[1:], groups, EPS, (True, True, True))
        LAUNCHES.clear()
        found = functions.group_norm_vjp(*given)
        assert LAUNCHES.total() == 3
        h = (wg * ww.reshape(column)).reshape(apart)
        want = slope(h, z, r, (2, 3)).reshape(shape), (wg * z.reshape(shape)).sum(sums), wg.sum(sums)
        check(found, want, dtype, f"{shape}, {groups}")
        with emulated.in_order(5):
            again = functions.group_norm_vjp(*given)
        assert [a.get().tobytes() for a in again] == [a.get().tobytes() for a in found]


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("training", [True, False])
def test_batches(training: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape, _ in IMAGES:
        channel = shape[1:2]
        (x, g, w, b, m), (wx, wg, ww, wb, wm) = several(rng, dtype, shape, shape, channel, channel, channel)
        v = hand.floats(rng, channel, dtype, 0.5, 2)
        column, dims = (1, -1, *[1] * (len(shape) - 2)), (0, *range(2, len(shape)))
        mean = wx.mean(dims, keepdims=True) if training else wm.reshape(column)
        var = ((wx - mean) ** 2).mean(dims, keepdims=True) if training else hand.wide(v).reshape(column)
        r = 1 / np.sqrt(var + EPS)
        z = (wx - mean) * r
        given = (x, w, b, m, hand.there(v), training, EPS)
        found = []
        for seed in hand.SEEDS:
            LAUNCHES.clear()
            with emulated.in_order(seed):
                found.append(functions.batch_norm(*given))
            assert LAUNCHES.total() == (3 if training else 1)
        assert len({b"".join([a.get().tobytes() for a in each]) for each in found}) == 1
        want = z * ww.reshape(column) + wb.reshape(column), mean.reshape(-1), var.reshape(-1)
        check(found[0], want, dtype, str(shape))
        got = functions.batch_norm_vjp(g, x, w, *found[0][1:], training, EPS, (True, True, True))
        h = wg * ww.reshape(column)
        dx = slope(h, z, r, dims) if training else h * r
        check(got, (dx, (wg * z).sum(dims), wg.sum(dims)), dtype, str(shape))


def test_statistics_of_numbers_far_from_zero() -> None:
    """Ten thousand standard deviations from 0, where squares in float32 say nothing of the variance."""
    rng = np.random.default_rng(4)
    a = (1e4 + rng.standard_normal((64, 3, 50))).astype(np.float32)
    wide = a.astype(np.float64)
    _, _, var = functions.batch_norm(hand.there(a), None, None, None, None, True, 0.0)
    np.testing.assert_allclose(var.get(), wide.var((0, 2)), rtol=1e-6)
    out, _, r = functions.layer_norm(hand.there(a), None, None, 1, 0.0)
    np.testing.assert_allclose(r.get(), 1 / wide.std(2).reshape(-1), rtol=1e-6)
    want = (wide - wide.mean(2, keepdims=True)) / wide.std(2, keepdims=True)
    np.testing.assert_allclose(out.get(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm", "group_norm", "batch_norm"])
def test_launches_of_a_training_step_on_tensors(kind: str) -> None:
    rng = np.random.default_rng(5)
    a, g = rng.standard_normal((2, 6, 8, 10))
    found = []
    for device in ("cpu", "cuda"):
        x = ferro.tensor(a, device=device, requires_grad=True)
        w, b = (
            ferro.ones(10 if kind[0] in "lr" else 8, dtype=ferro.float64, device=device).requires_grad_() for _ in "wb"
        )
        LAUNCHES.clear()
        y = {
            "layer_norm": lambda x=x, w=w, b=b: functional.layer_norm(x, (10,), w, b),
            "rms_norm": lambda x=x, w=w: functional.rms_norm(x, (10,), w),
            "group_norm": lambda x=x, w=w, b=b: functional.group_norm(x, 4, w, b),
            "batch_norm": lambda x=x, w=w, b=b: functional.batch_norm(x, None, None, w, b, training=True),
        }[kind]()
        y.backward(ferro.tensor(g, device=device))
        found.append([t.grad.cpu().numpy() for t in (x, w, b) if t.grad is not None])
    assert LAUNCHES.total() == (6 if kind == "batch_norm" else 4), dict(LAUNCHES)
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


FAULTS = [
    ("const place from = team.row % groups * each;", "const place from = 0;"),
    ("squares += d * d;", "squares += float(d) * float(d) + (threadIdx.x == 1 ? 1 : 0);"),
    ("shared[threadIdx.x / 32] = v;\n  __syncthreads();", "shared[threadIdx.x / 32] = v;"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = norms.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(6)
    a, w, b = (hand.floats(rng, shape, "float32") for shape in ((2, 4, 1100), (4,), (4,)))
    z, _, _ = standard(hand.wide(a).reshape(2, 2, 2, -1), (2, 3))
    want = z.reshape(a.shape) * hand.wide(w)[:, None] + hand.wide(b)[:, None]
    agrees = []
    for each in (text, wrong):
        fine = True
        for seed in hand.SEEDS:
            out, m, r = (stand_in.there(np.zeros(shape, np.float32)) for shape in (a.shape, (4,), (4,)))
            sizes = map(np.int64, (4, 2200, 2, 2, 1100, 1, 1))
            with emulated.in_order(seed):
                arrays = [stand_in.there(v) for v in (a, w, b)]
                emulated.Kernel(each, "norm_rows")((4,), (256, 1), (*sizes, np.float64(EPS), *arrays, out, m, r))
            fine &= bool(np.allclose(out.near, want, rtol=2e-6, atol=4e-6))
        agrees.append(fine)
    assert agrees == [True, False]
