"""Functions of arrays that are large enough for kernels: accuracy, special values, ties, the same numbers on all threads."""

import numpy as np
import pytest

from ferro import cpu
from ferro.native import threads
from tests.helpers import of_arrays

N = 70_001  # no multiple of anything


@pytest.fixture(autouse=True)
def _budget_restored():
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def on_all_threads(call, *args):
    """The result, which has to be the same for one thread and for three."""
    results = []
    for budget in (1, 3):
        threads.set_num_threads(budget)
        results.append(call(*args))
    first, second = [r if isinstance(r, tuple) else (r,) for r in results]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return results[0]


def ulps(result, exact):
    """The distance from the exact value in units in the last place."""
    rounded = exact.astype(result.dtype)
    return np.abs(result - exact) / np.maximum(np.spacing(np.abs(rounded)), np.finfo(result.dtype).smallest_subnormal)


# -- exponentials, circles, activations --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_circles_are_right_to_two_ulps_up_to_100000(name, rng):
    every = np.arange(0, 1 << 32, 4999, dtype=np.uint64).astype(np.uint32).view(np.float32)
    turns = (np.arange(-60_000, 60_000) * (np.pi / 2)).astype(np.float32)  # next to where the results are 0
    x = np.concatenate([every, turns, rng.uniform(-30, 30, 100_000).astype(np.float32)])
    x = x[np.abs(x) <= 1e5]
    result = getattr(cpu, name)(x)
    assert ulps(result, getattr(np, name)(x.astype(np.float64))).max() <= 2
    if name == "sin":
        zeros = np.resize(np.array([0.0, -0.0], np.float32), 5000)
        np.testing.assert_array_equal(np.signbit(cpu.sin(zeros)), np.signbit(zeros))


@pytest.mark.parametrize("name", ["sin", "cos", "exp"])
def test_circles_and_exponentials_of_float64_are_right_to_two_ulps(name: str, rng: np.random.Generator) -> None:
    mpmath = pytest.importorskip("mpmath")
    turns = rng.integers(-60_000_000, 60_000_000, 400) * (np.pi / 2)  # next to where the results are 0
    x = np.concatenate([turns, *[rng.uniform(-size, size, 400) for size in (1e-3, 1, 30, 1e4, 1e8)]])
    if name == "exp":
        x = np.concatenate([rng.uniform(-745, 709.7, 1000), [709.782712893384, -745.13, -708.0, -1e-300]])
    found = np.resize(getattr(cpu, name)(np.resize(x, 5000)), x.size)
    with mpmath.workdps(60):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        errors = [abs(float(y) - e) / float(np.spacing(abs(float(e)))) for y, e in zip(found, exact, strict=True)]
    assert max(errors) <= 2


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_circles_of_large_numbers_infinities_and_nan(name, rng):
    x = rng.uniform(-3, 3, 20_000).astype(np.float32)
    x[[5, 5000, 9999, 15_000]] = 1e30, np.inf, np.nan, -3e5
    with np.errstate(invalid="ignore"):
        exact = getattr(np, name)(x.astype(np.float64))
        slope = np.cos(x.astype(np.float64)) if name == "sin" else -np.sin(x.astype(np.float64))
    np.testing.assert_allclose(getattr(cpu, name)(x), exact, rtol=1e-6, atol=2e-7)
    np.testing.assert_allclose(of_arrays(f"{name}_slope")(x, x), x * slope, rtol=1e-6, atol=1e-6)


def test_backward_of_tanh(rng):
    g, y = rng.normal(size=N), rng.uniform(-1, 1, N)
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        a, b = g.astype(dtype), y.astype(dtype)
        exact = a.astype(np.float64) * (1 - b.astype(np.float64) ** 2)
        np.testing.assert_allclose(on_all_threads(of_arrays("tanh_slope"), a, b), exact, rtol=tolerance, atol=tolerance)


def test_small_results_of_gelu_keep_their_digits():
    scipy = pytest.importorskip("scipy.special")
    x = np.linspace(-13, 6, N).astype(np.float32)
    y = x.astype(np.float64)
    exact = y * scipy.ndtr(y)
    np.testing.assert_allclose(cpu.gelu(x), exact, rtol=1.2e-5)
    slope = scipy.ndtr(y) + y * np.exp(-y * y / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(cpu.gelu_slope(x), slope, rtol=1.5e-5, atol=2e-7)


def test_relu_keeps_nan():
    x = np.resize(np.array([-1, np.nan, 2, -np.inf, np.inf], np.float32), N)
    np.testing.assert_array_equal(on_all_threads(of_arrays("relu"), x)[:5], [0, np.nan, 2, 0, np.inf])


def test_binary_cross_entropy_of_logits(torch):
    import ferro

    x = np.resize(np.array([-1e4, -100, -3, -0.0, 0, 2, 50, 1e4], np.float32), 6000)
    y = np.tile(np.linspace(0, 1, 60, dtype=np.float32), 100)
    results = []
    for lib in (ferro, torch):
        logits = lib.tensor(x, requires_grad=True)
        loss = lib.nn.functional.binary_cross_entropy_with_logits(logits, lib.tensor(y), reduction="none")
        loss.backward(lib.tensor(np.linspace(-1, 1, 6000, dtype=np.float32)))
        results.append((loss.detach().numpy(), logits.grad.numpy()))
    (ours, our_slope), (theirs, their_slope) = results
    np.testing.assert_allclose(ours, theirs, rtol=3e-6, atol=1e-7)
    np.testing.assert_allclose(our_slope, their_slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("value", [1, 1.0, 0.5, -2])
def test_addcmul(value, rng):
    x, y, z = rng.normal(size=(3, N)).astype(np.float32)
    exact = x + value * y.astype(np.float64) * z
    np.testing.assert_allclose(on_all_threads(cpu.addcmul, x, y, z, value), exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cpu.addcmul(x, y[:1], z, value), x + value * y[0] * z, rtol=1e-5, atol=1e-6)


# -- reductions, scans -------------------------------------------------------------------------------------------------

SHAPES = [
    ((1000, 331), (0, 1)),
    ((1000, 331), (0,)),
    ((1000, 331), (1,)),
    ((3, 331, 512), (1,)),
    ((5, 100_003), (1,)),
    ((1 << 18,), (0,)),
    ((2, 300, 400), (0, 1)),
    ((30, 40, 300), (0, 2)),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_and_extrema(shape, dim, dtype, rng):
    x = rng.normal(1, 1, shape).astype(dtype)
    for keepdim in (False, True):
        exact = x.astype(np.float64).sum(dim, keepdims=keepdim)
        result = on_all_threads(cpu.sum, x, dim, keepdim)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, exact, rtol=2e-6 if dtype == np.float32 else 1e-13)
        np.testing.assert_array_equal(on_all_threads(cpu.amax, x, dim, keepdim), x.max(dim, keepdims=keepdim))
        np.testing.assert_array_equal(on_all_threads(cpu.amin, x, dim, keepdim), x.min(dim, keepdims=keepdim))
    norm = np.sqrt((x.astype(np.float64) ** 2).sum(dim))
    np.testing.assert_allclose(on_all_threads(cpu.vector_norm, x, 2, dim, False), norm, rtol=2e-6)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0xFF800001])
