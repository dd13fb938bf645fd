"""Every operation's samples are captured, and replayed on other data with eager's bits; what is refused is listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.samples import Entry
from ferro.graph import CaptureError, Graph, capture
from ferro.graph.compare import same_bits
from tests.helpers import Call, arrays_of, entries, rng_of

# Shapes of results, or of steps on the way, that depend on the data (in some of their samples).
REFUSED = (
    *(
        "Tensor.__getitem__",
        "bincount",
        "index_put",
        "nn.functional.one_hot",
        "repeat_interleave",
        "safe_where",
        "unique",
    ),
    "unique_consecutive",
)
ENTRIES = entries()


def arrays(results: list) -> list:
    """The arrays of the tensors among results."""
    return [t._data for t in results if isinstance(t, ferro.Tensor)]


def replayed(entry: Entry, sample: Any, dtype: str) -> tuple[Graph, list, list]:
    """The graph of a sample, what its replay gives on other data, and what eager gives."""
    rng = rng_of(entry.path)
    first, second = arrays_of(sample, rng, dtype), arrays_of(sample, rng, dtype)
    want = [a.copy() for a in arrays(Call(entry, sample, ferro, [a.copy() for a in second], False).run())]
    call = Call(entry, sample, ferro, [a.copy() for a in first], False)
    graph = capture(lambda: [t for t in call.run() if isinstance(t, ferro.Tensor)])
    for t, a in zip(call.tensors, second, strict=True):
        t._data[...] = a
    return graph, arrays(graph.interpret()), want


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.path not in REFUSED], ids=lambda e: e.path)
def test_samples_are_replayed_with_eagers_bits(entry: Entry) -> None:
    for k, sample in enumerate(entry.samples):
        graph, got, want = replayed(entry, sample, "float64" if k % 2 else "float32")
        assert len(got) == len(want)
        assert all(map(same_bits, got, want)), f"{entry.path}: {sample}"
        if not any(v.array.nbytes > 64 for v in graph.constants):
            assert str(Graph.parse(str(graph))) == str(graph)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.path in REFUSED], ids=lambda e: e.path)
def test_what_is_listed_is_refused(entry: Entry) -> None:
    refused = 0
    for sample in entry.samples:
        try:
            _, got, want = replayed(entry, sample, "float64")
        except (CaptureError, ValueError):
            refused += 1
        else:
            assert all(map(same_bits, got, want))
    assert refused


def test_most_of_the_database_is_captured() -> None:
    assert len(REFUSED) <= 0.02 * len(ENTRIES)
    assert np.all([path in {e.path for e in ENTRIES} for path in REFUSED])
