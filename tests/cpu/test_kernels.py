"""Kernels against their NumPy formulas and against PyTorch, SciPy and mpmath; the same numbers for any number of threads."""

import warnings
from importlib import import_module

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu import pooling
from ferro.cpu.kernels import common, conv
from ferro.cpu.kernels.entries import DECLARED as ENTRIES
from ferro.cpu.kernels.prepare import KINDS, compile_all, signatures
from ferro.native import isa, loader, registry, threads
from ferro.native.entries import fallback
from ferro.native.kernel import tag_of
from ferro.native.readiness import get
from tests.configuration import with_kernels
from tests.helpers import of_arrays, run_python

FLOATS = [np.float32, np.float64]
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}


@pytest.fixture(autouse=True)
def _budget_restored():
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def flattened(result):
    """The arrays of a result, which is an array or a tuple with None in it."""
    return [part for part in (result if isinstance(result, tuple) else (result,)) if part is not None]


def spread(x):
    """The same numbers, not contiguous: every other element of a larger array."""
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return x
    large = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    large[..., ::2] = x
    return large[..., ::2]


def by_numpy(monkeypatch, call, *inputs):
    """The result of the formulas that answer for small arrays."""
    with monkeypatch.context() as patched:
        patched.setattr(common, "SMALL", 1 << 62)
        return flattened(call(*inputs))


def close(result, expected, tolerance):
    """Equal up to the tolerance, taken of each number and of the largest one; infinities and nan in the same places."""
    expected = np.asarray(expected)
    assert result.shape == expected.shape
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * finite.max(initial=1e-3))


def check(monkeypatch, call, inputs, expected, dtype, factor=1.0):
    """`expected` was computed in float64, or is None."""
    given = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    tolerance = TOLERANCE[dtype] * factor
    results = []
    for n in (1, 2, 4):
        threads.set_num_threads(n)
        results.append(flattened(call(*inputs)))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    for before, after in zip(given, inputs, strict=True):
        np.testing.assert_array_equal(before, after)
    for other in (by_numpy(monkeypatch, call, *inputs), flattened(call(*map(spread, inputs))), expected):
        if other is not None:
            for one, two in zip(results[0], flattened(tuple(other)), strict=True):
                close(one, two, tolerance)
    assert all(one.dtype == dtype for one in results[0] if one.dtype.kind == "f")


