"""Entries of large arrays: who answers, with which numbers, and the same ones for any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from ferro.cpu.kernels import entries
from ferro.elementwise import DECLARED
from ferro.native import thread_pool, threads, workers
from ferro.native.thresholds import ENTRY_COLUMNS, ENTRY_MOST
from ferro.native.work_queue import BUDGET, CORES, RUNS, SHARED
from tests.configuration import with_fma, with_machine_code

pytestmark = with_machine_code

DTYPES = (np.float32, np.float64)
LARGE = 300 * 401
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


class Behind(Exception):
    """The fallback of an entry has been called."""


def refuse(*_: Any) -> Any:
    raise Behind


def ask(name: str, *args: Any) -> Any:
    """What the entry of that name answers, by itself."""
    function = entries.entry_of(DECLARED[name], refuse) if name in DECLARED else entries.with_entry(refuse, name)
    assert function is not refuse, f"there is no machine code of {name}"
    return function(*args)


def ask_all(name: str, *args: Any) -> Any:
    """The same, which must not depend on the number of threads."""
    answers = []
    for count in (1, 2, 3, 2):
        threads.set_num_threads(count)
        answers.append(ask(name, *args))
    for other in answers[1:]:
        for a, b in zip(_tuple(answers[0]), _tuple(other), strict=True):
            assert a.tobytes() == b.tobytes(), f"{name} depends on the number of threads"
    return answers[0]


def _tuple(found: Any) -> tuple:
    return found if isinstance(found, tuple) else (found,)


def near(found: Array, wanted: Array, x: Array, digits: float = 4) -> None:
    """Equal up to some roundings."""
    assert found.dtype == x.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=digits * np.finfo(x.dtype).eps, atol=digits * np.finfo(x.dtype).tiny)


@pytest.fixture(params=DTYPES)
def x(request: pytest.FixtureRequest, rng: np.random.Generator) -> Array:
    return rng.standard_normal((300, 401)).astype(request.param)


REDUCTIONS = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(300, 401), (LARGE,), (2, 60_000), (60_000, 2), (3, 200, 201), (7, 1, 20_000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(name: str, shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.5, shape).astype(dtype)
    for first in range(len(shape)):
        for stop in range(first + 1, len(shape) + 1):
            dims = tuple(range(first, stop))
            for keep in (False, True):
                wanted = np.asarray(REDUCTIONS[name](x.astype(np.longdouble), axis=dims, keepdims=keep))
                near(ask_all(name, x, dims, keep), wanted.astype(dtype), x, 8)


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_with_nan_and_infinities(name: str, dtype: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 30_000)).astype(dtype)
    x[0, 12_345], x[1, 0], x[1, 1], x[2] = np.nan, np.inf, -np.inf, -np.inf
    for dims in ((0,), (1,), (0, 1)):
        assert np.array_equal(ask_all(name, x, dims, False), REDUCTIONS[name](x, axis=dims), equal_nan=True)


def test_norm(x: Array) -> None:
    for dims in ((0,), (1,), (0, 1)):
        wanted = np.sqrt((x.astype(np.longdouble) ** 2).sum(dims)).astype(x.dtype)
        near(ask_all("vector_norm", x, 2.0, dims, False), np.asarray(wanted), x)
    with pytest.raises(Behind):
        ask("vector_norm", x, 3.0, (0,), False)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "maximum", "minimum"])
def test_two_arrays_or_an_array_and_a_number(name: str, x: Array, rng: np.random.Generator) -> None:
    y = rng.standard_normal(x.shape).astype(x.dtype)
    x[0, :3], y[1, :3] = (np.nan, np.inf, -np.inf), (-np.inf, np.nan, np.inf)
    ufunc = getattr(np, {"sub": "subtract", "mul": "multiply", "truediv": "divide"}.get(name, name))
    with np.errstate(all="ignore"):
        for other in (y, 3, 0.1, np.array(0.1, x.dtype)):
            wanted = ufunc(x, other)
            found = ask_all(name, x, other)
            assert found.dtype == x.dtype
            assert np.array_equal(found, wanted, equal_nan=True)


UFUNCS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}


@pytest.mark.parametrize("name", UFUNCS)
def test_a_large_array_and_what_it_repeats(name: str, x: Array) -> None:
    """Rows and columns, as they are and spread out by strides of 0, on both sides; beside them whole arrays of all sizes."""
    deep = x[:, :400].copy().reshape(10, 30, 400)
    spread = [np.broadcast_to(x[0], x.shape), np.broadcast_to(x[:, :1].copy(), x.shape)]
    cases = [(x, y) for y in (x[0].copy(), x[:1], x[:, :1].copy(), *spread, x[::-1].copy())]
    cases += [(deep, y) for y in (deep[0].copy(), deep[0, 0].copy(), deep[:, :1, :1].copy(), deep[:, :, :1].copy())]
    cases += [(x[:4, :3].copy(), y) for y in (x[0, :3].copy(), x[5:9, :3].copy())]
    for whole, y in cases:
        assert np.array_equal(ask_all(name, whole, y), UFUNCS[name](whole, y))
        if y.size == whole.size or whole.size > ENTRY_MOST:
            assert np.array_equal(ask_all(name, y, whole), UFUNCS[name](y, whole))


@pytest.mark.parametrize("name", UFUNCS)
def test_what_is_repeated_otherwise_is_for_others(name: str, x: Array) -> None:
    deep = x[:, :400].copy().reshape(10, 30, 400)
    short = x[:, :400].copy().reshape(-1, ENTRY_COLUMNS - 56)
    cases = [(x, x[:, :1]), (x[:, ::2], x[0, :201].copy()), (deep, deep[:, :1].copy()), (x, x[0, ::-1]), (x, x[:1, :7])]
    cases += [(short, short[0].copy()), (x[:5, :300].copy(), x[:5, :1].copy()), (x, x[0].astype(np.float16))]
    for whole, y in cases:
        for given in ((whole, y), (y, whole)):
            with pytest.raises(Behind):
                ask(name, *given)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_row_beside_a_large_array_is_for_others(name: str, x: Array) -> None:
    with pytest.raises(Behind):
        ask(name, x, x[0].copy())


def _softplus(v: Array) -> Array:
    return np.log1p(np.exp(v))


UNARY: dict[str, Any] = {
    "neg": np.negative,
    "relu": lambda v: np.maximum(v, 0),
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
    "mish": lambda v: v * np.tanh(_softplus(v)),
    "erf": lambda v: special.erf(v.astype(np.float64)),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str, x: Array) -> None:
    near(ask_all(name, x), UNARY[name](x.astype(np.longdouble)).astype(x.dtype), x, 16)


@pytest.mark.parametrize("name", ["exp", pytest.param("sin", marks=with_fma), pytest.param("cos", marks=with_fma)])
def test_functions_of_one_array_of_float32(name: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal(LARGE).astype(np.float32)
    near(ask_all(name, x), getattr(np, name)(x.astype(np.float64)).astype(np.float32), x)


def test_square_root(x: Array) -> None:
    assert np.array_equal(ask_all("sqrt", np.abs(x)), np.sqrt(np.abs(x)))


def test_what_entries_do_not_take_is_for_others(x: Array) -> None:
    for other in (
        x[:, ::2],
        np.broadcast_to(x[:1], x.shape),
        x.astype(np.float16),
        x.astype(np.int64),
        x.astype(x.dtype.newbyteorder()),
    ):
        for name, rest in (("neg", ()), ("sum", ((0,), False))):
            with pytest.raises(Behind):
                ask(name, other, *rest)
    for cube, dims in ((x.reshape(300, 401, 1), (0, 2)), (x.reshape(3, 100, 401).T, (0, 1))):
        with pytest.raises(Behind):
            ask("sum", cube, dims, False)
    with pytest.raises(Behind):
        ask("neg", np.zeros((1 << 22) + 1, x.dtype))


def test_members_are_called_together_for_a_large_array(x: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python, which knows how; not while the threads have other work, and not for one thread."""
    called = []
    watch: Any = lambda: called.append(threading.get_ident())  # noqa: E731 (its address is what counts)
    shared = SHARED.copy()
    try:
        SHARED[workers.GATHER] = id(watch)
        SHARED[workers.MEMBERS], SHARED[BUDGET], SHARED[CORES] = 0, 2, 2
        assert np.array_equal(ask("neg", x), -x)
        assert called == [threading.get_ident()]
        for place, value in ((BUDGET, 1), (CORES, 1), (RUNS, 1)):
            before, SHARED[place] = SHARED[place].copy(), value
            assert np.array_equal(ask("neg", x), -x)
            SHARED[place] = before
        assert len(called) == 1
        assert np.array_equal(ask("neg", x[:10]), -x[:10])  # a small array
        assert len(called) == 1
    finally:
        SHARED[:] = shared


def test_an_error_while_members_are_called_is_raised(x: Array) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    shared = SHARED.copy()
    try:
        SHARED[workers.GATHER] = id(fail)
        SHARED[workers.MEMBERS], SHARED[BUDGET], SHARED[CORES] = 0, 2, 2
        with pytest.raises(KeyboardInterrupt):
            ask("neg", x)
    finally:
        SHARED[:] = shared


def test_runs_of_the_pool_are_counted() -> None:
    seen = []
    thread_pool.run_workers(lambda _: seen.append(int(SHARED[RUNS])), 2)
    assert seen == [1, 1]
    assert SHARED[RUNS] == 0