@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1)])
def test_nan_of_either_sign_is_extreme(bits, dim, rng):
    x = rng.normal(size=(400, 400)).astype(np.float32)
    x[7] = np.inf
    x[9, 9] = np.uint32(bits).view(np.float32)
    for ours, theirs in ((cpu.amax, np.max), (cpu.amin, np.min)):
        np.testing.assert_array_equal(ours(x, dim, False), theirs(x, dim))


@pytest.mark.parametrize("shape", [(700, 300), (2, 500, 300)])
def test_places_of_extrema_are_the_first_ones(shape, rng):
    x = rng.integers(-3, 4, shape).astype(np.float32)
    x[..., 5, 5] = x[..., 9, 5] = np.nan
    dim = len(shape) - 2
    for ours, theirs, place in ((cpu.max_dim, np.max, np.argmax), (cpu.min_dim, np.min, np.argmin)):
        values, index = on_all_threads(ours, x, dim, True)
        np.testing.assert_array_equal(values, theirs(x, dim, keepdims=True))
        np.testing.assert_array_equal(index, place(x, dim, keepdims=True))
        assert index.dtype == np.int64


@pytest.mark.parametrize("shape", [(101, 203), (3, 5000), (1, 6000), (7, 50, 90)])
def test_sums_from_each_place_on(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    for dim in range(len(shape)):
        exact = np.add.accumulate(x.astype(np.float64), dim)
        np.testing.assert_allclose(on_all_threads(cpu.cumsum, x, dim), exact, rtol=1e-6, atol=1e-6)
        exact = np.flip(np.add.accumulate(np.flip(x, dim).astype(np.float64), dim), dim)
        np.testing.assert_allclose(on_all_threads(cpu.cumsum_vjp, x, dim), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1), (0, 2), (2,)])
def test_logsumexp_along_any_dimensions(dim, rng):
    scipy = pytest.importorskip("scipy.special")
    x = rng.normal(0, 30, (20, 33, 300)).astype(np.float32)
    x[:, :, 4] = -np.inf
    x[3, 5, 6] = np.inf
    x[1, 2, 7] = np.nan
    with np.errstate(all="ignore"):
        exact = scipy.logsumexp(x.astype(np.float64), dim)
    np.testing.assert_allclose(on_all_threads(cpu.logsumexp, x, dim, False), exact, rtol=1e-6)


@pytest.mark.parametrize("shape", [(50, 1000), (3, 7777), (1000, 33), (4, 60, 50)])
def test_running_extrema_and_their_last_places(shape, rng):
    x = rng.integers(-40, 40, shape).astype(np.float32)
    x[1, 5] = x[1, 9] = np.nan
    for dim in (1, len(shape) - 1):
        for ours, ufunc in ((cpu.cummax, np.maximum), (cpu.cummin, np.minimum)):
            values, index = on_all_threads(ours, x, dim)
            expected = ufunc.accumulate(x, dim)
            np.testing.assert_array_equal(values, expected)
            here = np.moveaxis((x == expected) | np.isnan(x), dim, -1)
            last = np.maximum.accumulate(np.where(here, np.arange(shape[dim]), 0), -1)
            np.testing.assert_array_equal(np.moveaxis(index, dim, -1), last)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "k"), [((500, 300), 5), ((3, 20_001), 16), ((200, 40), 10), ((2, 50, 60), 1)])
def test_first_elements_in_order(shape, k, largest, rng):
    x = rng.integers(-1000, 1000, shape).astype(np.float32)
    x[..., 7] = x[..., 9] = np.nan
    x[0, ...] = rng.integers(0, 3, shape[1:])
    values, index = on_all_threads(cpu.topk, x, k, len(shape) - 1, largest)
    key = np.where(np.isnan(x), np.inf, x)
    order = np.argsort(-key if largest else key, -1, kind="stable")[..., :k]
    np.testing.assert_array_equal(index, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
