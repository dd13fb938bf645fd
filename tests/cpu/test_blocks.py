"""Large arrays by blocks and by kernels: the numbers of the formula itself, for every layout, dtype and number of threads."""

import ml_dtypes
import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu import blocks, losses
from ferro.cpu.kernels import gather_scatter
from ferro.cpu.thresholds import BLOCK, BLOCK_LEAST
from tests.helpers import of_arrays

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0, 6.0, 2.0**25, -(2.0**30), 1e30]
LARGE = 3 * BLOCK + 17


def numbers(size, dtype=np.float32, seed=0):
    """Normal numbers behind all special ones."""
    x = np.random.default_rng(seed).normal(size=size).astype(np.float32) * 4
    x[: len(SPECIAL)] = SPECIAL if seed == 0 else SPECIAL[::-1]
    return x.astype(dtype)


@pytest.fixture(params=[1, 3])
def threads(request):
    before = ferro.get_num_threads()
    ferro.set_num_threads(request.param)
    yield request.param
    ferro.set_num_threads(before)


def layouts(x):
    yield x
    yield x[: x.size // 8 * 8].reshape(8, -1)
    yield x[: x.size // 8 * 8].reshape(8, -1).T
    yield x[::2]
    yield x[::-1]
    yield x[: x.size // 64 * 64].reshape(-1, 64)[:, :40]
    yield np.broadcast_to(x[0], x.shape)


def formula(x, y, n):
    return np.where(x > y, x * n, y - x)


def test_blocks_give_the_formula_s_numbers_in_every_layout(threads):
    for x, y in zip(layouts(numbers(LARGE)), layouts(numbers(LARGE, seed=1)), strict=True):
        np.testing.assert_array_equal(blocks.by_blocks(formula, x, y, 2), formula(x, y, 2))
        np.testing.assert_array_equal(
            blocks.by_blocks(formula, x, y[:1, ...].reshape(-1)[0], 2), formula(x, y.flat[0], 2)
        )


def test_blocks_of_mixed_layouts_and_shapes():
    x = numbers(4 * BLOCK_LEAST).reshape(256, -1)
    assert np.array_equal(blocks.by_blocks(np.add, x, x.T.copy().T), x + x, equal_nan=True)
    assert np.array_equal(blocks.by_blocks(np.add, x, x[0]), x + x[0], equal_nan=True)
    assert blocks.by_blocks(np.greater, x, x).dtype == bool


CASES = {
    "hardswish": (of_arrays("hardswish"), ()),
    "hardsigmoid": (of_arrays("hardsigmoid"), ()),
    "hardtanh": (of_arrays("hardtanh"), (-1.0, 0.5)),
    "leaky_relu": (of_arrays("leaky_relu"), (0.1,)),
    "leaky_relu with a slope above 1": (of_arrays("leaky_relu"), (3,)),
    "elu": (of_arrays("elu"), (1.5, 1.1, 0.7)),
    "hardshrink": (of_arrays("hardshrink"), (0.5,)),
    "softshrink": (of_arrays("softshrink"), (0.5,)),
    "logsigmoid": (of_arrays("logsigmoid"), ()),
    "rsqrt": (cpu.rsqrt, ()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_functions_of_large_arrays_equal_those_of_small_ones(name, dtype, threads):
    function, rest = CASES[name]
    x = numbers(LARGE, dtype)
    small = np.concatenate([function(part, *rest) for part in np.array_split(x, LARGE // 1000)])
    large = function(x, *rest)
    assert large.dtype == dtype
    tolerance = {2: 1e-2, 4: 3e-7, 8: 1e-15}[np.dtype(dtype).itemsize]
    np.testing.assert_allclose(large.astype(np.float64), small.astype(np.float64), rtol=tolerance, atol=tolerance)
    for turned in layouts(x):
        first = np.ascontiguousarray(turned)
        np.testing.assert_array_equal(
            function(turned, *rest).astype(np.float64), function(first, *rest).astype(np.float64)
        )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (cpu.fmod, np.fmod),
        (cpu.remainder, np.remainder),
        (cpu.div_floor, np.floor_divide),
        (cpu.hypot, np.hypot),
        (cpu.logaddexp, np.logaddexp),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary_functions_equal_numpy_s(ours, theirs, dtype, threads):
    rng = np.random.default_rng(2)
    x, y = numbers(LARGE, dtype), numbers(LARGE, dtype, seed=1)
    pairs = [(x, y), (x[50000:], y[50000:]), (x[50000:], np.asarray(0.7, dtype)), (x[50000:], np.asarray(-3, dtype))]
    whole = rng.integers(-50, 50, (2, LARGE)).astype(dtype)  # quotients that are whole numbers
    for a, b in [*pairs, (whole[0], whole[1]), (whole[0] * dtype(0.1), np.full(LARGE, 0.1, dtype))]:
        found, wanted = ours(a, b), theirs(a, b)
        assert found.dtype == wanted.dtype
        if theirs in (np.hypot, np.logaddexp):
            np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=1e-7)
        else:
            np.testing.assert_array_equal(found, wanted)
            number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("mse_loss", {}), ("l1_loss", {}), ("huber_loss", {"delta": 0.7}), ("smooth_l1_loss", {"beta": 0.7})],
)
def test_losses_of_large_arrays_equal_those_in_double_precision(name, options, reduction, threads):
    rng = np.random.default_rng(3)
    arrays = rng.normal(size=(2, 300, 401))
    arrays[1, 0] = arrays[0, 0]
    found = []
    for dtype in (np.float32, np.float64):
        x, y = [ferro.from_numpy(a.astype(np.float32).astype(dtype).T).requires_grad_() for a in arrays]
        loss = getattr(ferro.nn.functional, name)(x, y, reduction=reduction, **options)
        loss.backward(ferro.full(loss.shape, 1.5, dtype=loss.dtype))
        found.append([loss.detach().numpy(), x.grad.numpy(), y.grad.numpy()])
    for single, double in zip(*found, strict=True):
        np.testing.assert_allclose(single, double, rtol=2e-6, atol=1e-7 * np.abs(double).max())


def test_losses_do_not_depend_on_the_number_of_threads():
    x, y = np.random.default_rng(4).normal(size=(2, 1 << 20)).astype(np.float32)
    before, found = ferro.get_num_threads(), []
    for n in (1, 2, 5):
        ferro.set_num_threads(n)
        found.append(losses.difference_loss(losses.KINDS["square"], x, y, 1.0, 1.0, "sum").tobytes())
    ferro.set_num_threads(before)
    assert len(set(found)) == 1


def test_logcumsumexp_of_large_arrays():
    x = numbers(1 << 17)
    x[: len(SPECIAL)] = [-np.inf, -np.inf, 500, 900, -900, 0, np.inf, 1, np.inf, -np.inf, 3, 4, 5, 6, 7, 8]
    x = np.concatenate([x[16:60000], [-np.inf] * 9, x[16:7000]]).astype(np.float32)
    for y in (x, np.concatenate([[-np.inf, -np.inf, 500, 900, -900, np.inf, 1, np.inf, np.nan], x]).astype(np.float32)):
        wanted = np.logaddexp.accumulate(y.astype(np.float64))
        np.testing.assert_allclose(cpu.logcumsumexp(y, 0), wanted, rtol=1e-6)
        columns = np.repeat(y[:, None], 3, 1)
        np.testing.assert_allclose(cpu.logcumsumexp(columns, 0)[:, 1], wanted, rtol=1e-6)


@pytest.mark.parametrize(("shape", "dim"), [((9000,), 0), ((90, 100), 1), ((90, 100), 0)])
def test_running_extrema_of_large_arrays(shape, dim):
    rng = np.random.default_rng(5)
    for x in (rng.normal(size=shape), rng.integers(0, 4, shape), np.sort(rng.normal(size=shape), dim)):
        x = x.astype(np.float32)
        x.reshape(-1)[[40, 77, 8000]] = np.nan, -np.inf, np.nan
        for ours, ufunc in ((cpu.cummax, np.maximum), (cpu.cummin, np.minimum)):
            values, index = ours(x, dim)
            np.testing.assert_array_equal(values, ufunc.accumulate(x, dim))
            np.testing.assert_array_equal(np.take_along_axis(x, index, dim), values)
            later = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
            again = (x == values) | np.isnan(x)
            np.testing.assert_array_equal(index, np.maximum.accumulate(np.where(again, later, 0), dim))


def test_products_of_all_others():
    rng = np.random.default_rng(6)
    x = rng.uniform(0.9, 1.1, (80, 200))
    x[3, 7] = x[4, 8] = x[4, 9] = 0
    wanted = np.array([[np.prod(np.delete(row, j)) for j in range(200)] for row in x])
    for dtype in (np.float32, np.float64):
        y = x.astype(dtype)
        np.testing.assert_allclose(cpu.prod_others(y, 1), wanted, rtol=3e-5)
        np.testing.assert_allclose(cpu.prod(y, 1, False), x.prod(1), rtol=3e-5)
    tiny = np.full(20000, 1e-3, np.float32)
    assert not cpu.prod_others(tiny, 0).any()
    tiny[90:] = 1  # in single precision the first 90 numbers have the product 0
    tiny[10000:10090] = 1e3
    np.testing.assert_allclose(cpu.prod_others(tiny, 0), np.float64(1) / tiny, rtol=1e-5)


def test_an_expanded_index_is_read_as_one_dimension():
    x = np.random.default_rng(7).normal(size=(50, 200)).astype(np.float32)
    for dim, index in ((0, np.arange(49, -1, -1)[:, None]), (1, np.arange(200)[None] // 2)):
        full = np.broadcast_to(index, x.shape)
        assert gather_scatter.line(x, dim, full) is not None
        assert gather_scatter.line(x, dim, full.copy()) is None
        np.testing.assert_array_equal(cpu.gather(x, dim, full), np.take_along_axis(x, full, dim))
        zeros = np.zeros_like(x)
        np.testing.assert_array_equal(cpu.scatter_add(zeros, dim, full, x), cpu.scatter_add(zeros, dim, full.copy(), x))
    with pytest.raises(IndexError, match="out of bounds"):
        cpu.gather(x, 0, np.broadcast_to(np.full((50, 1), 50), x.shape))
    with pytest.raises(IndexError, match="out of bounds"):
        cpu.gather(x, 1, np.full(x.shape, -1))


@pytest.mark.parametrize("weighted", [False, True])
def test_group_norm_of_large_images(weighted, threads):
    rng = np.random.default_rng(9)
    x = rng.normal(5, 2, (3, 6, 20, 20))
    w, b = (rng.normal(size=(2, 6)).astype(np.float32)) if weighted else (None, None)
    g = rng.normal(size=x.shape)
    single = x.astype(np.float32)
    out, mean, rstd = cpu.group_norm(single, w, b, 2, 1e-5)
    rows = x.reshape(6, -1)
    xhat = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    xhat = xhat.reshape(x.shape)
    scale = (np.ones(6) if w is None else w)[:, None, None]
    np.testing.assert_allclose(out, xhat * scale + (0 if b is None else b[:, None, None]), atol=1e-5)
    np.testing.assert_allclose(mean, rows.mean(1), rtol=1e-6)
    gw = (g * scale).reshape(6, -1)
    h = xhat.reshape(6, -1)
    dx = (gw - gw.mean(1, keepdims=True) - h * (gw * h).mean(1, keepdims=True)) * rstd[:, None]
    found = cpu.group_norm_vjp(g.astype(np.float32), single, w, mean, rstd, 2, 1e-5, (True, True, True))
    for ours, theirs in zip(found, (dx.reshape(x.shape), (g * xhat).sum((0, 2, 3)), g.sum((0, 2, 3))), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
