"""Cross-entropy of logits by kernels, run thread by thread beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import losses
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from ferro.nn.functional import cross_entropy
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
SHAPES = [
    (1, 1), (1, 2), (3, 5), (2, 64), (70, 3), (257, 2), (9, 33), (5, 100), (3, 1024), (2, 1500), (2, 3000), (300, 10),
    (2, 3, 4), (1, 5, 33), (3, 2, 1), (2, 40, 7), (2, 300, 3), (2, 3, 4, 5), (1, 4, 17, 9), (4, 1, 2, 2), (2, 3, 2, 2, 2),
    (4, 2), (1, 31), (5, 32), (2, 65), (1, 255), (33, 7), (1, 1025), (1, 2, 2), (1, 9, 3), (2, 31, 5), (1, 64, 9), (3, 3, 33), (1, 2, 70), (2, 17, 2),
    (1, 7, 2, 3), (2, 2, 3, 3), (1, 130, 2), (3, 5, 1, 4), (1, 33, 2, 2), (5, 4, 6),
]  # fmt: skip


def logarithms(x: np.ndarray) -> np.ndarray:
    """log softmax over dimension 1."""
    d = x - x.max(1, keepdims=True)
    return d - np.log(np.exp(d).sum(1, keepdims=True))


def shares(x: np.ndarray, target: np.ndarray, weight: np.ndarray, ignored: int, smoothing: float) -> np.ndarray:
    """The coefficients q with which the losses are -sum over classes of q log softmax."""
    classes = np.moveaxis(np.eye(x.shape[1])[np.where(target == ignored, 0, target)], -1, 1)
    column = weight.reshape(1, -1, *[1] * (x.ndim - 2))
    q = ((1 - smoothing) * classes + smoothing / x.shape[1]) * column
    return q * np.expand_dims(target != ignored, 1)


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_losses_and_gradients(smoothing: float, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for k, shape in enumerate(SHAPES):
        a = hand.floats(rng, shape, dtype, -4, 4)
        target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
        ignored = 0 if k % 3 == 1 and (target != 0).any() else -100
        weight = hand.floats(rng, (shape[1],), dtype, 0.5, 2) if k % 2 else None
        w = np.ones(shape[1]) if weight is None else hand.wide(weight)
        wide = hand.wide(a)
        q = shares(wide, target, w, ignored, smoothing)
        each = -(q * logarithms(wide)).sum(1)
        total = (w[target] * (target != ignored)).sum()
        kind = "columns" if len(shape) > 2 and np.prod(shape[2:]) > 1 else "rows"
        x, t, on = hand.there(a), hand.there(target), None if weight is None else hand.there(weight)
        for reduction, want, factor in (
            ("none", each, None),
            ("sum", each.sum(), 1.0),
            ("mean", each.sum() / total, 1 / total),
        ):
            adds = "reduce_columns" if target.size == 1 else "reduce_rows"
            names = [f"cross_entropy_{kind}", *[adds] * (reduction != "none")]
            args = (x, t, on, ignored, reduction, smoothing)
            loss, kept = hand.in_all_orders(lambda args=args: functions.cross_entropy(*args), *names)
            hand.close(loss, np.asarray(want), dtype, f"{shape} {reduction}", max(1.0, float(np.abs(want).max())))
            g = hand.floats(rng, target.shape if factor is None else (), dtype)
            slope = np.expand_dims(hand.wide(g), 1) if factor is None else hand.wide(g) * factor
            right = (np.exp(logarithms(wide)) * q.sum(1, keepdims=True) - q) * slope
            names = [f"cross_entropy_vjp_{kind}", *["reduce_rows"] * bool(smoothing and weight is not None)]
            args = (hand.there(g), *args, kept)
            got = hand.in_all_orders(lambda args=args: functions.cross_entropy_vjp(*args), *names)
            hand.close(got, right, dtype, f"{shape} {reduction}: gradient", max(1.0, float(np.abs(right).max())))


def test_extreme_logits_are_those_of_the_cpu() -> None:
    inf = np.inf
    a = np.array([[1e30, 1, 0], [-inf, 2, 3], [-1e4, -1e4, -1e4], [1e4, 1e4 - 1, 0], [88, -88, 0]])
    for dtype in (np.float32, np.float64):
        target, found = np.array([0, 2, 1, 1, 0]), []
        for device in ("cpu", "cuda"):
            x = ferro.tensor(a.astype(dtype), device=device, requires_grad=True)
            loss = cross_entropy(x, ferro.tensor(target, device=device), reduction="none")
            loss.sum().backward()
            found.append((loss.detach().cpu().numpy(), x.grad.cpu().numpy()))
        for got, want in zip(found[1], found[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


def test_a_target_that_is_no_class_raises_and_says_which() -> None:
    x = ferro.ones(3, 4).to("cuda")
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        cross_entropy(x, ferro.tensor([0, 7, 1]).to("cuda"))
    assert cross_entropy(x, ferro.tensor([0, -100, 1]).to("cuda")).isfinite().item()
    assert ferro.isnan(cross_entropy(x, ferro.tensor([-100, -100, -100]).to("cuda"))).item()


def test_launches_of_a_step_on_tensors() -> None:
    x = ferro.zeros(30, 10, dtype=ferro.float64).to("cuda").requires_grad_()
    LAUNCHES.clear()
    cross_entropy(x, ferro.zeros(30, dtype=ferro.int64).to("cuda")).backward()
    assert LAUNCHES == {"cross_entropy_rows": 1, "reduce_rows": 1, "cross_entropy_vjp_rows": 1}
    want = (np.full((30, 10), 0.1) - np.eye(10)[0]) / 30
    np.testing.assert_allclose(x.grad.cpu().numpy(), want, rtol=1e-12)


FAULTS = [
    ("if (i == t) v -= hit;", "if (i == t + 1) v -= hit;"),
    ("load(g[each ? team.row : 0])", "load(g[0])"),
    ("if (mean) slope", "if (!mean) slope"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = losses.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(2)
    a, g = hand.floats(rng, (6, 40), "float32"), hand.floats(rng, (6,), "float32")
    target = rng.integers(0, 39, 6)
    _, kept = functions.cross_entropy(hand.there(a), hand.there(target), None, -100, "none", 0.0)
    kept.near[12] = 0.5
    q = shares(hand.wide(a), target, np.ones(40), -100, 0.0)
    want = (np.exp(logarithms(hand.wide(a))) - q) * g[:, None].astype(np.float64)
    agrees = []
    for each in (text, wrong):
        dx = stand_in.there(np.zeros((6, 40), np.float32))
        sizes = [np.int64(v) for v in (6, 40, 1, -100, 0, 1, 0)]
        given = [stand_in.there(v) for v in (g, a, target, a, a)]
        emulated.Kernel(each, "cross_entropy_vjp_rows")((1,), (16, 16), (*sizes, np.float64(0), *given, kept, dx))
        agrees.append(bool(np.allclose(dx.near, want, rtol=1e-5, atol=1e-6)))
    assert agrees == [True, False]