def numbers(rng, shape, dtype, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def tensors(torch, *arrays):
    """The arrays as float64 tensors that want a gradient; anything else as it is."""
    return [
        torch.tensor(a.astype(np.float64), requires_grad=True)
        if isinstance(a, np.ndarray) and a.dtype.kind == "f"
        else torch.tensor(a)
        if isinstance(a, np.ndarray)
        else a
        for a in arrays
    ]


def gradients(torch, out, inputs, g):
    wanted = [x for x in inputs if x is not None]
    return [part.numpy() for part in torch.autograd.grad(out, wanted, torch.tensor(g.astype(np.float64)))]


# --- the functions of one number -------------------------------------------------------------------------------------


def applied(function, x):
    """A function that kernels call, applied to every element."""
    numba = pytest.importorskip("numba")

    @numba.njit(error_model="numpy", fastmath={"contract"})
    def run(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty_like(x)
    run(x, out)
    return out


def ulps(result, exact):
    """The distance from the exact value in units in the last place of the correctly rounded result."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        unit = np.maximum(np.spacing(np.abs(rounded)), np.finfo(result.dtype).smallest_subnormal)
        distance = np.abs(result.astype(exact.dtype) - exact) / unit.astype(exact.dtype)
    distance[(result == rounded) | (np.isnan(result) & np.isnan(rounded))] = 0
    return distance


# By name: the file, the name of mpmath's function, and the numbers that float64 is tried with between these and close to 0.
DEVICE = {
    "exp": ("jit_math", "exp", -744, 709),
    "exp2": ("jit_math", "power", -1073, 1023),
    "expm1": ("jit_math", "expm1", -40, 709),
    "log": ("jit_math", "log", 0, 1e5),
    "log2": ("jit_math", "log", 0, 1e5),
    "log1p": ("jit_math", "log1p", -0.99, 1e5),
    "log1p_unit": ("jit_math", "log1p", 0, 1),
    "tanh": ("jit_math", "tanh", -6.5, 6.5),
    "sigmoid_": ("jit_math", "sigmoid", -740, 40),
    "erf_": ("jit_normal", "erf", -6.5, 6.5),
    "atan": ("jit_circles", "atan", -10, 10),
    "asin": ("jit_circles", "asin", -1, 1),
    "acos": ("jit_circles", "acos", -1, 1),
    "tangent": ("jit_tangent", "tan", -1e8, 1e8),
    "sinh": ("jit_hyperbolic", "sinh", -711, 711),
    "cosh": ("jit_hyperbolic", "cosh", -711, 711),
    "log10": ("jit_logarithms", "log10", 0, 1e5),
    "asinh": ("jit_logarithms", "asinh", -1e10, 1e10),
    "acosh": ("jit_logarithms", "acosh", 1, 1e10),
    "atanh": ("jit_logarithms", "atanh", -1, 1),
}
ODD = {"tanh", "erf_", "atan", "asin", "sinh", "asinh", "atanh"}


def device_function(name):
    """A function that kernels call, and what it computes, in float64 and by mpmath."""
    scipy = pytest.importorskip("scipy.special")
    mpmath = pytest.importorskip("mpmath")
    if name == "acosh" and not isa.has_fma():
        pytest.skip("it needs fused multiplications, and is NumPy's without them")
    module, exact, *_ = DEVICE[name]
    made = {
        "exp2": (np.exp2, lambda x: mpmath.mpf(2) ** x),
        "log2": (np.log2, lambda x: mpmath.log(x, 2)),
        "sigmoid_": (scipy.expit, lambda x: 1 / (1 + mpmath.exp(-x))),
        "erf_": (scipy.erf, mpmath.erf),
    }
    numpy = {f"a{f}": f"arc{f}" for f in ("tan", "sin", "cos", "tanh", "sinh", "cosh")}
    numpy |= {"log1p_unit": "log1p", "tangent": "tan"}
    wide, many = made[name] if name in made else (getattr(np, numpy.get(name, name)), getattr(mpmath, exact))
    return getattr(import_module(f"ferro.cpu.kernels.{module}"), name), wide, many


@pytest.mark.parametrize("name", DEVICE)
def test_functions_are_right_to_two_ulps_all_over_float32(name):
    function, exact, _ = device_function(name)
    every = np.arange(0, 1 << 32, 4999, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array(
        [np.inf, -np.inf, np.nan, 0, -0.0, 1e-45, -1e-45, 88.7, 88.8, -103, -104, -150, 1, -1], np.float32
    )
    x = np.concatenate([every, special, np.linspace(-1.01, 1.01, 20_001, dtype=np.float32)])
    if name == "log1p_unit":
        x = x[(x >= 0) & (x <= 1)]
    if name == "tangent":
        x = x[~(abs(x) > 1e5)]
    with np.errstate(all="ignore"):
        reference = exact(x.astype(np.float64))
    result = applied(function, x)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(reference))
    assert ulps(result, reference).max() <= 2
    if name in ODD:
        number = ~np.isnan(reference)
        np.testing.assert_array_equal(np.signbit(result[number]), np.signbit(x[number]))


@pytest.mark.parametrize("name", DEVICE)
def test_functions_are_right_to_two_ulps_in_float64(name, rng):
    mpmath = pytest.importorskip("mpmath")
    function, _, exact = device_function(name)
    low, high = DEVICE[name][2:]
    x = np.concatenate([rng.uniform(low, high, 400), 10.0 ** rng.uniform(-300, 0, 100), rng.uniform(0.5, 1, 100)])
    if name == "acosh":
        x = 1 + abs(x)
    result = applied(function, x)
    with mpmath.workdps(40):
        for argument, value in zip(x, result, strict=True):
            true = exact(mpmath.mpf(float(argument)))
            if abs(true) > np.finfo(np.float64).max:
                assert value == (np.inf if true > 0 else -np.inf)
                continue
            unit = max(float(np.spacing(abs(float(true)))), 5e-324)
            assert abs(mpmath.mpf(float(value)) - true) <= 2 * unit, argument


def test_functions_of_infinities_in_float64():
    x = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300])
    expected = {
        "exp": [np.inf, 0, np.nan, np.inf, 0],
        "exp2": [np.inf, 0, np.nan, np.inf, 0],
        "expm1": [np.inf, -1, np.nan, np.inf, -1],
        "log": [np.inf, np.nan, np.nan, np.log(1e300), np.nan],
        "log2": [np.inf, np.nan, np.nan, np.log2(1e300), np.nan],
        "atan": [np.pi / 2, -np.pi / 2, np.nan, np.pi / 2, -np.pi / 2],
        "sigmoid_": [1, 0, np.nan, 1, 0],
        "sinh": [np.inf, -np.inf, np.nan, np.inf, -np.inf],
        "cosh": [np.inf, np.inf, np.nan, np.inf, np.inf],
        "log10": [np.inf, np.nan, np.nan, 300, np.nan],
        "asinh": [np.inf, -np.inf, np.nan, np.arcsinh(1e300), np.arcsinh(-1e300)],
        "acosh": [np.inf, np.nan, np.nan, np.arccosh(1e300), np.nan],
        "atanh": [np.nan] * 5,
    }
    for name in ("tanh", "erf_", *expected):
        function, _, _ = device_function(name)
        np.testing.assert_allclose(applied(function, x), expected.get(name, [1, -1, np.nan, 1, -1]), rtol=3e-16)


# --- elementwise functions -------------------------------------------------------------------------------------------


@with_kernels
def test_pointwise_results_keep_the_memory_layout(rng):
    x = numbers(rng, (40, 30, 20), np.float32)
    for view in (x, x.transpose(2, 0, 1), x.swapaxes(0, 1), x[:, ::2], x[::-1], np.broadcast_to(x[:1], x.shape)):
        out = of_arrays("silu")(view)
        np.testing.assert_array_equal(out, of_arrays("silu")(np.ascontiguousarray(view)))
        assert out.flags.owndata
        assert out.strides == np.empty_like(view).strides


# --- softmax ---------------------------------------------------------------------------------------------------------


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("large", [False, True])
def test_rows_of_infinities(large, torch):
    inf, nan = np.inf, np.nan
    rows = [
        [-inf, -inf, -inf],
        [-inf, 0, 1],
        [inf, 0, 1],
        [inf, -inf, inf],
        [nan, 0, -inf],
        [nan, inf, 0],
        [1e4, 0, -1e4],
    ]
    x = np.tile(np.array(rows, np.float32), (1000, 1) if large else (1, 1))
    t = torch.tensor(x)
    for dim, array, tensor in ((1, x, t), (0, x.T.copy(), t.T)):
        np.testing.assert_allclose(cpu.softmax(array, dim), torch.softmax(tensor, dim), rtol=1e-6)
        np.testing.assert_allclose(cpu.log_softmax(array, dim), torch.log_softmax(tensor, dim), rtol=1e-6)
        np.testing.assert_allclose(cpu.logsumexp(array, (dim,), False), torch.logsumexp(tensor, dim), rtol=1e-6)


def test_log_softmax_of_large_numbers_keeps_its_digits(rng):
    x = numbers(rng, (50, 200), np.float32) + np.float32(1e4)
    exact = x.astype(np.float64) - 1e4
    exact -= np.log(np.exp(exact).sum(1, keepdims=True))
    np.testing.assert_allclose(cpu.log_softmax(x, 1), exact, atol=1e-6)


@pytest.mark.parametrize("function", [cpu.softmax, cpu.log_softmax])
def test_softmax_of_nothing_and_of_one_number(function):
    assert function(np.zeros((3, 0), np.float32), 1).shape == (3, 0)
    assert function(np.zeros((0, 3), np.float32), 1).shape == (0, 3)
    value = function(np.array(2.0, np.float32), 0)
    assert value == np.float32(function is cpu.softmax)
    np.testing.assert_array_equal(cpu.logsumexp(np.zeros((2, 0)), (1,), False), [-np.inf, -np.inf])


# --- cross-entropy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(weighted, smoothing, dtype, torch, rng, monkeypatch):
    x, g = numbers(rng, (701, 113), dtype, 3), numbers(rng, 701, dtype)
    target = rng.integers(0, 113, 701)
    target[::5] = -100
    weight = rng.random(113).astype(dtype) if weighted else None
    (t,) = tensors(torch, x)
    expected = torch.nn.functional.cross_entropy(
        t,
        torch.tensor(target),
        None if weight is None else torch.tensor(weight.astype(np.float64)),
        reduction="none",
        ignore_index=-100,
        label_smoothing=smoothing,
    )
    options = -100, smoothing
    check(
        monkeypatch,
        lambda x, t, w: cpu.row_losses(x, t, w, *options)[0],
        [x, target, weight],
        [expected.detach().numpy()],
        dtype,
        2,
    )
    norms = cpu.row_losses(x, target, weight, *options)[1]
    check(
        monkeypatch,
        lambda g, x, t, n, w: cpu.row_losses_vjp(g, x, t, n, w, *options),
        [g, x, target, norms, weight],
        gradients(torch, expected, [t], g),
        dtype,
        10,
    )


@pytest.mark.parametrize("rows", [3, 3000])
def test_a_target_out_of_bounds_is_told(rows):
    with pytest.raises(IndexError, match="Target 7 is out of bounds: the input has 7 classes"):
        cpu.row_losses(np.zeros((rows, 7)), np.full(rows, 7), None, -100, 0.0)
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        cpu.row_losses(np.zeros((rows, 7)), np.full(rows, -1), None, -100, 0.0)


def test_cross_entropy_of_large_logits_keeps_its_digits(rng):
    x = numbers(rng, (100, 100), np.float32) + np.float32(3e3)
    target = rng.integers(0, 100, 100)
    losses, norms = cpu.row_losses(x, target, None, -100, 0.0)
    exact = cpu.log_softmax(x.astype(np.float64), 1)
    np.testing.assert_allclose(losses, -exact[np.arange(100), target], rtol=1e-5, atol=1e-6)
    grad = cpu.row_losses_vjp(np.ones(100, np.float32), x, target, norms, None, -100, 0.0)
    np.testing.assert_allclose(grad, np.exp(exact) - np.eye(100)[target], rtol=1e-5, atol=1e-7)


# --- normalisation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(33, 17, 11, 13), (4, 300, 9), (3001, 37), (3001, 37, 1)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape, training, dtype, torch, rng, monkeypatch):
    channels = shape[1]
    x, g = numbers(rng, shape, dtype, 2) + dtype(1), numbers(rng, shape, dtype)
    weight, bias = rng.random(channels).astype(dtype), rng.random(channels).astype(dtype)
    dims = (0, *range(2, x.ndim))
    mean, var = x.mean(dims, np.float64).astype(dtype), x.var(dims, np.float64).astype(dtype)
    if not training:
        mean, var = mean + dtype(0.5), var * dtype(2)
    t, w, b = tensors(torch, x, weight, bias)
    running = [torch.tensor(part.astype(np.float64)) for part in (mean, var)]
    out = torch.nn.functional.batch_norm(t, *running, w, b, training, 0.1, 1e-5)
    inputs = [x, weight, bias, mean, var, training, 1e-5]
    check(monkeypatch, fallback(cpu.batch_norm), inputs, [out.detach().numpy(), mean, var], dtype, 5)
    expected = gradients(torch, out, [t, w, b], g)
    inputs = [g, x, weight, mean, var, training, 1e-5, (True, True, True)]
    check(monkeypatch, fallback(cpu.batch_norm_vjp), inputs, expected, dtype, 50)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "groups"), [((9, 12, 11, 13), 3), ((1, 8, 4000), 8), ((5, 6, 301), 1), ((500, 40), 5)], ids=str
)
def test_group_norm(shape, groups, dtype, torch, rng, monkeypatch):
    x, g = numbers(rng, shape, dtype, 2) + dtype(1), numbers(rng, shape, dtype)
    weight, bias = rng.random((2, shape[1])).astype(dtype)
    t, w, b = tensors(torch, x, weight, bias)
    out, mean, rstd = torch.native_group_norm(t, w, b, *shape[:2], x[0, 0].size, groups, 1e-5)
    mean, rstd = [a.detach().numpy().reshape(-1).astype(dtype) for a in (mean, rstd)]
    inputs = [x, weight, bias, groups, 1e-5]
    check(monkeypatch, fallback(cpu.group_norm), inputs, [out.detach().numpy(), mean, rstd], dtype, 5)
    inputs = [g, x, weight, mean, rstd, groups, 1e-5, (True, True, True)]
    check(monkeypatch, fallback(cpu.group_norm_vjp), inputs, gradients(torch, out, [t, w, b], g), dtype, 50)


# --- convolution -----------------------------------------------------------------------------------------------------

CONVOLUTIONS = [
    ((3, 4, 31, 30), (6, 2, 3, 2), 2),
    ((2, 6, 40, 30), (6, 1, 3, 3), 6),
    ((2, 6, 40, 30), (12, 1, 5, 2), 6),
    ((1, 40, 40, 33), (32, 40, 3, 3), 1),
    ((4, 16, 21, 20), (8, 16, 1, 1), 1),
    ((41, 8, 7, 7), (8, 8, 3, 3), 1),
    ((7, 3, 700), (5, 3, 7), 1),
    ((2, 4, 9, 20, 21), (6, 2, 3, 2, 3), 2),
    ((4, 4, 12, 15, 11), (4, 1, 3, 3, 3), 4),
]
GEOMETRIES = [(1, 0, 1), (1, 1, 1), (2, 1, 1), (3, 2, 2)]  # stride, padding, dilation


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize(("x_shape", "w_shape", "groups"), CONVOLUTIONS, ids=str)
def test_convolution(x_shape, w_shape, groups, geometry, dtype, torch, rng, monkeypatch):
    n = len(x_shape) - 2
    stride, padding, dilation = [(number,) * n for number in geometry]
    stride = (*stride[:-1], geometry[0] + (n > 1 and geometry[0] > 1))  # not the same in every direction
    options = stride, padding, dilation, groups
    x, w, b = numbers(rng, x_shape, dtype), numbers(rng, w_shape, dtype), numbers(rng, w_shape[0], dtype)
    tx, tw, tb = tensors(torch, x, w, b)
    out = getattr(torch.nn.functional, f"conv{n}d")(tx, tw, tb, *options)
    g = numbers(rng, tuple(out.shape), dtype)
    g_x, g_w = gradients(torch, out, [tx, tw], g)
    check(monkeypatch, lambda x, w, b: conv.conv(x, w, b, *options), [x, w, b], [out.detach().numpy()], dtype, 5)
    check(monkeypatch, lambda g, w: conv.conv_dx(g, w, x_shape, *options), [g, w], [g_x], dtype, 5)
    check(monkeypatch, lambda g, x: conv.conv_dw(g, x, w_shape, *options), [g, x], [g_w], dtype, 5)


def test_convolution_of_no_images():
    x, w = ferro.zeros(0, 3, 8, 8, requires_grad=True), ferro.zeros(2, 3, 3, 3, requires_grad=True)
    out = ferro.nn.functional.conv2d(x, w)
    assert out.shape == (0, 2, 6, 6)
    found = ferro.autograd.grad(out.sum(), (x, w))
    assert [tuple(g.shape) for g in found] == [(0, 3, 8, 8), (2, 3, 3, 3)]


# --- pooling ---------------------------------------------------------------------------------------------------------

IMAGES = [(5, 9, 21, 30), (3, 40, 50), (2, 8, 11, 9, 12)]
WINDOWS = [(2, 2, 0, 1), (2, 2, 0, 2), (3, 2, 1, 1), (3, 1, 1, 2), (4, 3, 2, 1)]  # kernel, stride, padding, dilation


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_max_pool(shape, window, ceil_mode, dtype, torch, rng, monkeypatch):
    n = len(shape) - 2
    options = (*[(number,) * n for number in window], ceil_mode)
    x = numbers(rng, shape, dtype)
    x[rng.random(shape) < 0.05] = -np.inf
    x[rng.random(shape) < 0.02] = np.nan
    x[0] = -np.inf
    (t,) = tensors(torch, x)
    out, places = getattr(torch.nn.functional, f"max_pool{n}d")(t, *options, return_indices=True)
    expected = [out.detach().numpy(), places.numpy()]
    geometry = options[0], tuple(out.shape[2:]), *options[1:4]
    check(monkeypatch, lambda x: pooling.max_pool(x, *geometry), [x], expected, dtype)
    g = numbers(rng, tuple(out.shape), dtype)
    (g_x,) = gradients(torch, out, [t], g)
    check(monkeypatch, lambda g, i: pooling.pool_scatter(g, i, shape[2:]), [g, places.numpy()], [g_x], dtype, 2)


# --- optimisers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(7, 5), (401, 203)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"momentum": 0.8, "dampening": 0.1},
    ],
    ids=str,
)
def test_sgd_step(options, shape, dtype, torch, rng):
    full = {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False} | options
    start = numbers(rng, shape, dtype)
    reference = torch.nn.Parameter(torch.tensor(start.astype(np.float64)))
    optimiser = torch.optim.SGD([reference], lr=0.1, **options)
    runs = [(n, start.copy(), np.zeros_like(start) if full["momentum"] else None) for n in (1, 2, 4)]
    for step in range(4):
        g = numbers(rng, shape, dtype)
        reference.grad = torch.tensor(g.astype(np.float64))
        optimiser.step()
        for n, param, buffer in runs:
            threads.set_num_threads(n)
            cpu.sgd_step(param, buffer, g, 0.1, *full.values(), step == 0)
    close(runs[0][1], reference.detach().numpy(), TOLERANCE[dtype])
    for _, param, _ in runs[1:]:
        np.testing.assert_array_equal(param, runs[0][1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(7, 5), (401, 203)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adam", {}),
        ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
        ("AdamW", {"weight_decay": 0.1}),
        ("AdamW", {"amsgrad": True, "weight_decay": 0.0}),
    ],
    ids=str,
)
def test_adam_step(name, options, shape, dtype, torch, rng):
    start = numbers(rng, shape, dtype)
    reference = torch.nn.Parameter(torch.tensor(start.astype(np.float64)))
    optimiser = getattr(torch.optim, name)([reference], lr=0.1, **options)
    largest = options.get("amsgrad", False)
    runs = [
        (n, start.copy(), [np.zeros_like(start), np.zeros_like(start), np.zeros_like(start) if largest else None])
        for n in (1, 2, 4)
    ]
    more = 0.1, 0.9, 0.999, 1e-8, options.get("weight_decay", 0.0), name == "AdamW"
    for step in range(4):
        g = numbers(rng, shape, dtype)
        reference.grad = torch.tensor(g.astype(np.float64))
        optimiser.step()
        for n, param, state in runs:
            threads.set_num_threads(n)
            cpu.adam_step(param, *state, g, step + 1.0, *more)
    close(runs[0][1], reference.detach().numpy(), TOLERANCE[dtype] * 5)
    for _, param, _ in runs[1:]:
        np.testing.assert_array_equal(param, runs[0][1])


def test_steps_of_parameters_that_lie_alike_or_not(rng):
    start, g = numbers(rng, (80, 90), np.float32), numbers(rng, (80, 90), np.float32)
    expected = start.copy()
    cpu.sgd_step(expected, None, g, 0.1, 0.0, 0.0, 0.0, False, True)
    for layout in (np.asfortranarray, spread):
        for grad in (g, layout(g), np.asfortranarray(g)):
            param, before = layout(start.copy()), grad.copy()
            cpu.sgd_step(param, None, grad, 0.1, 0.0, 0.0, 0.0, False, True)
            np.testing.assert_allclose(param, expected, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(grad, before)


@pytest.mark.parametrize("size", [5, 5000])
def test_steps_of_infinities_and_nan(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        param, grad = np.full(size, np.inf), np.ones(size)
        cpu.sgd_step(param, None, grad, 0.1, 0.0, 0.0, 0.0, False, True)
        np.testing.assert_array_equal(param, np.inf)
        mean, square, largest = np.zeros((3, size))
        cpu.adam_step(param, mean, square, largest, grad, 1.0, 0.1, 0.9, 0.999, 1e-8, 0.0, False)
        np.testing.assert_array_equal(param, np.inf)
        cpu.adam_step(param, mean, square, largest, grad * np.nan, 2.0, 0.1, 0.9, 0.999, 1e-8, 0.0, False)
        np.testing.assert_array_equal([param, mean, square, largest], np.nan)


# --- the table, the compiler and its cache ---------------------------------------------------------------------------


def test_small_arrays_do_not_import_numba():
    code = """
import sys
import numpy as np
from ferro import cpu
from ferro.cpu import pooling
from ferro import functional as F
from ferro import tensor
x = np.linspace(0, 1, 4000, dtype=np.float32).reshape(40, 100)
F.silu(tensor(x, requires_grad=True)).sum().backward()
cpu.softmax_vjp(x, cpu.softmax(x, 1), 1)
losses, norms = cpu.row_losses(x, np.arange(40), None, -100, 0.1)
cpu.row_losses_vjp(losses, x, np.arange(40), norms, None, -100, 0.1)
cpu.batch_norm(x, None, None, None, None, True, 1e-5)
F.conv2d(tensor(x.reshape(2, 2, 10, 100)), tensor(x[:4, :18].reshape(4, 2, 3, 3), requires_grad=True), None, 2, 1).sum().backward()
pooling.max_pool(x.reshape(2, 2, 10, 100), (2, 2), (5, 50), (2, 2), (0, 0), (1, 1))
cpu.sgd_step(x, None, x.copy(), 0.1, 0.0, 0.0, 0.0, False, True)
print("numba" in sys.modules)
"""
    assert run_python(code).split() == ["False"]


def test_every_kernel_of_the_table_exists_and_every_kernel_is_in_the_table():
    numba = pytest.importorskip("numba")
    for module in registry.modules():
        if module.startswith("=") or module == "ferro.cpu.kernels.jit_elementwise":
            continue  # the text of a printed kernel; tests/cpu/test_elementwise.py has them all
        found = import_module(module)
        public = {
            name
            for name, value in vars(found).items()
            if isinstance(value, numba.core.dispatcher.Dispatcher)
            and value.targetoptions.get("nogil")
            and not value.targetoptions.get("forceinline")
            and not getattr(value, "_is_once", False)
            and value.py_func.__module__ == found.__name__
            and not name.startswith("_")
        }
        table = {name for name, home in registry._module_of.items() if home == module}
        last = module.rpartition(".")[2]
        paths = [path for made in ENTRIES.values() for path in (made.kernel, *made.large.split())]
        of_entries = {path.partition(".")[2] for path in paths if path.partition(".")[0] == last}
        assert table <= public, module
        assert public - table <= of_entries, module  # (what entries alone call is compiled with them)


@pytest.mark.slow
def test_warmup_compiles_every_kernel_that_is_called_in_the_dry_run():
    for kind in KINDS:
        for _ in compile_all(kind):
            pass
    for name, some in signatures().items():
        assert {tag_of(signature) for signature in some} <= get(name).tags, name
        if loader.SUPPORTED:
            assert {type(run).__name__ for run in get(name).runs} == {"builtin_function_or_method"}, name
