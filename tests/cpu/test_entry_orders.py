"""Entries of arrays whose dimensions lie in any order in memory: the numbers of C order, and a result that lies as the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from ferro.cpu import layouts
from ferro.cpu.kernels import entries
from ferro.elementwise import DECLARED
from ferro.native.threads import get_num_threads, set_num_threads
from tests.configuration import with_machine_code

pytestmark = with_machine_code
DTYPES = (np.float32, np.float64)
ELEMENTWISE = {
    name: words.split()
    for name, made in entries.DECLARED.items()
    if (words := made.layout.rstrip(" +?"))
    and words.endswith("-> x")
    and set(words.split()) <= {"x", "many", "=", "~", "->"}
}
PRINTED = {name: function for name, function in DECLARED.items() if function.entry and not function.numbers}
ELEMENTWISE |= {name: [function.entry, *["="] * (function.arrays - 1), "->", "x"] for name, function in PRINTED.items()}

REPEATING = {name for name in ELEMENTWISE if name in entries.DECLARED and entries.DECLARED[name].large}


@pytest.fixture
def threads() -> Iterator[Callable]:
    """What sets the number of threads, for one test."""
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


class Behind(Exception):
    """The fallback of an entry has been called."""


def refuse(*_: Any) -> Any:
    raise Behind


def ask(name: str, *args: Any) -> Any:
    """What the entry of that name answers, by itself."""
    function = entries.entry_of(PRINTED[name], refuse) if name in PRINTED else entries.with_entry(refuse, name)
    if function is refuse:
        pytest.skip(f"there is no machine code of {name} on this processor")
    return function(*args)


def permuted(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The same elements, the dimensions in this order in memory."""
    out = x.transpose(order).copy()
    return out.transpose(np.argsort(order))


