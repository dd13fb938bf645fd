"""Kernels of convolution and pooling where tiles, paddings, infinities and the compiler matter; the rest is in test_kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pytest

from ferro.cpu import pooling
from ferro.cpu.kernels import conv


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
]


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


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_stay_where_they_belong(bad: float, torch: Any, rng: np.random.Generator) -> None:
    options = ((1, 1), (0, 0), (1, 1), 1)
    x, w = rng.standard_normal((4, 3, 32, 30)), rng.standard_normal((4, 3, 3, 3))
    x[1, 2, 0, 0] = bad  # seen by one tap only
    *expected, g = against_torch(torch, x, w, options)
    found = (
        conv.conv(x, w, None, *options),
        conv.conv_dx(g, w, x.shape, *options),
        conv.conv_dw(g, x, w.shape, *options),
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
    np.testing.assert_allclose(pooling.avg_pool(x, *geometry), out.detach().numpy(), rtol=1e-12, atol=1e-12)
    back = pooling.avg_spread(g, (33, 40), kernel, stride, pad, tuple(counts))
    np.testing.assert_allclose(back, t.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_the_first_convolution_does_not_wait_for_the_compiler() -> None:
    code = """
import numpy as np
from ferro.cpu import convolution
from ferro.cpu.kernels import background
background.PATIENCE = 0.0
x, w = np.ones((8, 4, 32, 32), np.float32), np.ones((8, 4, 3, 3), np.float32)
options = (32, 32), (1, 1), (1, 1), (1, 1), 1
first = convolution.conv(x, w, None, *options)
print(any(made.is_set() for made in background._made.values()))
background.finish()
print(all(made.is_set() for made in background._made.values()))
print(np.array_equal(first, convolution.conv(x, w, None, *options)))
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "True"]
