"""Text and files hold the graphs of all operations: the joint, forward and backward graphs of their samples, to the last line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferro.core.samples import Entry
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.graph.ir import strides_of
from tests.graph.test_database import ENTRIES, REFUSED
from tests.graph.test_gradients import BY_DATA, NONE, leaves, outputs_of
from tests.helpers import arrays_of, rng_of


def derived(entry: Entry, sample: Any, dtype: str) -> list[Graph]:
    """The graphs that come of a sample: its own, and where it has a gradient those of the derivative."""
    call = leaves(entry, sample, arrays_of(sample, rng_of(entry.path), dtype))
    graph = capture(lambda: outputs_of(call))
    if not any(graph.histories) or not call.inputs:
        return [graph]
    gradient = graph.differentiate()
    return [graph, gradient.joint, gradient.forward, gradient.backward]


def same_constants(graph: Graph, again: Graph) -> bool:
    """Whether constants have the same bits, and lie in memory alike."""
    pairs = zip(graph.constants, again.constants, strict=True)
    return all(same_bits(a.array, b.array) and strides_of(a.array) == strides_of(b.array) for a, b in pairs)


@pytest.mark.parametrize("many", [2, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.path not in (*REFUSED, *NONE, *BY_DATA)], ids=lambda e: e.path
)
def test_text_and_files_are_inverses(entry: Entry, many: int | None, tmp_path: Path) -> None:
    for k, sample in enumerate(entry.samples[:many]):
        for graph in derived(entry, sample, "float64" if k % 2 else "float32"):
            source = str(graph)
            again = Graph.parse(source, {f"constant{v.number}": v.array for v in graph.constants})
            assert str(again) == source
            assert same_constants(graph, again)
            if k == 0:
                graph.save(tmp_path / "graph.safetensors")
                loaded = Graph.load(tmp_path / "graph.safetensors")
                assert str(loaded) == source
                assert same_constants(graph, loaded)
