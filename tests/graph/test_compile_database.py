"""The database of operations, compiled: values, gradients and gradients of gradients have eager's bits on new data, nan, inf and -0.0 among them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph.planning import replays
from tests.graph.test_compile import seen
from tests.helpers import Call, Entry, arrays_of, entries, lookup, rng_of

ENTRIES = [e for e in entries() if not e.path.endswith("_")]
ODD = (np.nan, np.inf, -0.0, -np.inf)
# Where the sign of a zero may differ: slices of a gradient share a buffer, into which eager adds them to zeros.
ZEROS = ("diff",)
DTYPES = ("float64", "float32", "complex128")


def with_odd_numbers(arrays: list) -> list:
    """The same with nan, inf and -0.0 in some places."""
    found = []
    for a in arrays:
        b = a.copy()
        if b.dtype.kind in "fc" and b.size > 2 and b.flags.c_contiguous:
            flat = b.reshape(-1)
            flat[: min(4, b.size - 1)] = ODD[: min(4, b.size - 1)]
        found.append(b)
    return found


def orders(found: list, inputs: list) -> tuple[list, list]:
    """The results of a call and their gradients; and the gradients of those."""
    results = [t for t in found if isinstance(t, ferro.Tensor)]
    graded = [t for t in results if t.requires_grad]
    if not graded or not inputs:
        return results, []
    loss = ferro.stack([(t.abs() ** 2).sum().double() for t in graded]).sum()
    first = [g for g in ferro.autograd.grad(loss, inputs, create_graph=True, allow_unused=True) if g is not None]
    again = [g for g in first if g.requires_grad]
    second: tuple = ()
    if again:
        more = ferro.stack([(g.abs() ** 2).sum().double() for g in again]).sum()
        second = ferro.autograd.grad(more, inputs, allow_unused=True)
    return [*results, *map(one_nan, first)], [one_nan(g) for g in second if g is not None]


def one_nan(g: Any) -> Any:
    """A gradient in C order, in which all nans are one: whose sign an addition of two takes, is up to the processor."""
    a: Any = np.ascontiguousarray(g.detach().numpy()).copy()
    parts = a.reshape(-1).view(a.real.dtype)
    parts[np.isnan(parts)] = np.nan
    return ferro.from_numpy(a.reshape(g.shape))


def outcome(run: Any, entry: Entry, sample: Any, arrays: list) -> Any:
    """What a call gives to second order, or how it fails."""
    call = Call(entry, sample, ferro, [a.copy() for a in arrays], True)
    try:
        found = run(call.args, call.kwargs)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        values, second = orders(found, call.inputs)
        return seen(values), second
    except (RuntimeError, ValueError, IndexError, NotImplementedError, TypeError) as error:
        return type(error)


def agree(got: Any, want: Any, zeros: bool) -> bool:
    """Whether two outcomes are the same; `zeros`: but for signs of zeros in second derivatives."""
    if isinstance(got, type) or isinstance(want, type):
        return got is want
    second = [[g + 0.0 for g in some] if zeros else some for some in (got[1], want[1])]
    return (got[0], seen(second[0])) == (want[0], seen(second[1]))


def check(entry: Entry, dtype: str, samples: int) -> int:
    """Compares three calls as written and compiled, of some samples; returns how many of these were replayed."""
    replays = 0
    function = lookup(ferro, entry.path)
    for sample in entry.samples[:samples]:
        compiled = ferro.compile(lambda args, kwargs: function(*args, **kwargs))
        rng = rng_of(entry.path)
        try:
            data = [arrays_of(sample, rng, dtype) for _ in range(3)]
        except (TypeError, ValueError):  # an array that this dtype cannot have
            continue
        data.append(with_odd_numbers(data[2]))
        for i, arrays in enumerate(data):
            ferro.manual_seed(i)
            want = outcome(lambda args, kwargs: function(*args, **kwargs), entry, sample, arrays)
            ferro.manual_seed(i)
            got = outcome(compiled, entry, sample, arrays)
            assert agree(got, want, entry.path in ZEROS), f"{entry.path}, call {i}: {sample}\n{got}\n{want}"
        replays += compiled.explain().replays > 0
    return replays


@pytest.fixture(autouse=True)
def _planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory plans for small graphs, too, from the second replay on."""
    monkeypatch.setattr(replays, "PLAN_LEAST", 0)
    monkeypatch.setattr(replays, "RECORDED", 1)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """Warnings of functions that run as written, and of numbers, are no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.path)
def test_a_sample_has_eagers_bits_to_second_order(entry: Entry) -> None:
    check(entry, DTYPES[len(entry.path) % 2], 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.path)
def test_all_samples_have_eagers_bits_to_second_order(entry: Entry, dtype: str) -> None:
    check(entry, dtype, len(entry.samples))


def test_most_of_the_database_is_replayed() -> None:
    some = ENTRIES[:: max(1, len(ENTRIES) // 40)]
    assert sum(check(e, "float64", 1) > 0 for e in some) >= 0.8 * len(some)
