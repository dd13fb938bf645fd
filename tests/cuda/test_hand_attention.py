"""Attention by kernels without its matrix of weights, run thread by thread beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import attention
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.by_hand.texts import MMA
from ferro.cuda.functions import functions
from ferro.nn.functional import scaled_dot_product_attention
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Heads, queries, keys, columns of queries and of values.
CASES = [
    (1, 1, 1, 1, 1), (1, 1, 5, 3, 2), (2, 3, 1, 4, 4), (2, 3, 5, 4, 3), (1, 31, 33, 8, 8), (1, 32, 32, 8, 8), (1, 33, 31, 8, 5),
    (3, 7, 40, 16, 16), (1, 65, 3, 2, 2), (2, 5, 70, 20, 12), (1, 64, 64, 32, 32), (1, 4, 9, 33, 31), (1, 9, 4, 40, 64),
    (2, 6, 6, 64, 64), (1, 40, 100, 5, 1), (5, 2, 2, 1, 7), (1, 3, 97, 16, 48), (1, 97, 3, 48, 16), (1, 1, 64, 8, 8), (4, 10, 10, 6, 6),
]  # fmt: skip
WIDE = [(1, 5, 7, 65, 70), (1, 3, 34, 128, 128), (2, 4, 4, 100, 20)]
SCALE = 0.4


def reference(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, mask: np.ndarray | None = None
) -> tuple:
    """The result, the logarithms of sums, and the gradients, in float64; 0 in rows that are blocked throughout."""
    s = SCALE * q @ k.swapaxes(-1, -2)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    top = s.max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        logs = top + np.log(np.exp(s - top).sum(-1, keepdims=True))
        p = np.where(top == -np.inf, 0, np.exp(s - logs))
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    return p @ v, logs[..., 0], ds @ k * SCALE, ds.swapaxes(-1, -2) @ q * SCALE, p.swapaxes(-1, -2) @ g


def kernel(name: str, dtype: str) -> str:
    """The kernel of a dtype: by tensor cores for 16 bits."""
    return f"{name}_tensor" if dtype in MMA else name


@pytest.mark.parametrize("dtype", hand.SOME)
@pytest.mark.parametrize("causal", [False, True])
def test_forward_and_backward(causal: bool, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for heads, n, m, width, depth in [*CASES, *(WIDE if dtype != "float64" else [])]:
        what = str((heads, n, m, width, depth))
        shapes = (heads, n, depth), (heads, n, width), (heads, m, width), (heads, m, depth)
        arrays = [hand.floats(rng, shape, dtype) for shape in shapes]
        want = reference(*[hand.wide(a) for a in arrays], causal=causal)
        g, q, k, v = map(hand.there, arrays)
        given = (q, k, v, None, SCALE, causal)
        out, logs = hand.in_all_orders(
            lambda given=given: functions.attention(*given), kernel("attention_forward", dtype)
        )
        needs = (True, True, True, False)
        given = (g, q, k, v, None, logs, SCALE, causal, needs)
        names = kernel("attention_queries", dtype), kernel("attention_keys", dtype)
        found = hand.in_all_orders(lambda given=given: functions.attention_vjp(*given), *names)
        assert found[3] is None
        for got, right in zip((out, *found[:3]), (want[0], *want[2:]), strict=True):
            hand.close(got, right, dtype, what, 4 * max(1.0, float(np.abs(right).max())))
        np.testing.assert_allclose(logs.get(), want[1], rtol=1e-5 if dtype != "float64" else 1e-12, atol=1e-5)


# The shape of a mask beside heads (2, 3) or (heads): what it broadcasts over.
MASKS = (
    (),
    (1, 1),
    (1, -1),
    (-1, 1),
    (-1, -1),
    (3, 1, 1),
    (3, -1, -1),
    (2, 1, -1, -1),
    (2, 3, 1, -1),
    (2, 3, -1, -1),
    (2, 1, -1, 1),
)
MASKED = [
    (1, 1, 1, 1),
    (1, 5, 3, 2),
    (3, 1, 4, 4),
    (31, 33, 8, 8),
    (33, 31, 8, 5),
    (5, 70, 20, 12),
    (40, 7, 33, 31),
    (9, 34, 40, 64),
]


QUICK = {("bool", "float32", 0), ("added", "float16", 0)}
# One kind for each way to multiply is run each time; the second turn has the masks with other sizes.
OF_MASKS = [
    pytest.param(kind, dtype, turn, marks=() if (kind, dtype, turn) in QUICK else pytest.mark.slow)
    for kind in ("bool", "added")
    for dtype in hand.DTYPES
    for turn in (0, 1)
]


@pytest.mark.parametrize(("kind", "dtype", "turn"), OF_MASKS)
def test_masks(kind: str, dtype: str, turn: int) -> None:
    rng = np.random.default_rng(6)
    for number, of in enumerate(MASKS, turn * len(MASKS)):
        n, m, width, depth = MASKED[number % len(MASKED)]
        shape = [{-1: (m if at == len(of) - 1 else n)}.get(size, size) for at, size in enumerate(of)]
        shapes = (2, 3, n, depth), (2, 3, n, width), (2, 3, m, width), (2, 3, m, depth)
        arrays = [hand.floats(rng, each, dtype) for each in shapes]
        mask = rng.random(shape) < 0.6 if kind == "bool" else hand.floats(rng, tuple(shape), dtype)
        mask = np.asarray(mask)
        if kind == "added" and mask.size > 2:
            mask[rng.random(shape) < 0.3] = -np.inf
        far = mask if kind == "bool" else mask.astype(np.float64)
        want = reference(*[hand.wide(a) for a in arrays], causal=False, mask=far)
        g, q, k, v = map(hand.there, arrays)
        given = (q, k, v, hand.there(mask), SCALE, False)
        out, logs = hand.in_all_orders(
            lambda given=given: functions.attention(*given), kernel("attention_forward", dtype)
        )
        given = (g, q, k, v, hand.there(mask), logs, SCALE, False, (True, True, True, False))
        names = kernel("attention_queries", dtype), kernel("attention_keys", dtype)
        found = hand.in_all_orders(lambda given=given: functions.attention_vjp(*given), *names)
        for got, right in zip((out, *found[:3]), (want[0], *want[2:]), strict=True):
            hand.close(
                got, right, dtype, f"{of} {MASKED[number % len(MASKED)]}", 4 * max(1.0, float(np.abs(right).max()))
            )


def test_a_transposed_mask_and_the_gradient_of_an_added_one() -> None:
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 3), (5, 5))]
    for needs in (False, True):
        found = []
        for device in ("cpu", "cuda"):
            q, k, v = (ferro.tensor(a, device=device, requires_grad=True) for a in arrays[:3])
            mask = ferro.tensor(arrays[3], device=device, requires_grad=needs)
            LAUNCHES.clear()
            y = scaled_dot_product_attention(q, k, v, mask.T)
            (y * y).sum().backward()
            found.append(
                [t.detach().cpu().numpy() for t in (y, q.grad, k.grad, v.grad, *([mask.grad] if needs else []))]
            )
        assert LAUNCHES["attention_forward"] == 1
        assert LAUNCHES["attention_keys"] == (0 if needs else 1)
        for got, want in zip(found[1], found[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_leading_dimensions_needs_and_launches_on_tensors() -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 3))]
    for causal in (False, True):
        found = []
        for device in ("cpu", "cuda"):
            q, k, v = (ferro.tensor(a, device=device, requires_grad=True) for a in arrays)
            LAUNCHES.clear()
            y = scaled_dot_product_attention(q, k, v, is_causal=causal)
            (y * y).sum().backward()
            found.append([t.detach().cpu().numpy() for t in (y, q.grad, k.grad, v.grad)])
        assert LAUNCHES == {"attention_forward": 1, "reduce_rows": 1, "attention_queries": 1, "attention_keys": 1}
        for got, want in zip(found[1], found[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    q, k, v = (ferro.tensor(a, device="cuda", requires_grad=at == 0) for at, a in enumerate(arrays))
    LAUNCHES.clear()
    scaled_dot_product_attention(q, k, v).backward(ferro.ones(2, 3, 5, 3, dtype=ferro.float64, device="cuda"))
    assert LAUNCHES == {"attention_forward": 1, "attention_queries": 1}


def test_wide_heads_are_computed_by_the_formula() -> None:
    for width, mask in ((130, None), (130, np.linspace(-1, 1, 30).reshape(5, 6))):
        found = []
        for device in ("cpu", "cuda"):
            q, k = (ferro.tensor(np.linspace(-1, 1, n * width).reshape(1, n, width), device=device) for n in (5, 6))
            LAUNCHES.clear()
            given = None if mask is None else ferro.tensor(mask, device=device)
            found.append(scaled_dot_product_attention(q, k, k, given).cpu().numpy())
        assert LAUNCHES == {"softmax_rows": 1}
        np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_infinite_and_large_scores() -> None:
    """Rows of nan where the formula has them, and scores that only a shift by the maximum keeps in range."""
    q = np.array([[[1e4], [-1e4], [np.inf], [np.nan], [0.0]]])
    k = np.array([[[1.0], [0.5], [-1.0]]])
    v = np.array([[[1.0], [2.0], [4.0]]])
    got = functions.attention(*map(hand.there, (q, k, v)), None, 1.0, False)[0].get()[0, :, 0]
    np.testing.assert_allclose(got, [1, 4, np.nan, np.nan, 7 / 3], rtol=1e-12)


FAULTS_OF_MASKS = [
    ("mask += head / near * far_step + head % near * near_step;", "mask += head * near_step;"),
    ("* row_step + ", "* column_step + "),
    ("true && total[r] == 0 ? 0", "false ? 0"),
    ("if (first + r < queries && key < keys && !mask", "if (first + r < queries && key < keys - 1 && !mask"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS_OF_MASKS)
def test_planted_faults_of_masks_are_found(before: str, after: str) -> None:
    text = attention._text("float32", 1, "bool")
    wrong = hand.planted(text, (before, after), FAULTS_OF_MASKS)
    rng = np.random.default_rng(5)
    arrays = [hand.floats(rng, shape, "float32") for shape in ((6, 9, 8),) * 4]
    mask = rng.random((2, 1, 9, 9)) < 0.5
    mask[0, 0, 3], mask[..., -1] = False, False
    spread = np.broadcast_to(mask, (2, 3, 9, 9)).reshape(6, 9, 9)
    want = reference(*[hand.wide(a) for a in arrays], causal=False, mask=spread)[0]
    agrees = []
    for each in (text, wrong):
        out, logs = stand_in.there(np.zeros((6, 9, 8), np.float32)), stand_in.there(np.zeros((6, 9)))
        sizes = [np.int64(v) for v in (9, 9, 1, 8, 8, 0)]
        steps = [np.int64(v) for v in (3, 81, 0, 9, 1)]
        # (memory behind the mask, which a wrong head reads)
        near = stand_in.there(np.concatenate([mask.reshape(-1), np.ones(999, bool)]))
        given = (*sizes, np.float64(SCALE), *map(stand_in.there, arrays[1:]), out, logs, *steps, near)
        emulated.Kernel(each, "attention_forward")((6,), (256,), given, shared_mem=4 * 32 * 17)
        agrees.append(bool(np.allclose(out.near, want, rtol=1e-5, atol=1e-5)))
    assert agrees == [True, False]


FAULTS = [
    ("    __syncthreads();\n    Shared::fill(tile, v", "    Shared::fill(tile, v"),
    ("if (key >= keys || (causal && key > first + r))", "if (false)"),
    ("sums[r][c] *= keep;", ""),
    ("causal && key > first + r", "causal && key > first"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    text = attention._text("float32", 1)
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(4)
    arrays = [hand.floats(rng, shape, "float32") for shape in ((1, 70, 8),) * 4]
    arrays[2] *= np.linspace(0.1, 3, 70, dtype=np.float32)[:, None]  # (the largest come last)
    want = reference(*[hand.wide(a) for a in arrays], causal=True)[0]
    _, q, k, v = map(stand_in.there, arrays)
    agrees = []
    for each in (text, wrong):
        fine = True
        for seed in hand.SEEDS:
            out, logs = stand_in.there(np.zeros((1, 70, 8), np.float32)), stand_in.there(np.zeros((1, 70)))
            sizes = [np.int64(n) for n in (70, 70, 3, 8, 8, 1)]
            with emulated.in_order(seed):
                given = (*sizes, np.float64(SCALE), q, k, v, out, logs)
                emulated.Kernel(each, "attention_forward")((3,), (256,), given, shared_mem=4 * 32 * 17)
            fine &= bool(np.allclose(out.near, want, rtol=1e-5, atol=1e-5))
        agrees.append(fine)
    assert agrees == [True, False]


FAULTS_OF_TENSOR_CORES = [
    ("__syncthreads();\n    float s[4][4];", "float s[4][4];"),
    ("at + i / 2 * 8);", "at + i % 2 * 8);"),
    ("(8 * j + lane / 4) * STEP", "(8 * j + lane % 8) * STEP"),
    ("weights[2 * k + i / 2][i % 2 * 2]", "weights[2 * k + i % 2][i % 2 * 2]"),
    ("16 * k + lane % 4 * 2 + 8 * i)", "16 * k + lane % 4 * 2)"),
    ("sums[n][2 * half + 1] *= keep;", ""),
    ("n / 2 * 8 + lane % 4 * 2 + n % 2;\n        float x", "n / 2 * 8 + lane % 4 + n % 2;\n        float x"),
    ("(i / 2 ? high : low)", "low"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS_OF_TENSOR_CORES)
def test_planted_faults_of_tensor_cores_are_found(before: str, after: str) -> None:
    text = attention._text("float16", 1)
    wrong = hand.planted(text, (before, after), FAULTS_OF_TENSOR_CORES)
    rng = np.random.default_rng(9)
    arrays = [hand.floats(rng, shape, "float16") for shape in ((1, 70, 24),) * 4]
    arrays[2] *= np.linspace(0.1, 3, 70).astype(np.float16)[:, None]  # (the largest come last)
    want = reference(*[hand.wide(a) for a in arrays], causal=True)[0]
    agrees = []
    for each in (text, wrong):
        fine = True
        for seed in hand.SEEDS:
            out, logs = stand_in.there(np.zeros((1, 70, 24), np.float16)), stand_in.there(np.zeros((1, 70)))
            sizes = [np.int64(n) for n in (70, 70, 2, 24, 24, 1)]
            given = (*sizes, np.float64(SCALE), *map(stand_in.there, arrays[1:]), out, logs)
            with emulated.in_order(seed):
                shared = attention.shared_bytes("attention_forward", 32)
                emulated.Kernel(each, "attention_forward_tensor")((2,), (128,), given, shared_mem=shared)
            fine &= bool(np.allclose(out.near.astype(np.float64), want, rtol=0.01, atol=0.01))
        agrees.append(fine)
    assert agrees == [True, False]
