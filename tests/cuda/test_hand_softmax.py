"""Softmax, log-softmax and their backward by kernels, run thread by thread beside the formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import softmax
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
CASES = [
    ((1,), 0),
    ((2,), 0),
    ((9,), 0),
    ((1025,), 0),
    ((3000,), 0),
    ((3, 1), 1),
    ((3, 5), 1),
    ((3, 5), 0),
    ((65, 2), 1),
    ((65, 3), 0),
    ((17, 33), 1),
    ((9, 64), 1),
    ((5, 1024), 1),
    ((3, 1500), 1),
    ((1500, 3), 0),
    ((300, 40), 0),
    ((2, 3, 4), 1),
    ((2, 3, 4), 0),
    ((2, 3, 4), 2),
    ((2, 70, 35), 1),
    ((4, 1, 3, 2), 1),
    ((4, 1, 3, 2), 2),
]
CASES += [((1, n), 1) for n in (7, 31, 32, 65, 255, 1023, 1024)]
CASES += [((n, 2), 0) for n in (1, 2, 5, 31, 64, 257)] + [((3, n, 7), 1) for n in (1, 9, 33, 64, 130)]
NAMES = ("softmax", "log_softmax")


def reference(name: str, x: np.ndarray, dim: int) -> np.ndarray:
    """The function in float64."""
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(dim, keepdims=True))
        return (
            e / e.sum(dim, keepdims=True)
            if name == "softmax"
            else x - x.max(dim, keepdims=True) - np.log(e.sum(dim, keepdims=True))
        )


def backward(name: str, g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """Its backward in float64, from its result."""
    if name == "softmax":
        return out * (g - (g * out).sum(dim, keepdims=True))
    return g - np.exp(out) * g.sum(dim, keepdims=True)


def kind(shape: tuple, dim: int) -> str:
    """Which kernel a shape gets."""
    return "rows" if np.prod(shape[dim + 1 :], initial=1) == 1 else "columns"


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward_are_those_of_float64(name: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    for shape, dim in CASES:
        a, g = hand.floats(rng, shape, dtype, -5, 5), hand.floats(rng, shape, dtype)
        x, what = hand.there(a), f"{shape} along {dim}"
        got = hand.in_all_orders(lambda x=x, dim=dim: getattr(functions, name)(x, dim), f"{name}_{kind(shape, dim)}")
        hand.close(got, reference(name, hand.wide(a), dim), dtype, what)
        out = got.get()
        got = hand.in_all_orders(
            lambda g=g, y=got, dim=dim: getattr(functions, f"{name}_vjp")(hand.there(g), y, dim),
            f"{name}_vjp_{kind(shape, dim)}",
        )
        want = backward(name, hand.wide(g), hand.wide(out), dim)
        hand.close(got, want, dtype, what, max(1.0, float(np.abs(want).max())))


def test_rows_of_infinities_and_nan_are_those_of_the_cpu() -> None:
    inf, nan = np.inf, np.nan
    rows = [
        [-inf] * 4,
        [1, -inf, 2, -inf],
        [inf, 1, 2, 3],
        [nan, 1, 2, 3],
        [1, 2, nan, -inf],
        [-inf, -inf, 3, 88],
        [1e38, -1e38, 0, 1],
    ]
    for a in (np.array(rows, np.float32), np.repeat(np.array(rows, np.float64), 20, 1)):
        for name in NAMES:
            want = getattr(ferro, name)(ferro.tensor(a), 1).numpy()
            for x, dim, back in ((a, 1, lambda y: y), (np.ascontiguousarray(a.T), 0, lambda y: y.T)):
                got = getattr(functions, name)(hand.there(x), dim).get()
                np.testing.assert_allclose(back(got), want, rtol=1e-6)


def test_what_kernels_have_not_is_computed_by_the_formula() -> None:
    LAUNCHES.clear()
    assert ferro.softmax(ferro.tensor(3.0).to("cuda"), 0).item() == 1
    assert ferro.softmax(ferro.ones(0, 3).to("cuda"), 1).shape == (0, 3)
    assert not LAUNCHES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", [0, 1])
def test_one_launch_forward_and_one_backward_on_tensors(name: str, dim: int) -> None:
    rng = np.random.default_rng(2)
    a, g = rng.standard_normal((2, 30, 40))
    found = []
    for device in ("cpu", "cuda"):
        x = ferro.tensor(a, device=device, requires_grad=True)
        LAUNCHES.clear()
        getattr(ferro, name)(x, dim).backward(ferro.tensor(g, device=device))
        found.append(x.grad.cpu().numpy())
    assert set(LAUNCHES) == {f"{name}_{kind((30, 40), dim)}", f"{name}_vjp_{kind((30, 40), dim)}"}
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-14)


FAULTS = [
    ("shared[threadIdx.x / 32] = v;\n  __syncthreads();", "shared[threadIdx.x / 32] = v;"),
    ("total = total * exp(top - v)", "total = total"),
    ("v = shared[0];", "v = shared[1];"),
    ("const float v = load(x[at])", "const float v = load(x[at + 1])"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = softmax.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    a = hand.floats(np.random.default_rng(9), (2, 3000), "float32", -5, 5)
    want = reference("softmax", hand.wide(a), 1)
    agrees = []
    for each in (text, wrong):
        found = []
        for seed in hand.SEEDS:
            out = stand_in.there(np.zeros((2, 3000), np.float32))
            x = stand_in.there(np.concatenate([a.reshape(-1), np.full(9, 1, np.float32)]))
            with emulated.in_order(seed):
                emulated.Kernel(each, "softmax_rows")((2,), (256, 1), (*map(np.int64, (2, 3000, 1)), x, out))
            found.append(bool(np.allclose(out.near, want, rtol=2e-6, atol=2e-6 * want.max())))
        agrees.append(all(found))
    assert agrees == [True, False]


def test_sums_of_half_precision_are_taken_in_float() -> None:
    """A row of 3,000 equal numbers: a sum that stops at 2,048 would give another share."""
    x = hand.there(np.zeros((1, 3000), np.float16))
    assert functions.softmax(x, 1).get()[0, 0] == np.float16(1 / 3000)
    (text,) = softmax.texts("float16")
    wrong = text.replace("total += exp(v - top);", "total = load(__float2half(total + exp(v - top)));")
    assert wrong != text
    out = stand_in.there(np.zeros((1, 3000), np.float16))
    emulated.Kernel(wrong, "softmax_rows")((1,), (1, 256), (*map(np.int64, (1, 3000, 1)), x, out))
    assert abs(float(out.near[0, 0]) * 3000 - 1) > 0.3
