"""Convolutions and their gradients as implicit products, run thread by thread beside sums over windows in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import convolution
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.by_hand.texts import MMA, text_of
from ferro.cuda.functions import functions
from ferro.nn import functional as F
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Images, channels, results, size, window, stride, padding, dilation, groups.
CASES: list[tuple] = [(1, 1, 1, (1,), (1,), (1,), (0,), (1,), 1), (2, 3, 9, (7,), (3,), (1,), (1,), (1,), 1)]
CASES += [(1, 8, 16, (20,), (5,), (3,), (2,), (2,), 2), (1, 1, 8, (3, 3), (3, 3), (1, 1), (0, 0), (1, 1), 1)]
CASES += [(2, 3, 8, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1)]
CASES += [(1, 16, 64, (8, 8), (1, 1), (1, 1), (0, 0), (1, 1), 1)]
CASES += [(1, 4, 65, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1), 1)]
CASES += [(3, 5, 10, (6, 7), (2, 3), (2, 1), (0, 2), (1, 2), 1)]
CASES += [(1, 8, 8, (10, 10), (3, 3), (1, 1), (1, 1), (1, 1), 8)]
CASES += [(2, 6, 6, (5, 5), (3, 3), (2, 2), (1, 1), (1, 1), 3)]
CASES += [(1, 32, 16, (5, 4), (3, 3), (1, 1), (1, 1), (1, 1), 2)]
CASES += [(1, 2, 12, (4, 5, 6), (2, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1)]
CASES += [(2, 3, 8, (3, 4, 5), (3, 1, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2), 1)]
CASES += [(1, 7, 33, (11, 3), (4, 3), (3, 2), (2, 1), (1, 1), 1), (1, 1, 9, (40,), (7,), (1,), (3,), (1,), 1)]
CASES += [(5, 4, 4, (2, 2), (2, 2), (1, 1), (1, 1), (1, 1), 1), (1, 9, 70, (6, 6), (3, 3), (1, 1), (2, 2), (2, 2), 1)]
CASES += [(2, 12, 24, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 3)]
CASES += [(1, 3, 16, (16, 16), (7, 7), (2, 2), (3, 3), (1, 1), 1)]
CASES += [(1, 10, 8, (3, 3), (5, 5), (1, 1), (2, 2), (1, 1), 1), (4, 8, 8, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1)]
CASES += [(1, 8, 17, (12,), (12,), (1,), (0,), (1,), 1)]
# Groups of many and of few channels, on either side.
CASES += [
    (n, channels, results, (size,), (window,), (1,), (pad,), (1,), 1)
    for channels, results in ((8, 8), (9, 1), (1, 9), (3, 2))
    for n, size, window, pad in ((1, 3, 2, 0), (2, 9, 3, 1), (3, 6, 1, 0), (1, 33, 4, 2))
]
CASES += [(1, 16, 16, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 2), (2, 8, 9, (3, 5), (2, 3), (1, 2), (1, 1), (1, 1), 1)]
CASES += [(n, 12, 3, (n + 3,), (2,), (2,), (1,), (1,), 1) for n in (1, 2, 3, 4, 5)]
CASES += [(n, 10, 1, (5, n + 2), (2, 2), (1, 1), (0, 1), (1, 1), 1) for n in (1, 2, 3, 4, 5)]
TOLERANCE = {"float32": 4e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}


def places(case: tuple) -> tuple:
    """The spatial shape of a result."""
    size, window, stride, pad, dilation = case[3:8]
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, window, stride, pad, dilation, strict=True)
    )


def reference(x: np.ndarray, w: np.ndarray, y: np.ndarray, case: tuple) -> tuple:
    """conv(x, w), and for a cotangent y the gradients by x and w: sums over the elements of a window, in float64."""
    stride, pad, dilation, groups = case[5:]
    out = places(case)
    wide = np.zeros((*x.shape[:2], *[n + 2 * p for n, p in zip(x.shape[2:], pad, strict=True)]))
    inside = (slice(None), slice(None), *[slice(p, p + n) for n, p in zip(x.shape[2:], pad, strict=True)])
    wide[inside] = x
    found, dx, dw = np.zeros((x.shape[0], w.shape[0], *out)), np.zeros_like(wide), np.zeros_like(w)
    c, o = x.shape[1] // groups, w.shape[0] // groups
    for tap in itertools.product(*[range(k) for k in w.shape[2:]]):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, out, stride, strict=True)
        )
        for g in range(groups):
            ins, outs = (slice(None), slice(g * c, g * c + c)), (slice(None), slice(g * o, g * o + o))
            kernel = w[(outs[1], slice(None), *tap)]
            found[outs] += np.einsum("oc,nc...->no...", kernel, wide[(*ins, *where)])
            dx[(*ins, *where)] += np.einsum("oc,no...->nc...", kernel, y[outs])
            dw[(outs[1], slice(None), *tap)] += np.einsum(
                "noz,ncz->oc", y[outs].reshape(len(y), o, -1), wide[(*ins, *where)].reshape(len(y), c, -1)
            )
    return found, dx[inside], dw


def close(got: Any, want: np.ndarray, dtype: str, what: str) -> None:
    """Numbers near those of float64, relative to the largest."""
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    assert got.shape == want.shape, what
    np.testing.assert_allclose(hand.wide(got), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale, err_msg=what)


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_convolutions_and_both_gradients(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for case in CASES:
        n, channels, results, size, window, *how = case
        groups, out = how[-1], places(case)
        x, w = (
            hand.floats(rng, (n, channels, *size), dtype),
            hand.floats(rng, (results, channels // groups, *window), dtype),
        )
        b, y = hand.floats(rng, (results,), dtype), hand.floats(rng, (n, results, *out), dtype)
        want = reference(hand.wide(x), hand.wide(w), hand.wide(y), case)
        far_x, far_w, far_b, far_y = map(hand.there, (x, w, b, y))
        single = "_single" if results // groups < convolution.FEW else ""
        got = hand.in_all_orders(lambda a=(far_x, far_w, far_b, out, *how): functions.conv(*a), f"conv_forward{single}")
        bias = hand.wide(b).reshape(-1, *[1] * len(size))
        close(got, want[0] + bias, dtype, f"{case} forward")
        single = "_single" if channels // groups < convolution.FEW else ""
        got = hand.in_all_orders(
            lambda a=(far_y, far_w, None, size, *how): functions.conv_input(*a), f"conv_to_input{single}"
        )
        close(got, want[1], dtype, f"{case} to the input")
        if results // groups >= convolution.FEW:
            LAUNCHES.clear()
            found = []
            for seed in hand.SEEDS:
                with emulated.in_order(seed):
                    found.append(functions.conv_weight(far_x, far_y, window, *how))
            assert LAUNCHES["conv_to_weight"] == len(hand.SEEDS)
            assert len({f.get().tobytes() for f in found}) == 1
            close(found[0], want[2], dtype, f"{case} to the weight")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_long_sum_is_shared_by_blocks_in_a_fixed_order(dtype: str) -> None:
    rng = np.random.default_rng(2)
    case = (4, 3, 8, (24, 24), (3, 3), (1, 1), (1, 1), (1, 1), 1)
    x, y = hand.floats(rng, (4, 3, 24, 24), dtype), hand.floats(rng, (4, 8, 24, 24), dtype)
    want = reference(hand.wide(x), np.zeros((8, 3, 3, 3)), hand.wide(y), case)[2]
    found = []
    for seed in hand.SEEDS:
        LAUNCHES.clear()
        with emulated.in_order(seed):
            found.append(functions.conv_weight(hand.there(x), hand.there(y), (3, 3), (1, 1), (1, 1), (1, 1), 1))
        assert LAUNCHES.total() == 2
    assert len({f.get().tobytes() for f in found}) == 1
    close(found[0], want, dtype, "parts")


def test_layers_on_tensors_take_three_launches_and_a_few(torch: Any) -> None:
    rng = np.random.default_rng(3)
    x, w, b = rng.standard_normal((2, 4, 9, 8)), rng.standard_normal((8, 4, 3, 3)), rng.standard_normal(8)
    found = []
    for library, device in ((torch, "cpu"), (ferro, "cuda")):
        a, k, c = (library.tensor(v, device=device, requires_grad=True) for v in (x, w, b))
        LAUNCHES.clear()
        fn = library.nn.functional
        out = fn.conv2d(a, k, c, stride=2, padding=1)
        back = fn.conv_transpose2d(out, k, stride=2, padding=1, output_padding=(0, 1))
        (out * out).sum().backward(retain_graph=True)
        (back * back).sum().backward()
        found.append([t.detach().cpu().numpy() for t in (out, back, a.grad, k.grad, c.grad)])
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    assert {name.removesuffix("_single") for name in LAUNCHES if name.startswith("conv")} == {
        "conv_forward",
        "conv_to_input",
        "conv_to_weight",
    }


@pytest.mark.parametrize("dtype", MMA)
def test_the_emulated_mma_multiplies_matrices(dtype: str) -> None:
    """Fragments are loaded here from matrices as PTX's tables say, apart from the kernels' own way."""
    text = text_of(
        MMA[dtype]
        + """
