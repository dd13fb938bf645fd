"""Entries of small layers, losses, rows, joined arrays and convolutions against the functions that they stand before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.core.op import OPS
from ferro.cpu import losses
from ferro.native.entries import fallback
from tests.configuration import with_machine_code

pytestmark = with_machine_code
DTYPES = (np.float32, np.float64)
ALL = (True, True, True)


def numbers(rng: np.random.Generator, dtype: Any, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def alike(found: Any, wanted: Any, precise: bool | None = None) -> None:
    """Arrays of one dtype and shape, or tuples of them, up to rounding."""
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple)
        for a, b in zip(found, wanted, strict=True):
            alike(a, b, precise)
        return
    precise = wanted.dtype == np.float64 if precise is None else precise
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = 1e-12 if precise else 1e-5
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)


def answers(function: Any, *arguments: Any) -> Any:
    """What an entry gives, which must not ask its fallback."""
    met = []

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            met.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        found = function(*arguments)
    finally:
        sys.setprofile(None)
    assert not met
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # (of no labels: 0 / 0)
@pytest.mark.parametrize("target", [[0, 3, 1], [2, -100, 0], [1, 1, 1], [-100, -100, -100]])
def test_cross_entropy(target: list, dtype: Any, rng: np.random.Generator) -> None:
    x, g = numbers(rng, dtype, (3, 4), ())
    labels = np.array(target)
    found = answers(cpu.cross_entropy, x, labels, None, -100, "mean", 0.0)
    wanted = fallback(cpu.cross_entropy)(x, labels, None, -100, "mean", 0.0)
    alike(found[0], wanted[0])
    alike(found[1], wanted[1], dtype == np.float64)
    back = g, x, labels, None, -100, "mean", 0.0, found[1]
    alike(answers(cpu.cross_entropy_vjp, *back), fallback(cpu.cross_entropy_vjp)(*back))


def test_classes_out_of_bounds_are_refused_as_before() -> None:
    x = np.zeros((2, 3), np.float32)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            cpu.cross_entropy(x, np.array([0, wrong]), None, -100, "mean", 0.0)
    with pytest.raises(IndexError, match="index out of range: 3"):
        cpu.take_rows(x, np.array([0, 3]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_of_differences(dtype: Any, rng: np.random.Generator) -> None:
    x, y, g = numbers(rng, dtype, (3, 4), (3, 4), ())
    for kind in losses.KINDS.values():
        loss, slope = (kind, x, y, 0.5, 2.0, "mean"), (kind, g, x, y, 0.5, 2.0)
        alike(answers(cpu.difference_loss, *loss), fallback(cpu.difference_loss)(*loss))
        np.testing.assert_array_equal(answers(cpu.difference_slope, *slope), fallback(cpu.difference_slope)(*slope))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_rows_of_a_table(shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    table, g = numbers(rng, dtype, (5, 4), (*shape, 4))
    index = rng.integers(0, 5, shape)
    np.testing.assert_array_equal(answers(cpu.take_rows, table, index), table[index])
    found = answers(cpu.add_rows, g, index, 5, None, False)
    np.testing.assert_array_equal(found, fallback(cpu.add_rows)(g, index, 5, None, False))


@pytest.mark.parametrize("dtype", DTYPES)
def test_joined_arrays(dtype: Any, rng: np.random.Generator) -> None:
    x, y, z = numbers(rng, dtype, (2, 3, 4), (2, 5, 4), (2, 3, 4))
    x[0, 0, :3] = -0.0, np.inf, np.nan
    for xs in ((x, y), (x, y[:, ::-2], x[:, 1:]), (x.swapaxes(0, 1).copy().swapaxes(0, 1), y[::-1]), (x[:, :0], y)):
        np.testing.assert_array_equal(answers(cpu.cat, xs, 1), np.concatenate(xs, 1))
    for dim in range(4):
        for xs in ((x, z), (x[:, :, ::-1], z[:, ::-1]), (x,)):
            found = answers(cpu.stack, xs, dim)
            np.testing.assert_array_equal(found, np.stack(xs, dim))
            assert found.flags.c_contiguous
    one = np.array(1, dtype)
    np.testing.assert_array_equal(answers(cpu.stack, (one, one), 0), [1, 1])
    assert cpu.cat((x, y.astype(np.float16)), 1).dtype == dtype
    with pytest.raises(ValueError, match="must match"):
        cpu.cat((x, y), 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices(dtype: Any, rng: np.random.Generator) -> None:
    x, y, row, one = numbers(rng, dtype, (3, 4), (3, 4), (4,), ())
    x[0, 0], y[1, :2] = np.nan, (-0.0, np.inf)
    mask = x > 0.1
    for other in (y, row, one, 2.5, 3, y[::-1], y.T.copy().T):
        found, wanted = answers(cpu.where, mask, x, other), np.where(mask, x, other)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    left = [(mask[0], x, y), (mask[::-1], x, y), (mask, 0.5, y), (mask, row, y), (mask, x[::-1], y)]
    left += [(mask, x, y.astype(np.float16)), (mask[:0], x[:0], y[:0]), (mask.astype(np.uint8), x, y)]
    for given in left:
        found, wanted = cpu.where(*given), np.where(*given)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)


GEOMETRIES = [
    ((5, 4), (3, 2), (1, 1), (0, 0), (1, 1)),
    ((5, 6), (3, 3), (2, 1), (1, 2), (1, 1)),
    ((7, 5), (2, 3), (2, 3), (1, 0), (2, 2)),
    ((3, 3), (2, 2), (1, 1), (3, 3), (1, 1)),
    ((6,), (3,), (2,), (2,), (1,)),
    ((3, 4, 3), (2, 2, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("images", [1, 2])
def test_convolutions(images: int, geometry: tuple, dtype: Any, rng: np.random.Generator) -> None:
    size, kernel, stride, pad, dilation = geometry
    out = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(*geometry, strict=True)])
    x, w, y, b, c = numbers(rng, dtype, (images, 1, *size), (2, 1, *kernel), (images, 2, *out), (2,), (1,))
    shape = stride, pad, dilation, 1
    for bias in (b, None):
        given = x, w, bias, out, *shape
        alike(answers(cpu.conv, *given), fallback(cpu.conv)(*given))
    for bias in (c, None):
        given = y, w, bias, size, *shape
        alike(answers(cpu.conv_input, *given), fallback(cpu.conv_input)(*given))
    given = x, y, kernel, *shape
    alike(answers(cpu.conv_weight, *given), fallback(cpu.conv_weight)(*given))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("buffered", [True, False])
def test_a_step_of_sgd(buffered: bool, dtype: Any, rng: np.random.Generator) -> None:
    p, b, g = numbers(rng, dtype, (3, 4), (3, 4), (3, 4))
    again, buffers = p.copy(), (b, b.copy()) if buffered else (None, None)
    rest = g, 0.1, 0.9, 0.5, 0.01, False, False
    assert answers(cpu.sgd_step, p, buffers[0], *rest) is None
    fallback(cpu.sgd_step)(again, buffers[1], *rest)
    close = {
        "rtol": 4 * np.finfo(dtype).eps,
        "atol": 4 * np.finfo(dtype).eps,
    }  # (machine code rounds a product and a sum once)
    np.testing.assert_allclose(p, again, **close)
    if b is not None and buffers[1] is not None:
        np.testing.assert_allclose(b, buffers[1], **close)
    p.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        cpu.sgd_step(p, None, *rest)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cat": cpu.cat,
    "stack": cpu.stack,
    "take_rows": cpu.take_rows,
    "conv": cpu.conv,
    "batch_norm": cpu.batch_norm,
    "cross_entropy": cpu.cross_entropy,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_array_goes_to_python(name: str) -> None:
    function: Any = FUNCTIONS[name]
    assert isinstance(function, BuiltinFunctionType)
    count = fallback(function).__code__.co_argcount
    for odd in (None, 1, "mean", (), [], (None,), np.zeros(3, np.int8)):
        outcomes = []
        for each in (function, fallback(function)):
            try:
                outcomes.append(str(each(*[odd] * count)))
            except Exception as e:  # noqa: BLE001 (whatever Python raises)
                outcomes.append(repr(e))
        assert outcomes[0] == outcomes[1]


def test_views_of_a_leaf_with_a_gradient_are_the_same_as_of_one_without() -> None:
    def seen(x: ferro.Tensor) -> list:
        views = [x[1], *x.unbind(0), x[:, 1:]]
        return [(v.requires_grad, v._base is x, v._version, v.is_leaf) for v in views]

    x = ferro.ones(3, 3, requires_grad=True)
    before = seen(x)
    with ferro.no_grad():
        silent = seen(x)
    (x * x).sum().backward()
    assert x.grad is not None
    assert seen(x) == before
    with ferro.no_grad():
        assert seen(x) == silent
        joined = ferro.cat((x[1:], x[:1]))
    with pytest.raises(RuntimeError, match="no_grad"):
        joined.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_beside_arrays_are_read_by_entries(dtype: Any, rng: np.random.Generator) -> None:
    x, y, z = numbers(rng, dtype, *[(3, 4)] * 3)
    assert isinstance(cpu.addcmul, BuiltinFunctionType)
    for value in (1, -2, 0.25):
        alike(cpu.addcmul(x, y, z, value), x + y * z * dtype(value))
        alike(cpu.addcmul(x, y[:1], z, value), x + y[:1] * z * dtype(value))
        for order in ((x, y), (x.T, y.T), (x, y[0])):
            a, b = order
            alike(cpu.lerp(a, b, dtype(value)), a + (b - a) * dtype(value))


def test_operations_keep_the_entries_of_their_elementwise_function() -> None:
    assert isinstance(OPS["addcmul"].direct, BuiltinFunctionType)
