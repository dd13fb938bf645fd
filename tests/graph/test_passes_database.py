"""Passes on the samples of all operations: their gradients keep every bit, and what passes take for granted of nodes is so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.samples import Entry
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.graph.functions import resolved
from ferro.graph.ir import replaced
from ferro.graph.passes.dead_code import never_raises
from ferro.graph.passes.memory import may_share
from tests.graph.test_database import ENTRIES, REFUSED
from tests.graph.test_gradients import BY_DATA, NONE, leaves, outputs_of
from tests.helpers import arrays_of, rng_of

EXTREME = [float("nan"), float("inf"), -1.0, 0.0, float("-inf"), -0.0, 3e38, 1e-45]


def extreme(array: Any) -> Any:
    """An array of that kind, of numbers that functions refuse if they refuse any."""
    out = np.empty_like(array)
    kind = array.dtype.kind
    if kind in "fcV":
        values = np.resize(EXTREME, array.shape).astype(array.dtype)
    elif kind in "iu":
        info = np.iinfo(array.dtype)
        values = np.resize([info.min, info.max, 0, 1], array.shape).astype(array.dtype)
    else:
        values = np.resize([True, False], array.shape)
    out[...] = values
    return out


def graphs(entry: Entry, sample: Any, dtype: str) -> tuple[Graph, list]:
    """The joint graph of a sample, or the graph alone where nothing has a gradient, and its inputs."""
    call = leaves(entry, sample, arrays_of(sample, rng_of(entry.path), dtype))
    graph = capture(lambda: outputs_of(call))
    if not any(graph.histories) or not call.inputs:
        return graph, []
    joint = graph.differentiate().joint
    return joint, [ferro.ones(*v.shape, dtype=ferro.tensor(np.zeros((), v.dtype)).dtype) for v in joint.inputs]


def check_nodes(graph: Graph, inputs: list) -> None:
    """Results share memory with operands only where that is known; what never raises raises for no numbers."""
    held = {v: t._data for v, t in zip(graph.inputs, inputs, strict=True)}
    held.update({v: v.tensor._data for v in graph.bound})
    held.update({v: v.array for v in graph.constants})

    def on_node(node: Any, made: list) -> None:
        held.update(zip(node.outputs, made, strict=True))
        if not may_share(node):
            shared = [np.may_share_memory(a, held[v]) for a in made for v in node.operands]
            assert not any(shared), f"{node.function} gives a view"
        if never_raises(node):
            given = {v: extreme(held[v]) for v in node.operands}
            args, kwargs = replaced((node.args, node.kwargs), given.__getitem__)
            resolved(node.function)(*args, **kwargs)

    graph.interpret(*inputs, on_node=on_node)


@pytest.mark.parametrize("many", [1, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.path not in (*REFUSED, *NONE, *BY_DATA)], ids=lambda e: e.path
)
def test_samples_keep_their_bits(entry: Entry, many: int | None) -> None:
    for k, sample in enumerate(entry.samples[:many]):
        graph, inputs = graphs(entry, sample, "float64" if k % 2 else "float32")
        try:
            want = [t._data.copy() for t in graph.interpret(*inputs)]
        except ValueError as error:  # a backward with a shape that depends on the data cannot be replayed
            if "the shape depends on the data" in str(error):
                continue
            raise
        for differentiable in (True, False):
            found = graph.optimise(differentiable=differentiable, debug=not differentiable)
            got = [t._data for t in found.interpret(*inputs)]
            assert all(map(same_bits, got, want)), f"{sample}\n{graph}\n{found}"
        assert not any(found.optimise(differentiable=False).optimised.values())
        check_nodes(graph, inputs)
