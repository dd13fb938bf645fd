"""Small arrays: kernels where there are some and NumPy give the same numbers, and nothing is compiled for them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ferro import cpu
from ferro.cpu import convolution, rows, small_convolution
from ferro.cpu.kernels import common
from ferro.native import readiness

DTYPES = (np.float32, np.float64)
NEEDS = [(True, True, True), (True, False, False), (False, True, True), (False, False, True)]


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on NumPy answers for small arrays."""
    ready = readiness.ready
    monkeypatch.setattr(common, "ready", lambda names, dtype, ask=True: ask and ready(names, dtype))


def same(found: Any, wanted: Any, dtype: Any) -> None:
    """Arrays, or tuples of them, up to rounding."""
    found, wanted = [v if isinstance(v, tuple) else (v,) for v in (found, wanted)]
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            tolerance = 2e-5 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- softmax -----------------------------------------------------------------------------------------------------------


def reference(x: np.ndarray, dim: int) -> np.ndarray:
    """softmax in extended precision."""
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        e = np.exp(wide - wide.max(dim, keepdims=True))
        return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5,), (3, 40), (2, 3, 4), (1, 7), (6, 1)])
def test_softmax_of_small_arrays(
    shape: tuple, dtype: Any, kernels: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels:
        without_kernels(monkeypatch)
    g = rng.standard_normal(shape).astype(dtype)
    for scale in (0.1, 5, 40, 300, 1e30):
        x = (rng.standard_normal(shape) * scale).astype(dtype)
        for y in (x, np.asfortranarray(x), x[::-1]):
            for dim in range(y.ndim):
                p = reference(y, dim)
                with np.errstate(all="ignore"):
                    out, log_out = cpu.softmax(y, dim), cpu.log_softmax(y, dim)
                assert out.dtype == log_out.dtype == dtype
                near = 1e-6 if dtype == np.float32 else 1e-14
                np.testing.assert_allclose(out, p.astype(dtype), rtol=20 * near, atol=near * 1e-30)
                below = y.astype(np.longdouble) - y.max(dim, keepdims=True)
                logarithm = below - np.log(np.exp(below).sum(dim, keepdims=True))
                np.testing.assert_allclose(log_out, logarithm.astype(dtype), rtol=20 * near, atol=2 * near)
                by_p = (p * (g - (g * p).sum(dim, keepdims=True))).astype(dtype)
                np.testing.assert_allclose(cpu.softmax_vjp(g, out, dim), by_p, rtol=0, atol=10 * near)
                by_log = (g - p * g.sum(dim, keepdims=True)).astype(dtype)
                np.testing.assert_allclose(cpu.log_softmax_vjp(g, log_out, dim), by_log, rtol=0, atol=30 * near)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row(odd: float, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        without_kernels(monkeypatch)
    x = np.array([[odd, 1.0, 2.0], [0.0, 1.0, 2.0], [-np.inf] * 3], np.float32)
    with np.errstate(all="ignore"):
        out, log_out = cpu.softmax(x, 1), cpu.log_softmax(x, 1)
        p = reference(x, 1)
    np.testing.assert_allclose(out, p.astype(np.float32), rtol=1e-6)
    np.testing.assert_allclose(np.exp(log_out), p.astype(np.float32), rtol=1e-6)


# -- normalisation and losses --------------------------------------------------------------------------------------------


def both_ways(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What kernels give, and what NumPy gives."""
    by_kernel = function()
    with monkeypatch.context() as patch:
        without_kernels(patch)
        return by_kernel, function()


@pytest.mark.parametrize("constant", [1.0, 1000.0, 0.1])
@pytest.mark.parametrize("n", [3, 10, 40])
def test_the_layer_norm_of_equal_numbers_is_zero_without_kernels(
    n: int, constant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_kernels(monkeypatch)
    out = cpu.layer_norm(np.full((2, n), constant, np.float32), None, None, 1, 1e-5)[0]
    np.testing.assert_allclose(out, 0, atol=2e-2 if constant == 1000.0 else 1e-4)


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (40, 3), (3, 5, 7), (2, 3, 2, 2), (4, 2, 40), (0, 3), (2, 3, 0)])
def test_batch_norm_by_kernel_and_by_numpy(
    shape: tuple,
    dtype: Any,
    affine: bool,
    training: bool,
    needs: tuple,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, g = rng.standard_normal((2, *shape)).astype(dtype)
    w, b = rng.standard_normal((2, shape[1])).astype(dtype) if affine else (None, None)
    running = rng.uniform(0.5, 2, (2, shape[1])).astype(dtype)

    def forward_and_back() -> tuple:
        with np.errstate(all="ignore"):
            out, mean, var = cpu.batch_norm(x, w, b, running[0], running[1], training, 1e-5)
            return out, mean, var, *cpu.batch_norm_vjp(g, x, w, mean, var, training, 1e-5, needs)

    same(*both_ways(forward_and_back, monkeypatch), dtype)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ignored", [False, True])
def test_cross_entropy_by_kernel_and_by_numpy(
    ignored: bool,
    dtype: Any,
    reduction: str,
    smoothing: float,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = (rng.standard_normal((6, 5)) * 10).astype(dtype)
    target = rng.integers(0, 5, 6)
    if ignored:
        target[2], x[2, 0] = -100, np.nan
    g = rng.standard_normal(6 if reduction == "none" else ()).astype(dtype)

    def forward_and_back() -> tuple:
        loss, kept = cpu.cross_entropy(x, target, None, -100, reduction, smoothing)
        return loss, cpu.cross_entropy_vjp(np.asarray(g), x, target, None, -100, reduction, smoothing, kept)

    same(*both_ways(forward_and_back, monkeypatch), dtype)


@pytest.mark.parametrize("wrong", [-1, 5, -(2**40)])
@pytest.mark.parametrize("kernels", [True, False])
def test_class_indices_out_of_bounds_are_refused(kernels: bool, wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        without_kernels(monkeypatch)
    target = np.array([0, 1, wrong])
    with pytest.raises(IndexError, match=f"{wrong} is out of bounds"):
        cpu.cross_entropy(np.zeros((3, 5), np.float32), target, None, -100, "mean", 0.0)
    with pytest.raises(IndexError, match=f"out of range: {wrong}"):
        cpu.take_rows(np.zeros((5, 2)), target)


# -- sums as products --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (1, 16), (3, 17), (100, 40), (40, 100), (0, 3), (3, 0), (3, 1)])
def test_sums_of_rows_and_columns(shape: tuple, rng: np.random.Generator) -> None:
    for x in (rng.standard_normal(shape), np.asfortranarray(rng.standard_normal(shape))):
        np.testing.assert_allclose(
            rows.row_sums(x) + np.zeros(shape), x.sum(1, keepdims=True) + np.zeros(shape), atol=1e-12
        )
        np.testing.assert_allclose(rows.column_sums(x), x.sum(0), atol=1e-12)


def test_constants_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        rows.ones(3, np.dtype(np.float32))[0] = 2


# -- convolutions ------------------------------------------------------------------------------------------------------

GEOMETRIES = [
    ((5, 4), (3, 2), (1, 1), (0, 0), (1, 1)),
    ((5, 6), (3, 3), (2, 1), (1, 2), (1, 1)),
    ((7, 7), (2, 3), (2, 3), (1, 0), (2, 2)),
    ((4, 4), (1, 1), (2, 2), (0, 0), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (3, 3), (1, 1)),  # more zeros around than the kernel reaches
    ((6,), (3,), (2,), (2,), (1,)),
    ((3, 4, 3), (2, 2, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
@pytest.mark.parametrize("images", [1, 3, 0])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_small_convolutions_equal_the_general_form(
    geometry: tuple, images: int, dtype: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, kernel, stride, pad, dilation = geometry
    out = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(*geometry, strict=True)])

    def numbers(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 4 + (1j if dtype == np.complex128 else 0)).astype(dtype)

    x, w, b, y, c = numbers(images, 2, *size), numbers(3, 2, *kernel), numbers(3), numbers(images, 3, *out), numbers(2)
    shape = (stride, pad, dilation)
    turned = [np.asfortranarray(a) for a in (x, w, y)]
    for v, u, z in ((x, w, y), turned):
        found = [
            convolution.conv(v, u, b, out, *shape, 1),
            convolution.conv_input(z, u, c, size, *shape, 1),
            convolution.conv_weight(v, z, kernel, *shape, 1),
        ]
        with monkeypatch.context() as patch:
            patch.setattr(convolution, "_is_small", lambda *_: False)
            patch.setattr(convolution, "CONV_LEAST", 1 << 60)
            wanted = [
                convolution.conv(v, u, b, out, *shape, 1),
                convolution.conv_input(z, u, c, size, *shape, 1),
                convolution.conv_weight(v, z, kernel, *shape, 1),
            ]
        for a, right in zip(found, wanted, strict=True):
            assert a.dtype == right.dtype
            assert a.shape == right.shape
            np.testing.assert_allclose(a, right, rtol=1e-5, atol=1e-4 if dtype == np.float32 else 1e-10)


def test_a_gradient_by_images_that_needs_cropping_is_left_to_others() -> None:
    y, w = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 2, 2), np.float32)
    assert small_convolution.conv_input(y, w, None, (3, 3), (1, 1), (3, 3), (1, 1)) is None


# -- which kernels -----------------------------------------------------------------------------------------------------


def test_kernels_are_at_hand_for_real_floats_and_not_where_they_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in (np.float16, ">f4", np.int64, np.complex64):
        assert not common.has_kernel(np.zeros(3, dtype), "softmax", small=True)
    monkeypatch.setattr(readiness, "MODE", "off")
    monkeypatch.setattr(readiness, "_chosen", {})
    assert not common.has_kernel(np.zeros(3, np.float32), "softmax", small=True)


def test_small_tensors_neither_import_numba_nor_order_kernels() -> None:
    code = """
import sys
import ferro
from ferro.native import readiness
F = ferro.nn.functional
x, w = ferro.rand(4, 4, requires_grad=True), ferro.nn.Parameter(ferro.rand(4))
h = F.batch_norm(F.layer_norm(x, (4,), w, w), None, None, w, w, training=True).softmax(1)
loss = F.cross_entropy(h.log_softmax(1), ferro.tensor([0, 1, 2, 3])) + F.mse_loss(h, x.detach())
loss.backward()
ferro.optim.SGD([w], lr=0.1, momentum=0.9).step()
ferro.optim.Adam([w]).step()
print("numba" in sys.modules, len(readiness._requests))
"""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FERRO_CACHE_DIR": folder, "FERRO_KERNELS": ""}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "0"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (64, 10), (3, 40, 7), (1000, 33), (2, 3, 0), (20000, 2), (1, 4)])
def test_sums_over_leading_dimensions(shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    g = rng.standard_normal(shape).astype(dtype)
    for x in (g, np.asfortranarray(g)):
        total = cpu.leading_sum(x)
        wanted = x.astype(np.float64).sum(tuple(range(x.ndim - 1)))
        np.testing.assert_allclose(total, wanted, rtol=0, atol=1e-3 if dtype == np.float32 else 1e-10)
        assert total.dtype == dtype
    wide = g.astype(np.complex64)
    np.testing.assert_allclose(cpu.leading_sum(wide), wide.sum(tuple(range(g.ndim - 1))), rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 4), (64, 6, 8, 8), (3, 1, 2, 2, 2), (2, 3, 20, 20), (0, 3, 2), (2, 3, 0)])
def test_sums_over_all_but_channels(shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    g = rng.standard_normal(shape).astype(dtype)
    for x in (g, np.asfortranarray(g)):
        total = cpu.channel_sum(x)
        wanted = x.astype(np.float64).sum((0, *range(2, x.ndim)))
        np.testing.assert_allclose(total, wanted, rtol=0, atol=1e-3 if dtype == np.float32 else 1e-10)
        assert total.dtype == dtype
