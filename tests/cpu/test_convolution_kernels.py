"""Kernels of convolution and pooling where tiles, paddings, infinities and the compiler matter; the rest is in test_kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pytest

from ferro.cpu import convolution, mean_pooling
from ferro.cpu.kernels import conv, winograd
from ferro.native import threads


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


CASES = [  # x, w, stride, padding, dilation, groups
    ((5, 3, 8, 8), (21, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # zeros shared by rows, planes and images
    ((2, 3, 130, 140), (7, 3, 5, 5), (2, 1), (2, 4), (1, 1), 1),  # padding as wide as the window reaches
    ((3, 2, 40, 30), (4, 2, 3, 3), (3, 2), (5, 7), (2, 1), 1),  # windows that see nothing but padding
    ((1, 16, 300, 300), (8, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # one image in several tiles
    ((1, 2, 30000), (5, 2, 9), (1,), (4,), (1,), 1),  # one row in several tiles
    ((3, 40, 60, 60), (48, 40, 1, 1), (1, 1), (0, 0), (1, 1), 1),  # a product of matrices
    ((2, 40, 100, 60), (48, 20, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((2, 6, 40, 41), (12, 1, 4, 3), (2, 3), (1, 0), (1, 2), 6),  # two results of each channel
    ((2, 600, 9, 9), (5, 600, 1, 1), (3, 3), (0, 0), (1, 1), 1),  # places that no window sees
    ((2, 4, 12, 20, 20), (9, 4, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((8, 24, 30, 31), (20, 24, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # minimal products
    ((2, 32, 90, 75), (33, 32, 3, 3), (1, 1), (0, 2), (1, 1), 1),  # in several tiles, the last of which is not whole
    ((40, 64, 7, 7), (48, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # of images narrower than a piece
    ((1, 64, 66, 67), (64, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # a row of results is left over
    ((6, 32, 15, 15), (32, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 20, 31, 33), (18, 20, 3, 3), (2, 2), (1, 1), (1, 1), 1),  # channels along registers
    ((2, 16, 21, 20), (9, 16, 5, 4), (1, 3), (2, 0), (2, 1), 1),
    ((1, 40, 9000), (16, 40, 5), (1,), (2,), (1,), 1),  # parts of a row
    ((4, 17, 3, 4), (160, 17, 2, 2), (1, 1), (0, 0), (1, 1), 1),  # fewer places than a register has numbers
    ((3, 24, 23, 21), (36, 12, 1, 1), (1, 1), (0, 0), (1, 1), 2),  # matrices of images, rows and places left over
    ((64, 30, 4, 5), (50, 30, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 130, 13, 17), (41, 130, 1, 1), (1, 1), (0, 0), (1, 1), 1),  # of many channels
    ((1, 140, 60, 61), (9, 140, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 8, 40, 37), (10, 8, 4, 4), (2, 2), (1, 1), (1, 1), 1),  # places by turns, one left over
    ((8, 12, 25, 24), (12, 1, 5, 5), (2, 2), (2, 2), (1, 1), 12),
]
MINIMAL = [case for case in CASES if case[1][2:] == (3, 3) and case[0][1] > 16 and case[2] == (1, 1)]


def against_torch(torch: Any, x: np.ndarray, w: np.ndarray, options: tuple, g: np.ndarray | None = None) -> list:
    """(result, gradient by x, gradient by w) in torch, and the cotangent."""
    tx, tw = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w).requires_grad_()
    out = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")(tx, tw, None, *options)
    g = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(x.dtype) if g is None else g
    out.backward(torch.from_numpy(g))
    return [out.detach().numpy(), tx.grad.numpy(), tw.grad.numpy(), g]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(case: tuple, torch: Any, rng: np.random.Generator) -> None:
    x, w = rng.standard_normal(case[0]), rng.standard_normal(case[1])
    options = case[2:]
    *expected, g = against_torch(torch, x, w, options)
    found = (
        conv.conv(x, w, None, *options),
        conv.conv_dx(g, w, x.shape, *options),
        conv.conv_dw(g, x, w.shape, *options),
    )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10 * abs(two).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_single_precision_rounds_as_little_as_torch(case: tuple, torch: Any, rng: np.random.Generator) -> None:
    x, w = rng.standard_normal(case[0]), rng.standard_normal(case[1])
    x32, w32, options = x.astype(np.float32), w.astype(np.float32), case[2:]
    *expected, g = against_torch(torch, x32.astype(float), w32.astype(float), options)
    g32 = g.astype(np.float32)
    expected = against_torch(torch, x32.astype(float), w32.astype(float), options, g32.astype(float))[:3]
    theirs = against_torch(torch, x32, w32, options, g32)[:3]
    found = (
        conv.conv(x32, w32, None, *options),
        conv.conv_dx(g32, w32, x.shape, *options),
        conv.conv_dw(g32, x32, w.shape, *options),
    )
    for one, two, three in zip(found, expected, theirs, strict=True):
        assert one.dtype == np.float32
        scale = abs(two).max()
        assert abs(one - two).max() < max(2e-6 * scale, 2 * abs(three - two).max())


@pytest.mark.parametrize("case", MINIMAL, ids=str)
def test_minimal_products_are_what_is_meant(case: tuple) -> None:
    batch, channels, height, width = case[0]
    outputs, (down, across) = case[1][0], case[3]
    size = height + 2 * down - 2, width + 2 * across - 2
    assert winograd.pays(batch, channels, outputs, *size)
    assert winograd.pays_by_taps(batch, channels, outputs, *size)


@pytest.mark.parametrize("case", MINIMAL[:2], ids=str)
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinities_reach_no_other_result_by_minimal_products(
    bad: float, case: tuple, torch: Any, rng: np.random.Generator
) -> None:
    x, w, options = rng.standard_normal(case[0]), rng.standard_normal(case[1]) / 100, case[2:]
    x[0, 0, 4, 5] = bad
    *expected, g = against_torch(torch, x, w, options)
    g[-1, 1, 2, 3] = bad
    expected[1:] = against_torch(torch, x, w, options, g)[1:3]
    with np.errstate(all="ignore"):
        found = (
            conv.conv(x, w, None, *options),
            conv.conv_dx(g, w, x.shape, *options),
            convolution.conv_weight(x, g, w.shape[2:], *options),
        )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(two))
        np.testing.assert_array_equal(np.isinf(one), np.isinf(two))
        finite = np.isfinite(two)
        np.testing.assert_allclose(one[finite], two[finite], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_any_number_of_threads_computes_the_same_bits(case: tuple, rng: np.random.Generator) -> None:
    x, w = rng.standard_normal(case[0]).astype(np.float32), rng.standard_normal(case[1]).astype(np.float32)
    before, found = threads.get_num_threads(), []
    try:
        for count in (1, 3):
            threads.set_num_threads(count)
            y = conv.conv(x, w, w.reshape(len(w), -1)[:, 0], *case[2:])
            found.append((y, conv.conv_dx(y, w, x.shape, *case[2:]), conv.conv_dw(y, x, w.shape, *case[2:])))
    finally:
        threads.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_stay_where_they_belong(bad: float, torch: Any, rng: np.random.Generator) -> None:
    options = ((1, 1), (0, 0), (1, 1), 1)
    x, w = rng.standard_normal((4, 3, 32, 30)), rng.standard_normal((4, 3, 3, 3))
    x[1, 2, 0, 0] = bad  # seen by one tap only
    *expected, g = against_torch(torch, x, w, options)
    found = (
        conv.conv(x, w, None, *options),
        conv.conv_dx(g, w, x.shape, *options),
        convolution.conv_weight(x, g, w.shape[2:], *options),
    )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_arrays_that_may_not_be_written_to_are_read(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((2, 3, 40, 40)), rng.standard_normal((4, 3, 3, 3))
    options = ((1, 1), (1, 1), (1, 1), 1)
    expected = conv.conv(x, w, w[:, 0, 0, 0], *options)
    x.flags.writeable = w.flags.writeable = False
    np.testing.assert_array_equal(conv.conv(x, w, w[:, 0, 0, 0], *options), expected)
    flipped = x[:, :, ::-1, ::-1][:, :, ::-1, ::-1]
    np.testing.assert_array_equal(conv.conv(flipped, w, w[:, 0, 0, 0], *options), expected)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 2), (1, 4)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("pad", [(0, 0), (0, 1)])
def test_average_pooling(kernel: tuple, stride: tuple, pad: tuple, torch: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 5, 33, 40))
    t = torch.from_numpy(x).requires_grad_()
    out = torch.nn.functional.avg_pool2d(t, kernel, stride, pad, count_include_pad=False)
    g = rng.standard_normal(tuple(out.shape))
    out.backward(torch.from_numpy(g))
    size = tuple(out.shape[2:])
    counts = []
    for n, k, o, s, p in zip((33, 40), kernel, size, stride, pad, strict=True):
        counts.append(tuple([min(i * s - p + k, n) - max(i * s - p, 0) for i in range(o)]))
    geometry = kernel, size, stride, pad, tuple(counts)
    np.testing.assert_allclose(mean_pooling.avg_pool(x, *geometry), out.detach().numpy(), rtol=1e-12, atol=1e-12)
    back = mean_pooling.avg_spread(g, (33, 40), kernel, stride, pad, tuple(counts))
    np.testing.assert_allclose(back, t.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_the_first_convolution_does_not_wait_for_the_compiler() -> None:
    code = """
import numpy as np
from ferro.cpu import convolution
from ferro.cpu.kernels import conv
from ferro.native import readiness
x, w = np.ones((8, 4, 32, 32), np.float32), np.ones((8, 4, 3, 3), np.float32)
options = (32, 32), (1, 1), (1, 1), (1, 1), 1
first = convolution.conv(x, w, None, *options)
print(any(request.is_set() for request in readiness._requests.values()))
readiness.finish()
print(all(request.is_set() for (name, _), request in readiness._requests.items() if name))
print(np.array_equal(first, convolution.conv(x, w, None, *options)))
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "FERRO_CACHE_DIR": folder, "FERRO_KERNELS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "True"]
