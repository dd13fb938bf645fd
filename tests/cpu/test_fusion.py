"""Elementwise formulas as programs: the same numbers as NumPy gives, and no program for what is not elementwise."""

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu import fusion, lowering
from ferro.cpu.lowering import loop_of
from ferro.cpu.thresholds import BLOCK_LEAST, PROGRAM_LEAST
from ferro.native import readiness, threads, workers
from tests.configuration import with_kernels

SIZE = PROGRAM_LEAST + 4099  # some blocks, the last of them ragged


@pytest.fixture(autouse=True)
def _ready(monkeypatch):
    """Two threads, and machine code for programs."""
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    monkeypatch.setattr(workers, "_MOST", 4)
    readiness.parallel(fusion._PROGRAM)
    readiness.finish()
    yield
    threads.set_num_threads(before)


FORMULAS = {
    "tanh": lambda xp, g, y: g * (1 - y * y),
    "root": lambda xp, g, x: g * xp.sqrt(abs(x)),
    "log1p": lambda xp, g, x: g / (x + 1),
    "hypot": lambda xp, x, y: xp.sqrt(x * x + y**2),
    "inside": lambda xp, x, y: (x < y) & (x > -0.5) | ~(y >= 0.25),
    "many": lambda xp, x, y: (x + y) * (x - y) / (2 + abs(x) * abs(y)) - xp.maximum(x, y) * xp.floor(-x).conj(),
    "one": lambda xp, x, y: x * y,
    "choice": lambda xp, x, y: y * xp.where(x < y, x, 0.0) - xp.where((x == 0) | (y > 0), 1.0, xp.where(x > 0, x, y)),
    "power": lambda xp, x, y: xp.power(abs(x), y) + (x * x) ** y,
}


def reference(formula, *arrays):
    return formula(cpu, *arrays)


@with_kernels
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_programs_give_the_numbers_that_numpy_gives(name, dtype, n):
    threads.set_num_threads(n)
    rng = np.random.default_rng(0)
    x, y = [rng.standard_normal(SIZE).astype(dtype) for _ in range(2)]
    x[::97], y[::89], x[5::101] = np.nan, np.inf, -0.0
    with np.errstate(all="ignore"):
        expected = reference(FORMULAS[name], x, y)
    found = fusion.evaluate(FORMULAS[name], x, y)
    if n == 1 and name == "one":
        assert found is None  # NumPy is as quick
        return
    assert found is not None
    assert found.dtype == expected.dtype
    if name == "power" and np.dtype(dtype) in lowering.OWN_POWERS:  # (`**` is NumPy's, which calls C's pow)
        np.testing.assert_allclose(found, expected, rtol=5 * np.finfo(dtype).eps)
        return
    np.testing.assert_array_equal(found, expected)


