"""Every declared array function: its kernels against its formula, on both sides of every threshold; `into`; 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ferro import cpu
from ferro.cpu.array_function import DECLARED, ArrayFunction, array_function
from ferro.cpu.kernels.common import SMALL
from ferro.native import threads
from tests.configuration import with_kernels, with_machine_code

Array = np.ndarray[Any, Any]
FLOATS = (np.float32, np.float64)
MOST = 1 << 15  # elements of small arrays (native/jit_entries.py)
# One row, small arrays, many short rows, and large ones: for one thread, shared by rows, in long rows; several dimensions.
SHAPES = (
    *((1, 5), (6, 7), (276, 3), (SMALL // 64 + 1, 64), (MOST // 100 + 9, 100), (1200, 33), (3, 40_001)),
    *((2, 3, 4), (5, 67, 31), (90, 50, 9), (401, 57, 3)),
)


@pytest.fixture(autouse=True)
def _budget() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


@pytest.fixture(params=DECLARED.values(), ids=list(DECLARED))
def made(request: pytest.FixtureRequest) -> ArrayFunction:
    return request.param


def arguments(made: ArrayFunction, shape: tuple, dtype: Any, rng: np.random.Generator) -> list[tuple]:
    """The examples of a function for random numbers."""
    return list(made.examples(rng.uniform(0.5, 1, shape).astype(dtype)))


def answer(made: ArrayFunction, function: Any, given: tuple) -> Any:
    """What a function gives, or what it has made of the arguments that it changes (copies of them)."""
    if not made.changes:
        return function(*given)
    copies = [a if not isinstance(a, np.ndarray) else a.copy() if a.flags.carray else apart(a) for a in given]
    assert function(*copies) is None
    return tuple([a for a, word in zip(copies, made.words, strict=True) if word in ("changed", "state", "buffer")])


def together(found: Any) -> list[Array]:
    return [a for a in (found if isinstance(found, tuple) else (found,)) if a is not None]


def apart(a: Any) -> Any:
    """The same numbers, every other one of a larger array."""
    if not isinstance(a, np.ndarray) or a.ndim == 0:
        return a
    large = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    large[..., ::2] = a
    return large[..., ::2]


def wide(a: Any) -> Any:
    return a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind in "fV" else a


def near(found: Any, wanted: Any, dtype: Any, digits: float = 64) -> None:
    """Equal to what the formula gives in float64, up to some roundings of numbers of that size."""
    eps = digits * float(ml_dtypes.finfo(dtype).eps)
    for a, b in zip(together(found), together(wanted), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=eps, atol=eps * np.abs(b).max(initial=1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_compute_the_formula(made: ArrayFunction, shape: tuple, dtype: Any, rng: np.random.Generator) -> None:
    """In front of Python or behind it, of arrays that lie anyhow, with the same bits for any number of threads."""
    if len(shape) > 2 and "labels" in made.words:
        pytest.skip("it takes matrices")
    for given in arguments(made, shape, dtype, rng):
        wanted = answer(made, made.formula, tuple(map(wide, given)))
        for function in (getattr(cpu, made.name), made.function):
            found = []
            for count in (1, 2):
                threads.set_num_threads(count)
                found.append(together(answer(made, function, given)))
            for one, two in zip(*found, strict=True):
                assert one.tobytes() == two.tobytes()
            near(tuple(found[0]), wanted, dtype)
            assert all(a.dtype in (dtype, np.float64) for a in found[0])
            near(answer(made, function, tuple(map(apart, given))), wanted, dtype)
        near(answer(made, made.formula, given), wanted, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(6, 7), (MOST // 100 + 9, 100)], ids=str)
def test_results_are_written_into_arrays(
    made: ArrayFunction, shape: tuple, dtype: Any, rng: np.random.Generator
) -> None:
    if made.changes:
        pytest.skip("it has no result")
    for given in arguments(made, shape, dtype, rng):
        wanted = getattr(cpu, made.name)(*given)
        for lay in (np.copy, apart):
            outs = [lay(np.full_like(a, 7)) for a in together(wanted)]
            made.into(tuple(outs) if isinstance(wanted, tuple) else outs[0], *given)
            for out, a in zip(outs, together(wanted), strict=True):
                np.testing.assert_array_equal(out, a)
        first = together(wanted)[0]
        for wrong in (np.empty((*first.shape, 1), dtype), np.empty(first.shape, np.int32)):
            outs = [wrong, *[np.empty_like(a) for a in together(wanted)[1:]]]
            with pytest.raises(ValueError, match=f"{made.name}: the result has shape"):
                made.into(tuple(outs) if isinstance(wanted, tuple) else outs[0], *given)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 7), (70, 90)], ids=str)
def test_sixteen_bits_are_computed_in_float32(
    made: ArrayFunction, shape: tuple, dtype: Any, rng: np.random.Generator
) -> None:
    if made.changes:
        pytest.skip("it computes in the dtype of its arguments")
    for given in arguments(made, shape, dtype, rng):
        wanted = together(made.formula(*map(wide, given)))
        for word, a, b in zip(made.results, together(getattr(cpu, made.name)(*given)), wanted, strict=True):
            rounded = word in ("x", "r")
            assert a.dtype == (dtype if rounded else np.float64 if word == "norms" else np.float32)
            near(a, b, dtype if rounded else np.float32, 1 if rounded else 64)


@with_kernels
def test_only_results_that_are_wanted(made: ArrayFunction, rng: np.random.Generator) -> None:
    if "needs" not in made.words:
        pytest.skip("all its results are always wanted")
    for shape in ((6, 7), (MOST // 100 + 9, 100)):
        for given in arguments(made, shape, np.float32, rng):
            for k in range(len(made.results)):
                needs = tuple(j == k for j in range(len(made.results)))
                part = tuple(needs if word == "needs" else a for word, a in zip(made.words, given, strict=True))
                found = made.function(*part)
                assert [a is not None for a in found] == list(needs)
                near(found[k], made.formula(*given)[k], np.float32)


@with_machine_code
def test_entries_answer_for_small_and_large_arrays(made: ArrayFunction, rng: np.random.Generator) -> None:
    """Every declared function has entries: what stands in `cpu` is machine code."""
    assert type(getattr(cpu, made.name)) is type(len)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match="softmax is declared already"):
        array_function("softmax", "x last -> x +", formula=np.exp, loop="jit_softmax.softmax")
