"""Kernels of indices, masks, windows, taps, order, alignments and differences against the NumPy formulas behind them, from one table.

A row of the table makes a call for about so many elements of a dtype; the sizes lie on both sides of the threshold. Results
are the formula's, the same bits on two threads, also of arrays with gaps; and the table reaches every kernel of its modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu import kernels, losses
from ferro.cpu.kernels.common import SMALL
from ferro.native import readiness, threads, workers
from ferro.native.entries import fallback
from ferro.nn import functional
from tests.configuration import with_kernels

MODULES = "jit_ctc jit_gather_scatter jit_grids jit_interpolation jit_masks jit_order jit_pool"
LOSSES = "loss_sum loss_add loss_each loss_vjp"
SIZES = (120, SMALL + 904, 40_000)  # (losses take two numbers for each: more than one thread does at once)
Call = tuple[Callable, tuple]
CALLS: dict[str, Callable[[np.random.Generator, int, Any], Call]] = {}


def call(make: Callable[[np.random.Generator, int, Any], Call]) -> Callable:
    CALLS[make.__name__] = make
    return make


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    return rng.uniform(-1, 1, shape).astype(dtype)


def matrix(rng: np.random.Generator, n: int, dtype: Any) -> Any:
    return numbers(rng, dtype, n // 20, 20)


def index_of(rng: np.random.Generator, x: Any, dim: int) -> Any:
    return rng.integers(0, x.shape[dim], x.shape)


def along(function: Callable, dim: int, *, reads: bool) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        x = matrix(rng, n, dtype)
        return function, (x, dim, index_of(rng, x, dim), *(() if reads else (numbers(rng, dtype, *x.shape),)))

    return make


def repeated(function: Callable, dim: int) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        x = matrix(rng, n, dtype)
        places = rng.integers(0, x.shape[dim], x.shape[dim])
        return function, (x, dim, places, *(() if function is cpu.index_select else (numbers(rng, dtype, *x.shape),)))

    return make


for _dim in (0, 1):
    CALLS[f"gather_{_dim}"] = along(cpu.gather, _dim, reads=True)
    CALLS[f"scatter_add_{_dim}"] = along(cpu.scatter_add, _dim, reads=False)
    CALLS[f"index_select_{_dim}"] = repeated(cpu.index_select, _dim)
    CALLS[f"index_add_{_dim}"] = repeated(cpu.index_add, _dim)


def scattered(dim: int) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        x = matrix(rng, n, dtype)
        places = np.argsort(rng.random(x.shape), dim)  # each once: which of several writes stays is nobody's promise
        return cpu.scatter, (x, dim, places, numbers(rng, dtype, *x.shape))

    return make


CALLS |= {f"scatter_{dim}": scattered(dim) for dim in (0, 1)}


@call
def rows_of_a_table(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    return fallback(cpu.take_rows), (numbers(rng, dtype, 50, 20), rng.integers(0, 50, n // 20))


@call
def rows_added_to_a_table(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    return fallback(cpu.add_rows), (matrix(rng, n, dtype), rng.integers(0, 50, n // 20), 50, 3, True)


@call
def histogram(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    return cpu.histogram, (numbers(rng, dtype, n, 1), [np.linspace(-0.5, 0.5, 9).astype(dtype)], True, None)


@call
def where(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    x = matrix(rng, n, dtype)
    return cpu.where, (x > 0.3, x, numbers(rng, dtype, *x.shape))


@call
def masked_select(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    x = matrix(rng, n, dtype)
    return cpu.masked_select, (x, x > 0.3)


@call
def masked_spread(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    mask = matrix(rng, n, dtype) > 0.3
    return cpu.masked_spread, (numbers(rng, dtype, int(mask.sum())), mask.shape, mask)


@call
def masked_scatter(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    x = matrix(rng, n, dtype)
    return cpu.masked_scatter, (x, x > 0.3, numbers(rng, dtype, n))


@call
def topk(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    return cpu.topk, (np.round(numbers(rng, dtype, n // 40, 40), 1), 5, 1, True)


def windows(kernel: tuple, stride: tuple, pad: tuple) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        x = np.round(numbers(rng, dtype, n // 120, 10, 12), 1)
        size = tuple([(s + 2 * p - k) // t + 1 for s, k, t, p in zip(x.shape[1:], kernel, stride, pad, strict=True)])

        def pooled(x: Any) -> tuple:
            best, index = cpu.max_pool(x, kernel, size, stride, pad, (1, 1))
            mean = cpu.avg_pool(x, kernel, size, stride, pad, 3)
            spread = cpu.avg_spread(mean, x.shape[1:], kernel, stride, pad, 3)
            return best, index, cpu.pool_scatter(best, index, x.shape[1:]), mean, spread

        return pooled, (x,)

    return make


CALLS |= {
    "windows_apart": windows((2, 2), (2, 2), (0, 0)),
    "windows_side_by_side": windows((3, 3), (1, 1), (1, 1)),
    "windows_of_two_steps": windows((3, 2), (2, 2), (1, 0)),
    "windows_of_three_steps": windows((2, 4), (1, 3), (0, 2)),
}


def resampled(function: Callable) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        axes = ("linear", 10, 15, None, False), ("linear", 12, 7, None, True)
        shape = (10, 12) if function is cpu.resample else (15, 7)
        return function, (numbers(rng, dtype, n // 120 + 1, *shape), axes)

    return make


CALLS |= {"resample": resampled(cpu.resample), "resample_spread": resampled(cpu.resample_spread)}


def taps(mode: str) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        x, at = numbers(rng, dtype, 2, 3, 10 * 12), 6 + 8 * numbers(rng, dtype, 2, 2, n // 4)

        def sampled(x: Any, at: Any) -> tuple:
            parts = cpu.tap_weights(at, (10, 12), mode, "zeros", 0)
            w = (parts[:, 1][:, :, None] * parts[:, 0][:, None]).reshape(len(at), -1, at.shape[2])
            index = cpu.tap_places(at, (10, 12), mode, "zeros", False)
            y = cpu.sample_taps(x, w, index)
            return parts, index, y, cpu.spread_taps(y, w, index, 10 * 12), cpu.weigh_taps(y, x, index)

        return sampled, (x, at)

    return make


CALLS |= {f"taps_{mode}": taps(mode) for mode in ("bilinear", "bicubic")}


@call
def alignments(rng: np.random.Generator, n: int, dtype: Any) -> Call:
    steps, samples = max(n // 36, 4), 3
    y = np.log(rng.dirichlet(np.ones(5), (steps, samples))).astype(dtype)
    labels = np.array([[0, 1, 0, 2, 0], [0, 3, 0, 3, 0], [0, 4, 0, 0, 0]])

    def both(y: Any) -> tuple:
        given = labels, np.array([steps, steps - 1, steps // 2]), np.array([2, 2, 1])
        loss, alpha = cpu.ctc_fwd(y, *given)
        none = np.zeros((0, *y.shape))
        return loss, cpu.ctc_occupancy(y, none, *given), cpu.ctc_vjp(loss, y, *given, False, alpha)

    return both, (y,)


def difference(name: str, reduction: str, **options: float) -> Callable:
    def make(rng: np.random.Generator, n: int, dtype: Any) -> Call:
        def both(x: Any, y: Any) -> tuple:
            a = ferro.from_numpy(x).requires_grad_()
            loss = getattr(functional, name)(a, ferro.from_numpy(y), reduction=reduction, **options)
            (slope,) = ferro.autograd.grad(loss, a, ferro.full_like(loss, 1.5))
            return loss.detach().numpy(), slope.numpy()

        return both, (numbers(rng, dtype, n, 2), numbers(rng, dtype, n, 2))

    return make


for _reduction in ("none", "mean", "sum"):
    CALLS[f"squares_{_reduction}"] = difference("mse_loss", _reduction)
    CALLS[f"absolutes_{_reduction}"] = difference("l1_loss", _reduction)
    CALLS[f"huber_{_reduction}"] = difference("huber_loss", _reduction, delta=0.7)
    CALLS[f"smooth_{_reduction}"] = difference("smooth_l1_loss", _reduction, beta=0.7)


# --- what is asked of all of them -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def together(found: Any) -> tuple:
    return found if isinstance(found, tuple) else (found,)


def apart(a: Any) -> Any:
    """The same numbers, every other one of a larger array."""
    if not isinstance(a, np.ndarray) or a.ndim == 0:
        return a
    large = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    large[..., ::2] = a
    return large[..., ::2]


def near(found: Any, wanted: Any, dtype: Any) -> None:
    tolerance = 200 * float(np.finfo(dtype).eps)
    for a, b in zip(together(found), together(wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(initial=0))


@with_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CALLS)
def test_kernels_give_what_the_formula_gives(name: str, size: int, dtype: Any, rng: np.random.Generator) -> None:
    function, given = CALLS[name](rng, size, dtype)
    with readiness.as_if("off"):
        wanted = function(*given)
    found = []
    for count in (1, 2):
        threads.set_num_threads(count)
        found.append(together(function(*given)))
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()
    near(found[0], wanted, dtype)
    near(function(*map(apart, given)), wanted, dtype)


@with_kernels
def test_the_table_reaches_every_kernel(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    met = set()

    def get(name: str) -> Any:
        met.add(name)
        return readiness.get(name)

    for module in (workers, losses):
        monkeypatch.setattr(module, "get", get)
    threads.set_num_threads(1)
    for size in SIZES:
        for make in CALLS.values():
            function, given = make(rng, size, np.float32)
            function(*given)
    wanted = {name for module in MODULES.split() for name in kernels._MODULES[module].split()}
    assert wanted | set(LOSSES.split()) <= met
