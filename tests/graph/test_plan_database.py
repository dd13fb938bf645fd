"""Memory plans on the samples of all operations: forward, and gradients, from a poisoned arena, in order and in any order."""

from __future__ import annotations

import pytest

import ferro
from ferro.core.samples import Entry
from ferro.graph.compare import same_bits
from ferro.native import arena
from tests.graph.test_database import ENTRIES, REFUSED
from tests.graph.test_gradients import BY_DATA, NONE
from tests.graph.test_passes_database import graphs

pytestmark = pytest.mark.skipif(bool(arena.refusal()), reason=f"no arenas here: {arena.refusal()}")


@pytest.mark.parametrize("many", [1, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.path not in (*REFUSED, *NONE, *BY_DATA)], ids=lambda e: e.path
)
def test_samples_run_by_plan(entry: Entry, many: int | None) -> None:
    for k, sample in enumerate(entry.samples[:many]):
        graph, inputs = graphs(entry, sample, "float64" if k % 2 else "float32")
        ferro.manual_seed(1)
        try:
            want = [t._data.copy() for t in graph.interpret(*inputs)]
        except ValueError as error:  # a backward with a shape that depends on the data cannot be replayed
            if "the shape depends on the data" in str(error):
                continue
            raise
        found = graph.optimise(differentiable=False)
        for made in (found.plan(), found.plan(order="any", fold=bool(k % 2))):
            for _ in range(3):  # the second may be recorded, since the first was planned by arrays that mean nothing
                ferro.manual_seed(1)
                got = [t._data for t in made.run(*inputs, poison=True)]
                assert all(map(same_bits, got, want)), f"{sample}\n{found}"
            made.verify()
            assert made.missed <= 1
            if made.order == "serial":
                assert made.arena_bytes <= 1.05 * made.lower_bound + 64 * len(made.allocations)