@with_kernels
def test_numbers_and_arrays_of_one_element_stand_beside_large_arrays():
    x = np.linspace(-1, 1, SIZE, dtype=np.float32).reshape(3, -1)[:, : SIZE // 3].copy()
    x = np.resize(x, (3, 50_000))
    scale = np.full((1,), 0.3, np.float32)

    def formula(xp, x, scale, shift):
        return x * scale + shift * x

    found = fusion.evaluate(formula, x, scale, 0.7)
    np.testing.assert_array_equal(found, x * scale + np.float32(0.7) * x)
    assert fusion.evaluate(formula, x, scale, 0.8)[0, 0] != found[0, 0]  # another number, another program


@with_kernels
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("shape", [(300,), (1, 300), (200, 1), (20, 10, 1), (10, 300), (1, 10, 300)])
def test_rows_and_columns_are_repeated(shape, n):
    threads.set_num_threads(n)
    x = np.linspace(-1, 1, 60_000, dtype=np.float32).reshape(
        (200, 300) if len(shape) < 3 and shape[0] != 10 else (20, 10, 300)
    )
    y = np.linspace(0, 2, np.prod(shape), dtype=np.float32).reshape(shape)
    found = fusion.evaluate(lambda xp, x, y: y - x * y, x, y)
    if shape[0] == 1 and len(shape) > 1:
        assert found is None  # NumPy's matter: a leading one
        return
    np.testing.assert_array_equal(found, y - x * y)


def expanded(shape, *sizes):
    return np.broadcast_to(np.linspace(0, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape), sizes)


@with_kernels
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("formula", [lambda xp, x, y: x - y, lambda xp, x, y: y - x * y, lambda xp, x, y: x / y])
@pytest.mark.parametrize("shape", [(20, 300, 1), (1, 300, 1), (20, 1, 400), (300, 400), (20, 1, 1), (400,), ()])
def test_what_repeats_an_array_is_read_as_it_lies(shape, formula, n):
    threads.set_num_threads(n)
    x = np.linspace(-1, 1, 20 * 300 * 400, dtype=np.float32).reshape(20, 300, 400)
    y = expanded(shape, *x.shape)
    with np.errstate(all="ignore"):
        found, expected = fusion.evaluate(formula, x, y), formula(cpu, x, y)
    if found is not None:  # (NumPy's matter: in the middle; on one thread a single step with a number)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    assert found is not None or shape in ((1, 300, 1), (20, 1, 400), ())


@with_kernels
def test_the_result_has_the_shape_to_which_arrays_repeat_themselves():
    x = np.ones((2, PROGRAM_LEAST), np.float32)
    rows, wide = expanded((PROGRAM_LEAST,), 1, 2, PROGRAM_LEAST), expanded((PROGRAM_LEAST, 1), PROGRAM_LEAST, 2)
    assert fusion.evaluate(lambda xp, x, y: x * y, x, rows) is None
    assert fusion.evaluate(lambda xp, x, y: x * y, x, wide) is None
    assert fusion.evaluate(lambda xp, x, y: x * y, rows[0], rows[0]) is None


@with_kernels
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_in_other_orders_are_turned_or_copied(dtype, n):
    threads.set_num_threads(n)
    x, y = [np.linspace(k, 2, 24 * 70 * 130, dtype=dtype).reshape(24, 70, 130) for k in range(2)]
    formula = FORMULAS["many"]
    for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)):
        back = np.argsort(order)
        a = np.ascontiguousarray(x.transpose(order)).transpose(back)
        for b in (y, np.ascontiguousarray(y.transpose(order)).transpose(back)):
            found = fusion.evaluate(formula, a, b)
            if found is not None:  # (rows that lie side by side are NumPy's matter)
                np.testing.assert_array_equal(found, formula(cpu, x, y))
                assert found.strides == a.strides
            assert found is not None or order == (1, 0, 2)


@with_kernels
def test_the_result_may_take_the_place_of_an_operand():
    x, y = np.ones(SIZE), np.full(SIZE, 2.0)
    assert fusion.evaluate(lambda xp, x, y: x + y, x, y, out=x) is x
    assert (x == 3).all()


