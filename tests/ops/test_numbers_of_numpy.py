"""Numbers of NumPy's, and of classes that come from float, mean what Python's floats mean as parameters: the same bits and dtypes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import ferro
from tests.helpers import Call, Entry, arrays_of, entries, rng_of


class Subclass(float):
    """A float, and yet another class."""


def converted(x: Any, kind: type) -> Any:
    """Arguments with numbers of another class."""
    if type(x) is float:
        return kind(x)
    return type(x)([converted(y, kind) for y in x]) if type(x) in (list, tuple) else x


def with_numbers(entry: Entry) -> list:
    """The samples that have a float among their parameters."""
    return [s for s in entry.samples if any(type(a) is float for a in (*s.args, *s.kwargs.values()))]


def bits(entry: Entry, sample: Any) -> list:
    """What a sample gives, and the gradients of its inputs."""
    ferro.manual_seed(0)
    call = Call(entry, sample, ferro, arrays_of(sample, rng_of(entry.path), "float32"), True)
    found = [t for t in call.run() if isinstance(t, ferro.Tensor)]
    graded = [t.abs().sum() for t in found if t.requires_grad]
    if graded:
        ferro.stack(graded).sum().backward()
    seen = [*found, *[t.grad for t in call.inputs if t.grad is not None]]
    return [(t.dtype, t.shape, t.detach().cpu()._data.tobytes()) for t in seen]


@pytest.mark.parametrize("kind", [np.float64, Subclass])
@pytest.mark.parametrize("entry", [e for e in entries() if with_numbers(e)], ids=lambda e: e.path)
def test_parameters_of_other_classes_mean_the_same(entry: Entry, kind: type) -> None:
    for sample in with_numbers(entry):
        other = copy.copy(sample)
        object.__setattr__(other, "args", tuple([converted(a, kind) for a in sample.args]))
        object.__setattr__(other, "kwargs", {k: converted(v, kind) for k, v in sample.kwargs.items()})
        assert bits(entry, other) == bits(entry, sample), f"{entry.path}: {sample}"