KERNEL product(const S* a, const S* b, float* d) {
  union { S s[2]; unsigned u; } pair;
  unsigned of_a[4], of_b[2];
  float sums[4] = {1, 1, 1, 1};
  const int group = threadIdx.x >> 2, inside = threadIdx.x % 4;
  for (int i = 0; i < 8; i += 2) {
    for (int j = 0; j < 2; ++j) {
      const int row = (i + j < 2) || (i + j >= 4 && i + j < 6) ? group : group + 8;
      const int column = inside * 2 + ((i + j) & 1) + (i + j >= 4 ? 8 : 0);
      pair.s[j] = a[row * 16 + column];
    }
    of_a[i / 2] = pair.u;
  }
  for (int i = 0; i < 4; i += 2) {
    for (int j = 0; j < 2; ++j) pair.s[j] = b[(inside * 2 + j + (i >= 2 ? 8 : 0)) * 8 + group];
    of_b[i / 2] = pair.u;
  }
  mma(sums, of_a, of_b);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + inside * 2 + (i & 1)] = sums[i];
}
""",
        dtype,
    )
    rng = np.random.default_rng(4)
    a, b = hand.floats(rng, (16, 16), dtype), hand.floats(rng, (16, 8), dtype)
    out = stand_in.there(np.zeros((16, 8), np.float32))
    emulated.Kernel(text, "product")((1,), (32,), (stand_in.there(a), stand_in.there(b), out))
    np.testing.assert_allclose(out.near, 1 + hand.wide(a) @ hand.wide(b), rtol=1e-5, atol=1e-5)


FAULTS = [
    (
        "float32",
        "    __syncthreads();\n#pragma unroll\n    for (int k = 0; k < 16",
        "#pragma unroll\n    for (int k = 0; k < 16",
    ),
    ("float32", "a[k][up + i] * b[k][side + j]", "a[k][up + i] * b[k][side]"),
    ("float32", "* s.step_y - s.pad_y", "* s.step_y"),
    ("float16", "at + i / 2 * 8]", "at + i % 2 * 8]"),
    ("float16", "b[side + 8 * j + lane / 4][at + 8 * i]", "b[side + 8 * j + lane % 8][at + 8 * i]"),
    ("float16", "lane / 4 + i / 2 * 8, left", "lane / 4 + i % 2 * 8, left"),
]


@pytest.mark.parametrize(("dtype", "before", "after"), FAULTS)
def test_planted_faults_are_found(dtype: str, before: str, after: str) -> None:
    text = convolution._text(dtype)
    wrong = hand.planted(text, (before, after), [each[1:] for each in FAULTS if each[0] == dtype])
    rng = np.random.default_rng(5)
    case = (1, 5, 20, (7, 6), (3, 3), (2, 1), (1, 1), (1, 1), 1)
    x, w = hand.floats(rng, (1, 5, 7, 6), dtype), hand.floats(rng, (20, 5, 3, 3), dtype)
    out = places(case)
    want = reference(hand.wide(x), hand.wide(w), np.zeros((1, 20, *out)), case)[0]
    agrees = []
    for each in (text, wrong):
        fine = True
        for seed in hand.SEEDS:
            y = stand_in.there(np.zeros((1, 20, *out), x.dtype))
            table = convolution._table(5, (1, 3, 3), (1, 7, 6), (1, 1, 1))
            columns = out[0] * out[1]
            numbers = (20, columns, 45, 45, 1, 9, 42, columns, 1, 7, 6, *out, 1, 2, 1, 0, 1, 1)
            given = (
                *map(np.int64, numbers),
                table,
                stand_in.there(x),
                stand_in.there(w),
                stand_in.there(np.zeros(0, x.dtype)),
                y,
            )
            with emulated.in_order(seed):
                emulated.Kernel(each, "conv_forward")((1, 1, 1), (256,), given)
            fine &= bool(np.allclose(y.near.astype(np.float64), want, rtol=0.01, atol=0.02))
        agrees.append(fine)
    assert agrees == [True, False]


def test_empty_and_huge_arguments_go_to_the_formula() -> None:
    x, w = ferro.zeros(0, 3, 5, 5, device="cuda"), ferro.ones(8, 3, 3, 3, device="cuda")
    LAUNCHES.clear()
    assert F.conv2d(x, w).shape == (0, 8, 3, 3)
    z = ferro.ones(1, 3, 5, 5, dtype=ferro.complex64, device="cuda")
    assert F.conv2d(z, w.to(ferro.complex64))[0, 0, 0, 0].item() == 27
    assert not LAUNCHES