@with_kernels
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 1000])
def test_results_that_go_past_the_caches_are_the_same(columns, dtype, n, monkeypatch):
    threads.set_num_threads(n)
    x = np.linspace(-1, 1, SIZE + 100, dtype=dtype)[: (SIZE + 100) // columns * columns].reshape(-1, columns)
    y = np.linspace(0, 2, columns, dtype=dtype)
    monkeypatch.setattr(fusion, "STREAM_LEAST", 1)
    fusion._plan.cache_clear()
    for start in (0, 1, 3):  # results and inputs that begin anywhere
        a = x.reshape(-1)[start * columns :].reshape(-1, columns)
        b = a if columns == 1 else y
        np.testing.assert_array_equal(fusion.evaluate(FORMULAS["tanh"], a, b), a * (1 - b * b))
        np.testing.assert_array_equal(fusion.evaluate(lambda xp, x, y: x < y, a, b), a < b)
    fusion._plan.cache_clear()


def test_functions_that_are_kernels_are_no_steps_of_programs():
    x = np.ones(SIZE, np.float32)
    assert fusion.evaluate(lambda xp, x: x + xp.exp(x), x) is None


X = np.ones(2 * PROGRAM_LEAST)


@pytest.mark.parametrize(
    ("formula", "args"),
    [
        (lambda xp, x: x.reshape(-1), (X,)),
        (lambda xp, x: x @ x, (X,)),
        (lambda xp, x: x if x.sum() > 0 else -x, (X,)),
        (lambda xp, x: -x if x > 0 else x, (X,)),
        (lambda xp, x: xp.cumsum(x, 0), (X,)),
        (lambda xp, x: x, (X,)),
        (lambda xp, x, y: x + y, (X, X[:, None][:2].T)),
        (lambda xp, x, y: x + y, (X, X[::-1])),
        (lambda xp, x, y: x + y, (X, X.astype(np.float32))),
        (lambda xp, x, y: x + y, (X, np.array(1.0, np.float32))),
        (lambda xp, x: x + 1, (X.astype(np.int64),)),
        (lambda xp, x: -x, (X * 1j,)),
        (lambda xp, x: -x, (X[:100],)),
        (lambda xp, x, y: x + y, (X.reshape(2, -1)[:, ::2], X.reshape(2, -1)[:, ::2])),
        (lambda xp, x: x.reshape(-1) * 2, (X.reshape(2, -1).T,)),
        (lambda xp, x: x * xp.where(x > 0, 1.0, 2.0), (X,)),
        (lambda xp, x: xp.where(x, x, 0.0), (X,)),
        (lambda xp, x: xp.power(x, 3), (X,)),
        (lambda xp, x, list: x * list[0], (X, [2.0])),
    ],
)
def test_what_is_no_program_is_left_alone(formula, args):
    assert fusion.evaluate(formula, *args) is None


def test_a_large_chain_has_the_numbers_of_small_ones_for_any_number_of_threads():
    rng = np.random.default_rng(1)
    data = rng.standard_normal((2, 2, 40_000))

    def gradients(part):
        x, y = [ferro.tensor(part[k], requires_grad=True) for k in range(2)]
        ((x * y / (y * y + 1)) - (x * x + 2).sqrt() * y.square()).sum().backward()
        return x.grad.numpy(), y.grad.numpy()

    found = {}
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        found[n] = gradients(data.reshape(2, -1))
    small = [gradients(data.reshape(2, -1)[:, i : i + 1000]) for i in range(0, 80_000, 1000)]
    for k in range(2):
        np.testing.assert_array_equal(found[1][k], found[2][k])
        np.testing.assert_array_equal(found[1][k], found[3][k])
        np.testing.assert_array_equal(found[2][k], np.concatenate([pair[k] for pair in small]))


@with_kernels
def test_a_slope_that_is_one_call_has_the_same_bits_wherever_an_element_stands():
    """It had others in a last short block, which NumPy computed."""
    rng = np.random.default_rng(2)
    data, target = rng.standard_normal((2, 2 * BLOCK_LEAST + 1001)).astype(np.float32)

    def slope(x, y):
        x = ferro.tensor(x, requires_grad=True)
        loss = ferro.nn.functional.binary_cross_entropy_with_logits(x, ferro.tensor(y).sigmoid(), reduction="sum")
        loss.backward()
        return x.grad.numpy()

    slope(data, target)  # (the kernel is compiled)
    readiness.finish()
    turned = slope(np.flip(data).copy(), np.flip(target).copy())
    np.testing.assert_array_equal(slope(data, target), np.flip(turned))


def test_loops_are_those_of_the_ufunc():
    for ufunc in (np.add, np.sqrt, np.less, np.logical_not):
        for codes in ufunc.types:
            if not set(codes) & set("OmMgGe"):
                assert loop_of(ufunc, codes) is not None
    assert loop_of(np.add, "fd->d") is None
