"""Gradients of graphs: eager's bits for the samples of all operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.samples import Entry
from ferro.graph import capture
from ferro.graph.compare import same_bits
from tests.graph.test_database import ENTRIES, REFUSED
from tests.helpers import Call, arrays_of, cotangents, rng_of

NONE = ("geqrf",)  # eager has no derivative either
BY_DATA = ("masked_scatter",)  # the gradient of the source has as many elements as the mask has ones


def leaves(entry: Entry, sample: Any, arrays: list) -> Call:
    """The call of a sample, whose floating tensors require gradients."""
    return Call(entry, sample, ferro, [a.copy() for a in arrays], True)


def outputs_of(call: Call) -> list:
    """The results with a history."""
    return [t for t in call.run() if isinstance(t, ferro.Tensor)]


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.path not in (*REFUSED, *NONE, *BY_DATA)], ids=lambda e: e.path
)
def test_gradients_of_samples_have_eagers_bits(entry: Entry) -> None:
    for k, sample in enumerate(entry.samples):
        dtype = "float64" if k % 2 else "float32"
        rng = rng_of(entry.path)
        first, second = arrays_of(sample, rng, dtype), arrays_of(sample, rng, dtype)
        eager, mine = leaves(entry, sample, second), leaves(entry, sample, first)
        outs = outputs_of(eager)
        used = [i for i, t in enumerate(outs) if t.requires_grad]
        if not used or not eager.inputs:
            continue
        vectors = cotangents(outs, rng)
        seeds = [ferro.tensor(np.array(vectors[i], order="C")).to(outs[i].dtype) for i in used]
        want = ferro.autograd.grad([outs[i] for i in used], eager.inputs, seeds, allow_unused=True)
        graph = capture(lambda call=mine: outputs_of(call))
        inputs = [v for v in graph.bound if any(v.tensor is t for t in mine.inputs)]
        gradient = graph.differentiate(used, inputs)
        for t, a in zip(mine.tensors, second, strict=True):
            t._data[...] = a
        found = gradient.joint.interpret(*seeds)[gradient.real_outputs :]
        for t, w in zip(mine.inputs, want, strict=True):
            place = next((gradient.gradients[i] for i, v in enumerate(inputs) if v.tensor is t), None)
            assert (w is None) is (place is None), sample
            if w is not None:
                got, expected = found[place]._data, w._data
                if any(
                    node.function == "array.pieces" for node in gradient.joint.nodes
                ):  # (the sign of a zero may differ)
                    got, expected = got + 0.0, expected + 0.0
                assert same_bits(got, expected), sample