def others(x: np.ndarray) -> list[np.ndarray]:
    """The elements of x in memory as kernels do not read them: with gaps, backwards, all the same, in C order."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    back = x[::-1].copy()[::-1]
    return [
        wide[..., ::2],
        back,
        np.broadcast_to(x[:1], x.shape),
        x.copy(),
        permuted(x, tuple(reversed(range(x.ndim)))),
    ]


def sliced(x: np.ndarray) -> np.ndarray:
    """The same elements as a part of a larger matrix."""
    wide = np.zeros((*x.shape[:-2], x.shape[-2] + 2, 3 * x.shape[-1]), x.dtype)
    out = wide[..., 1:-1, x.shape[-1] : 2 * x.shape[-1]]
    out[...] = x
    return out


def test_the_entries_of_elementwise_functions_are_known() -> None:
    assert {"add", "sub", "mul", "truediv", "maximum", "neg", "relu", "relu_slope", "sigmoid", "silu_slope"} <= set(
        ELEMENTWISE
    )


def arrays_for(name: str, shape: tuple, dtype: Any, rng: np.random.Generator) -> list:
    """Arrays of one shape, as many as an entry takes; a test is skipped where the entry takes larger ones alone."""
    if "many" in ELEMENTWISE[name] and math.prod(shape) < 4096:
        pytest.skip("for arrays that are not too small")
    return [rng.uniform(0.5, 2, shape).astype(dtype) for _ in range(len(ELEMENTWISE[name]) - 2)]


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (2, 1, 3, 5), (70, 80), (1, 6, 1), (24, 60, 50)])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions(name: str, shape: tuple, rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        plain = arrays_for(name, shape, dtype, rng)
        for order in permutations(range(len(shape))):
            first = permuted(plain[0], order)
            for rest in zip(*map(others, plain[1:]), strict=True) if len(plain) > 1 else [()]:
                repeated = name in REPEATING and first.flags.c_contiguous and any(0 in a.strides for a in rest)
                rows = first.flags.c_contiguous and all(
                    a.strides[-1] == a.itemsize for a in rest
                )  # that begin anywhere
                if plain[0].size > 1 << 15 and rest and rest[0].strides != first.strides and not repeated and not rows:
                    with pytest.raises(Behind):
                        ask(name, first, *rest)
                    continue
                found = ask(name, first, *rest)
                assert (
                    found.tobytes() == ask(name, plain[0], *[r.copy("C") for r in rest]).tobytes()
                )  # in the order of C
                wanted = layouts.iterated(np.empty(shape, dtype), [first])
                assert [s for s, n in zip(found.strides, shape, strict=True) if n > 1] == [
                    s for s, n in zip(wanted.strides, shape, strict=True) if n > 1
                ]


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (70, 80), (1, 6, 1)])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_small_slices(name: str, shape: tuple, rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        plain = arrays_for(name, shape, dtype, rng)
        first = sliced(plain[0])
        # beside arrays of all kinds, slices with the same gaps among them
        kinds = [[*others(x), x, sliced(x)] for x in plain[1:]]
        for rest in zip(*kinds, strict=True) if len(plain) > 1 else [()]:
            found = ask(name, first, *rest)
            assert found.flags.c_contiguous
            assert found.tobytes() == ask(name, plain[0], *[r.copy("C") for r in rest]).tobytes()
        with pytest.raises(Behind):
            ask(name, first[..., ::-1], *plain[1:]) if shape[-1] > 1 else refuse()


@pytest.mark.parametrize("shape", [(120, 301), (1, 40, 30, 50), (3, 5, 7, 11, 1, 67)])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_large_slices(name: str, shape: tuple, threads: Callable, rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        plain = arrays_for(name, shape, dtype, rng)
        wanted = ask(name, *plain)
        back = [np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :] for x in plain[1:]]
        for first, *rest in (
            [sliced(x) for x in plain],
            [plain[0], *map(sliced, plain[1:])],
            [sliced(plain[0]), *back],
        ):
            if first is plain[0] and not rest:
                continue
            answers = []
            for number in (1, 2, 3):
                threads(number)
                answers.append(ask(name, first, *rest))
            found = answers[0]
            assert found.flags.c_contiguous
            assert all(a.tobytes() == found.tobytes() for a in answers), "it depends on the number of threads"
            # (what is left over at the end of a row, LLVM may compute by other instructions)
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_of_large_slices(dtype: Any, rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 2, (40, 50, 60)).astype(dtype)
    row, one = x[3, 7, 1:].copy(), np.full((1, 1, 1), 3, dtype)
    given = (
        (x[1:], x[:-1]),
        (x[:, :, 1:], x[:, :, :-1]),
        (x[1:-1, 1:-1, 1:-1], x[2:, 1:-1, :-2]),
        (x[:, ::2], 2.5),
        (x[:, 1:], x[:, :-1][::-1]),
        (x[:, :, 1:], row),
        (x[1:, :, 1:], np.broadcast_to(x[:1, :, 1:], (39, 50, 59))),
        (x[:, 1:], np.array(0.5, dtype)),
        (x[:, 1:], np.broadcast_to(one, (40, 49, 60))),
    )
    for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide)):
        for a, b in given:
            found = ask(name, a, b)
            assert found.flags.c_contiguous
            np.testing.assert_array_equal(found, function(a, b), strict=True)
    for a, b in (
        (x, x.transpose(0, 2, 1).copy().transpose(0, 2, 1)),
        (x[..., ::2], x[..., 1::2]),
        (x.reshape(-1, 20)[:, :9], x.reshape(-1, 20)[:, 1:10]),
    ):
        with pytest.raises(Behind):  # elements that do not lie side by side, and short rows, are NumPy's
            ask("sub", a, b)


def test_numbers_and_single_ones_beside_any_order(rng: np.random.Generator) -> None:
    x = permuted(rng.uniform(0.5, 2, (3, 4, 5)), (2, 0, 1))
    for name, function in (("add", np.add), ("truediv", np.divide)):
        for other in (2, 0.5, np.array(0.25)):
            np.testing.assert_array_equal(ask(name, x, other), function(x, other))
            assert ask(name, x, other).strides == x.strides
        with pytest.raises(Behind):  # rows of an array in C order are another thing
            ask(name, x, np.ones(5))
    with pytest.raises(Behind):
        ask("add", x[:, ::2], x[:, ::2])


SUMS: dict[str, Callable] = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "vector_norm": lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims)),
    "var": lambda x, axis, keepdims: x.var(axis, ddof=1, keepdims=keepdims),
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (1, 4), (200, 300)])
@pytest.mark.parametrize("name", SUMS)
def test_matrices_in_fortrans_order_are_reduced(name: str, shape: tuple, keep: bool, rng: np.random.Generator) -> None:
    x = np.asfortranarray(rng.standard_normal(shape))
    if name == "var" and x.size > 1 << 15:
        pytest.skip("for small arrays alone")
    more = {"var": (1,), "vector_norm": ()}.get(name, ())
    for dims in ((0,), (1,), (0, 1)) if name != "vector_norm" else ((0, 1),):
        if name == "var" and shape[0] == 1 and dims == (0,):
            continue  # a variance of one number
        given = (2.0, dims) if name == "vector_norm" else (dims, *more)
        found, wanted = ask(name, x, *given, keep), SUMS[name](x, axis=dims, keepdims=keep)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_cubes_in_another_order_are_reduced_whole(rng: np.random.Generator) -> None:
    x = permuted(rng.standard_normal((3, 4, 5)), (1, 2, 0))
    np.testing.assert_allclose(ask("sum", x, (0, 1, 2), False), x.sum(), rtol=1e-12, atol=1e-13)
    for dims in ((0,), (2,), (1, 2)):
        with pytest.raises(Behind):
            ask("sum", x, dims, False)
