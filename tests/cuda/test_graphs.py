"""Graphs of tensors on the device "cuda": captured, differentiated, made shorter and replayed with eager's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda import driver
from ferro.graph import CaptureError, Graph, capture
from tests.cuda.test_samples import PATHS, DeviceCall
from tests.graph.test_database import REFUSED
from tests.helpers import arrays_of, cotangents, entries, rng_of

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:.* is not there on device 'cuda'. the CPU computes it"),
]
ENTRIES = {e.path: e for e in entries()}
# What asks for numbers on the device alone: by the data, or because the processor computes it.
ASKS = ("embedding_bag", "nn.functional.ctc_loss")
CAPTURED = [path for path in PATHS if path in ENTRIES and path not in (*REFUSED, *ASKS)]


def bits(t: Any) -> tuple:
    """Dtype, shape and bytes of a tensor or array on the device, or of a result that is no tensor."""
    array = getattr(t, "_data", t)
    assert type(array) is driver.cupy().ndarray or isinstance(array, np.ndarray)
    on_host = array if isinstance(array, np.ndarray) else array.get()
    return on_host.dtype, on_host.shape, type(array), on_host.tobytes()


def tensors(call: Any) -> list:
    """The tensors among results."""
    return [t for t in call.run() if isinstance(t, ferro.Tensor)]


# Of the samples, the first two are run each time.
SOME = pytest.mark.parametrize(
    "which", [slice(0, 2), pytest.param(slice(2, None), marks=pytest.mark.slow)], ids=["first", "other"]
)


@SOME
@pytest.mark.parametrize("path", CAPTURED)
def test_samples_are_replayed_with_eagers_bits(path: str, which: slice) -> None:
    entry = ENTRIES[path]
    for k, sample in [*enumerate(entry.samples)][which]:
        rng, dtype = rng_of(path), "float64" if k % 2 else "float32"
        first, second = arrays_of(sample, rng, dtype), arrays_of(sample, rng, dtype)
        ferro.manual_seed(0)
        want = list(map(bits, tensors(DeviceCall(entry, sample, ferro, second, False))))
        call = DeviceCall(entry, sample, ferro, first, False)
        graph = capture(lambda call=call: tensors(call))
        for t, a in zip(call.tensors, second, strict=True):
            t._data[...] = driver.cupy().asarray(np.array(a, order="C"))
        ferro.manual_seed(0)
        assert list(map(bits, graph.interpret())) == want, sample
        if not any(v.array.nbytes > 64 for v in graph.constants):
            assert str(Graph.parse(str(graph))) == str(graph)


@pytest.mark.parametrize("path", ASKS)
def test_what_asks_for_numbers_there_is_refused(path: str) -> None:
    refused = 0
    for sample in ENTRIES[path].samples:
        call = DeviceCall(ENTRIES[path], sample, ferro, arrays_of(sample, rng_of(path), "float64"), False)
        try:
            capture(lambda call=call: tensors(call))
        except CaptureError as error:
            refused += "asks for the numbers of a tensor" in str(error)
    assert refused


DIFFERENTIATED = [path for path in CAPTURED if path not in ("geqrf", "masked_scatter")]


@SOME
@pytest.mark.parametrize("path", DIFFERENTIATED)
def test_gradients_of_samples_have_eagers_bits(path: str, which: slice) -> None:
    entry = ENTRIES[path]
    for k, sample in [*enumerate(entry.samples[:4])][which]:
        dtype, rng = "float64" if k % 2 else "float32", rng_of(path)
        first, second = arrays_of(sample, rng, dtype), arrays_of(sample, rng, dtype)
        eager, mine = (DeviceCall(entry, sample, ferro, arrays, True) for arrays in (second, first))
        outs = tensors(eager)
        used = [i for i, t in enumerate(outs) if t.requires_grad]
        if not used or not eager.inputs:
            continue
        vectors = cotangents(outs, rng)
        seeds = [ferro.tensor(np.array(vectors[i], order="C")).to(outs[i].dtype).to("cuda") for i in used]
        want = ferro.autograd.grad([outs[i] for i in used], eager.inputs, seeds, allow_unused=True)
        graph = capture(lambda call=mine: tensors(call))
        inputs = [v for v in graph.bound if any(v.tensor is t for t in mine.inputs)]
        gradient = graph.differentiate(used, inputs)
        for t, a in zip(mine.tensors, second, strict=True):
            t._data[...] = driver.cupy().asarray(np.array(a, order="C"))
        found = gradient.joint.interpret(*seeds)[gradient.real_outputs :]
        shorter = gradient.joint.optimise().interpret(*seeds)[gradient.real_outputs :]
        for t, w in zip(mine.inputs, want, strict=True):
            place = next((gradient.gradients[i] for i, v in enumerate(inputs) if v.tensor is t), None)
            assert (w is None) is (place is None), sample
            if w is not None:
                pieces = any(node.function == "array.pieces" for node in gradient.joint.nodes)
                for got in (found[place], shorter[place]):
                    both = [x.detach() + 0.0 if pieces else x for x in (got, w)]  # (the sign of a zero may differ)
                    assert bits(both[0]) == bits(both[1]), sample
