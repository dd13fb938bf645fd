"""Long sums of 16-bit floats by kernels: of equal numbers, which 16 bits get wrong by some hundredths, or beyond the range of 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ferro.cuda import philox
from ferro.cuda.by_hand import scatter
from ferro.cuda.functions import functions
from tests.cuda import hand
from tests.cuda import test_hand_attention as attention
from tests.cuda import test_hand_convolution as convolution
from tests.cuda import test_hand_losses as losses
from tests.cuda import test_hand_norms as norms
from tests.cuda import test_hand_rejection as rejection
from tests.cuda import test_hand_softmax as softmax

pytestmark = pytest.mark.usefixtures("cuda")
LONG, DTYPE = 3000, "float16"


def equal(*shape: int) -> np.ndarray:
    """1.04, as float16 has it."""
    return np.full(shape, 1.04, np.float16)


def near(got: Any, want: np.ndarray, what: str = "") -> None:
    """Numbers but for a rounding or two, each beside its own size."""
    np.testing.assert_allclose(hand.wide(got), want, rtol=2e-3, atol=2e-3, err_msg=what)


def test_attention() -> None:
    rng = np.random.default_rng(1)
    for n, m in ((3, LONG), (LONG, 3)):
        q, k, v, g = (hand.floats(rng, (1, rows, 8), DTYPE, 0.2, 0.4) for rows in (n, m, m, n))
        if m == LONG:
            v, q[:], k[:] = equal(1, m, 8), 0.3, 0.3
            k[0, 0] = 1.554  # the largest, so that the other weights are no whole numbers, but 0.3
        else:
            g = equal(1, n, 8)
        want = attention.reference(*map(hand.wide, (g, q, k, v)), causal=False)
        g, q, k, v = map(hand.there, (g, q, k, v))
        out, logs = functions.attention(q, k, v, None, attention.SCALE, False)
        needs = (True, True, True, False)
        found = functions.attention_vjp(g, q, k, v, None, logs, attention.SCALE, False, needs)
        for got, right in zip((out, logs, *found[:3]), want, strict=True):
            near(got, right, f"{n} queries, {m} keys")


def test_norms() -> None:
    """Sums beyond the range of float16, of numbers within it; and sums of equal ones."""
    rng = np.random.default_rng(2)
    x = hand.floats(rng, (4, 1024), DTYPE, 0, 30_000)
    g, w = (x / 4).astype(np.float16), hand.floats(rng, (1024,), DTYPE, 1, 2)
    z, mean, r = norms.standard(hand.wide(x), (1,))
    got = functions.layer_norm(*map(hand.there, (x, w, w)), 1, norms.EPS)
    norms.check(got, (z * hand.wide(w) + hand.wide(w), mean.reshape(-1), r.reshape(-1)), DTYPE, "layers")
    given = (*map(hand.there, (g, x, w)), *got[1:], 1, norms.EPS)
    dx = functions.layer_norm_vjp(*given, (True, True, True))[0]
    want = norms.slope(hand.wide(g) * hand.wide(w), z, r, (1,))
    hand.close(dx, want, DTYPE, "layers, backward")
    x, g = hand.floats(rng, (LONG, 64), DTYPE), equal(LONG, 64)
    _, mean, r = norms.standard(hand.wide(x), (1,))
    given = (
        hand.there(g),
        hand.there(x),
        hand.there(equal(64)),
        *(hand.there(a.reshape(-1).astype("f4")) for a in (mean, r)),
    )
    near(functions.layer_norm_vjp(*given, 1, norms.EPS, (True, True, True))[2], hand.wide(g).sum(0), "the bias")
    x = hand.floats(rng, (64, 3, 50), DTYPE, 0, 30_000)
    z, mean, _ = norms.standard(hand.wide(x), (0, 2))
    got = functions.batch_norm(hand.there(x), None, None, None, None, True, norms.EPS)
    norms.check(got, (z, mean.reshape(-1), hand.wide(x).var((0, 2))), DTYPE, "batches")


def columns() -> np.ndarray:
    """Columns of equal numbers below larger ones, so that exponentials are no whole numbers."""
    x = np.full((LONG, 40), -0.3, np.float16)
    x[:64] = 0  # (one for each thread)
    return x


def test_softmax() -> None:
    x = columns()
    for name in softmax.NAMES:
        want = softmax.reference(name, hand.wide(x), 0)
        got = getattr(functions, name)(hand.there(x), 0)
        np.testing.assert_allclose(hand.wide(got), want, rtol=2e-3, err_msg=name)
        y, g = got.get(), equal(*x.shape)
        want = softmax.backward(name, hand.wide(g), hand.wide(y), 0)
        got = getattr(functions, f"{name}_vjp")(hand.there(g), hand.there(y), 0)
        np.testing.assert_allclose(hand.wide(got), want, rtol=2e-3, atol=2e-3, err_msg=name)


def test_losses() -> None:
    x = columns()[None]
    target, weight = np.zeros((1, 40), np.int64), equal(LONG)
    want = losses.logarithms(hand.wide(x))
    for smoothing in (0.0, 0.5):
        q = losses.shares(hand.wide(x), target, hand.wide(weight), -100, smoothing)
        loss, kept = functions.cross_entropy(
            hand.there(x), hand.there(target), hand.there(weight), -100, "none", smoothing
        )
        near(loss, -(q * want).sum(1), f"{smoothing}")
        np.testing.assert_allclose(kept.get()[40:80], -want[0, 0], rtol=1e-6)


def test_convolutions() -> None:
    for n, channels, results in ((1, LONG, 8), (1, LONG, 1), (1, 8, LONG), (1, 1, LONG), (LONG, 8, 8)):
        how: Any = ((1,), (0,), (1,), 1)
        case = (n, channels, results, (2,), (1,), *how)
        x, w, y = equal(n, channels, 2), np.ones((results, channels, 1), np.float16), equal(n, results, 2)
        if n > 1:
            y[:] = 0.5
        want = convolution.reference(hand.wide(x), hand.wide(w), hand.wide(y), case)
        near_x, near_w, near_y = hand.there(x), hand.there(w), hand.there(y)
        near(functions.conv(near_x, near_w, None, (2,), *how), want[0], f"{case}")
        near(functions.conv_input(near_y, near_w, None, (2,), *how), want[1], f"{case}, to the input")
        near(functions.conv_weight(near_x, near_y, (1,), *how), want[2], f"{case}, to the weight")


def test_means() -> None:
    """Windows of many numbers, and numbers that stand in many windows."""
    x = equal(1, LONG)
    near(functions.avg_pool(hand.there(x), (LONG,), (1,), (1,), (0,), LONG), hand.wide(x[:, :1]))
    half = LONG // 2
    g = equal(1, half + 1)
    got = functions.avg_spread(hand.there(g), (LONG,), (half,), (1,), (0,), half)
    counts = np.minimum(np.minimum(np.arange(LONG) + 1, LONG - np.arange(LONG)), half)
    near(got, (counts / half * hand.wide(g)[0, 0])[None])


def test_sums() -> None:
    for shape, dim in (((LONG, 40), (0,)), ((40, LONG), (1,))):
        near(functions.sum(hand.there(equal(*shape)), dim, False), hand.wide(equal(*shape)).sum(dim[0]))


def test_rows_of_one_place() -> None:
    rows = equal(LONG, 2)
    out = hand.there(np.zeros((3, 2), np.float16))
    assert scatter.add_at(out, hand.there(np.ones(LONG, np.int64)), hand.there(rows))
    near(out, np.array([[0, 0], [1, 1], [0, 0]]) * hand.wide(rows).sum(0))
    few = hand.there(np.zeros((1, 2), np.float16))
    assert scatter.add_at(few, hand.there(np.zeros(scatter.CHUNK, np.int64)), hand.there(rows[: scatter.CHUNK]))
    np.testing.assert_allclose(hand.wide(few), hand.wide(rows[:1]) * scatter.CHUNK, rtol=6e-4)


def test_waiting_times() -> None:
    """Successes among very many trials, counted by the times between them."""
    n, d = 60, np.dtype(np.float64)
    count, p = np.full(n, 1e6), np.full(n, 5e-6)
    for dtype in ("float64", DTYPE):
        d = hand.DTYPES[dtype]
        if dtype == DTYPE:
            count, p = np.full(n, 6e4).astype(d), np.full(n, 1e-4).astype(d)
        got = philox.Philox(31).binomial(hand.there(count), hand.there(p))
        want = [rejection.binomial(31, i, float(c), float(q)) for i, (c, q) in enumerate(zip(count, p, strict=True))]
        np.testing.assert_array_equal(hand.wide(got), want, err_msg=dtype)
