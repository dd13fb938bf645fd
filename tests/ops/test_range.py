"""Numbers at the ends of the range: activations far out, and means, spreads and norms whose squares leave the range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F

INF, NAN = math.inf, math.nan
SIZES = [5, 5000, 200_000]  # small arrays, large ones, and those whose sums have kernels
SCALES = {
    "float32": [1e-34, 1e-30, 1e-25, 1e-15, 1.0, 1e15, 1e19, 1e20, 1e30, 1e36],
    "float64": [1e-300, 1e-200, 1e-160, 1e-100, 1.0, 1e100, 1e154, 1e200, 1e300],
    "bfloat16": [1e-33, 1e-25, 1.0, 1e20, 1e36],
}
TOLERANCE = {"float32": 1e-5, "float64": 1e-10, "bfloat16": 2e-2}


# -- activations -------------------------------------------------------------------------------------------------------

_SMOOTH: dict[str, Callable] = {
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


def _slopes(function: Callable, values: list, dtype: Any, size: int, recorded: bool) -> list:
    x = ferro.tensor((values * size)[: max(size, len(values))], dtype=dtype, requires_grad=True)
    y = function(x)
    (g,) = ferro.autograd.grad(y, x, ferro.ones_like(y), create_graph=recorded)
    return g.detach().to(ferro.float64).tolist()[: len(values)]


@pytest.mark.parametrize("size", [1, 600, 5000])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", _SMOOTH)
@pytest.mark.parametrize("dtype", [ferro.float16, ferro.bfloat16, ferro.float32, ferro.float64])
def test_the_slope_of_an_activation_far_out_is_its_limit(dtype: Any, name: str, recorded: bool, size: int) -> None:
    largest = ferro.finfo(dtype).max
    far = [v for v in (1e3, 1e4, 1e10, 1e16, 1e30, 1e38, 1e100, 1e300) if v <= largest] + [largest, INF]
    assert _slopes(_SMOOTH[name], far, dtype, size, recorded) == pytest.approx([1.0] * len(far), rel=1e-14)
    assert _slopes(_SMOOTH[name], [-v for v in far], dtype, size, recorded) == [0.0] * len(far)
    assert all(map(math.isnan, _slopes(_SMOOTH[name], [NAN], dtype, size, recorded)))


@pytest.mark.parametrize("name", _SMOOTH)
def test_second_derivatives_far_out_are_zero_and_so_is_forward_mode(name: str) -> None:
    x = ferro.tensor([1e16, 1e30, 3e38, INF, -1e16, -3e38], requires_grad=True)
    (g,) = ferro.autograd.grad(_SMOOTH[name](x), x, ferro.ones_like(x), create_graph=True)
    (h,) = ferro.autograd.grad(g, x, ferro.ones_like(x))
    assert h.tolist() == [0.0] * 6
    _, tangent = ferro.func.jvp(_SMOOTH[name], (x.detach(),), (ferro.ones_like(x),))
    assert tangent.tolist() == [1.0] * 4 + [0.0] * 2


@pytest.mark.parametrize("size", [1, 600, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_silu_and_sigmoid_of_negative_numbers_are_small_not_zero(dtype: str, size: int) -> None:
    values = [-80.0, -86.0, -88.5] if dtype == "float32" else [-700.0, -708.0]
    x = ferro.tensor((values * size)[: max(size, len(values))], dtype=getattr(ferro, dtype))
    expected = [math.exp(v) for v in values]
    found = ferro.sigmoid(x).to(ferro.float64).numpy()[: len(values)]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    found = F.silu(x).to(ferro.float64).numpy()[: len(values)]
    np.testing.assert_allclose(found, [v * e for v, e in zip(values, expected, strict=True)], rtol=1e-3)


@pytest.mark.parametrize("recorded", [False, True])
def test_the_slope_of_softplus_at_nan_is_nan(recorded: bool) -> None:
    for size in (1, 5000):
        assert math.isnan(_slopes(F.softplus, [NAN], ferro.float32, size, recorded)[0])


@pytest.mark.parametrize("size", SIZES)
def test_the_slope_of_the_absolute_difference_at_nan_is_zero(size: int) -> None:
    x = ferro.full((size,), NAN, requires_grad=True)
    F.l1_loss(x, ferro.zeros(size)).backward()
    assert not x.grad.any()


# -- spreads and norms -------------------------------------------------------------------------------------------------


def _drawn(rng: np.random.Generator, dtype: str, scale: float, shape: tuple) -> tuple:
    """A tensor that requires grad, and its numbers over the scale in float64."""
    x = ferro.tensor(rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape) * scale, dtype=ferro.float64)
    x = x.to(getattr(ferro, dtype))
    return x.requires_grad_(), x.detach().to(ferro.float64).numpy() / scale


def _close(found: Any, expected: Any, dtype: str) -> None:
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(6,), (3, 2000), (400, 500)])
@pytest.mark.parametrize(("dtype", "scale"), [(d, s) for d, scales in SCALES.items() for s in scales])
def test_deviations_and_norms_over_the_whole_range(
    rng: np.random.Generator, dtype: str, scale: float, shape: tuple
) -> None:
    x, y = _drawn(rng, dtype, scale, shape)
    n = y.shape[0]
    deviation = y.std(0, ddof=1)
    for found in (x.std(0), ferro.std_mean(x, 0)[0]):
        _close(found.detach().to(ferro.float64).numpy() / scale, deviation, dtype)
        (g,) = ferro.autograd.grad(found, x, ferro.ones_like(found))
        if dtype != "bfloat16":  # whose mean has two digits
            _close(g.to(ferro.float64).numpy(), (y - y.mean(0)) / ((n - 1) * deviation), dtype)
    for order in (2, 3, -1, 1.5):
        norm = (np.abs(y) ** order).sum(0) ** (1 / order)
        found = ferro.linalg.vector_norm(x, order, 0)
        _close(found.detach().to(ferro.float64).numpy() / scale, norm, dtype)
        (g,) = ferro.autograd.grad(found, x, ferro.ones_like(found))
        _close(g.to(ferro.float64).numpy(), np.sign(y) * (np.abs(y) / norm) ** (order - 1), dtype)
    if np.linalg.norm(y) < ferro.finfo(x.dtype).max / scale:
        _close(x.norm().item() / scale, np.linalg.norm(y), dtype)


@pytest.mark.parametrize("value", [1e-40, 1e-30, 1e-20, 1.0, 1e20, 1e30, 3e38])
def test_the_norm_of_one_element_is_its_size(value: float) -> None:
    x = ferro.tensor([-value])
    for order in (1, 2, 3, INF, -INF, -1, 0.5):
        assert ferro.linalg.vector_norm(x, order).item() == pytest.approx(abs(x.item()), rel=1e-6)
    assert ferro.tensor([0.0]).norm().item() == 0
    assert ferro.tensor([INF, 1.0]).norm().item() == INF
    assert math.isnan(ferro.tensor([NAN, 1e30]).norm().item())


@pytest.mark.parametrize("value", [1e-38, 1e-20, 3.3, 1e10, 1e20, 1e30])
@pytest.mark.parametrize("shape", [(48, 6), (613, 17), (613, 300)])
def test_equal_float32_numbers_do_not_vary(value: float, shape: tuple) -> None:
    x = ferro.full(shape, value)
    for dim in (None, 0, 1):
        assert 0 <= x.var(dim).max().item() <= (1e-6 * value) ** 2  # of 1e30: not infinite
        assert 0 <= x.std(dim).max().item() <= 1e-6 * value


@pytest.mark.parametrize("size", [48, 200_000])
def test_a_mean_does_not_overflow_where_its_sum_does(size: int) -> None:
    assert ferro.full((size,), 1e37).mean().item() == pytest.approx(1e37, rel=1e-6)


@pytest.mark.parametrize("shape", [(8, 6), (8, 5000)])
@pytest.mark.parametrize("scale", [1e10, 1e20, 1e30])
def test_layers_of_large_float32_numbers_are_normalised(
    torch: Any, rng: np.random.Generator, scale: float, shape: tuple
) -> None:
    x, y = _drawn(rng, "float32", scale, shape)
    wide = torch.tensor(y, requires_grad=True)
    weights = np.cos(np.arange(x.numel())).reshape(shape)
    for name in ("layer_norm", "rms_norm", "group_norm"):
        last = 2 if name == "group_norm" else shape[1:]
        ours, theirs = [getattr(lib.nn.functional, name)(v, last, eps=0.0) for lib, v in ((ferro, x), (torch, wide))]
        _close(ours.detach().numpy(), theirs.detach().numpy(), "float32")
        (g,) = ferro.autograd.grad(ours, x, ferro.tensor(weights, dtype=ferro.float32))
        (h,) = torch.autograd.grad(theirs, wide, torch.tensor(weights))
        _close(g.to(ferro.float64).numpy() * scale, h.numpy(), "float32")


def test_distances_by_one_product_over_the_whole_range(rng: np.random.Generator) -> None:
    for scale in (1e-30, 1e-20, 1.0, 1e20, 1e30):
        x, y = [ferro.tensor(rng.standard_normal((30, 4)) * scale, dtype=ferro.float32) for _ in range(2)]
        a, b = [v.to(ferro.float64).numpy() / scale for v in (x, y)]
        found = ferro.cdist(x, y).to(ferro.float64).numpy() / scale
        np.testing.assert_allclose(found, np.linalg.norm(a[:, None] - b, axis=-1), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 6), (700, 300)])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10, 1e12, 1e16, 1e20, 1e30])
def test_the_slope_of_a_cross_entropy_of_large_logits(
    torch: Any, rng: np.random.Generator, scale: float, shape: tuple, dtype: str
) -> None:
    logits = (np.full(shape, scale) + rng.integers(-2, 3, shape)).astype(dtype)
    x = ferro.tensor(logits, requires_grad=True)
    F.cross_entropy(x, ferro.zeros(len(logits), dtype=ferro.int64), reduction="sum").backward()
    wide = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    target = torch.zeros(len(logits), dtype=torch.int64)
    torch.nn.functional.cross_entropy(wide, target, reduction="sum").backward()
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), atol=1e-6 if dtype == "float32" else 1e-13)


# -- nan ---------------------------------------------------------------------------------------------------------------


def test_extrema_that_are_nan(torch: Any) -> None:
    for name in ("amax", "amin", "max", "min", "aminmax"):
        grads = []
        for library in (ferro, torch):
            x = library.tensor([[1.0, NAN, 2.0], [1.0, 3.0, 3.0]], requires_grad=True)
            found = getattr(library, name)(x) if name != "amax" else library.amax(x, 1)
            y = found[0] if name == "aminmax" else found
            grads.append(library.autograd.grad(y.sum(), x)[0].tolist())
        np.testing.assert_array_equal(*grads, err_msg=name)


def test_group_norm_of_one_value_is_refused(torch: Any) -> None:
    for shape, groups in [((1, 4), 4), ((1, 4, 1), 4), ((2, 4), 4), ((1, 2), 1), ((1, 4, 1, 1), 4), ((0, 4, 1), 4)]:
        outcomes = []
        for library in (ferro, torch):
            try:
                library.nn.functional.group_norm(library.ones(shape), groups)
            except ValueError as error:
                outcomes.append("more than 1 value" in str(error))
            else:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1], shape
    assert ferro.group_norm(ferro.ones(1, 4), 4).tolist() == [[0.0] * 4]
