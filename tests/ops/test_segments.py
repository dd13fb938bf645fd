"""segment_reduce is PyTorch's: values, gradients to second order, pieces without elements, batches, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

HOW: dict[str, Any] = {  # shape of the data, and arguments
    "lengths": ((6,), {"lengths": [2, 0, 4]}),
    "initial": ((6,), {"lengths": [2, 0, 4], "initial": 0.25}),
    "offsets": ((6,), {"offsets": [0, 2, 2, 6]}),
    "offsets within": ((6,), {"offsets": [1, 3, 5]}),
    "too short, unsafe": ((6,), {"lengths": [2, 3], "unsafe": True}),
    "rows": ((5, 2, 3), {"lengths": [3, 1, 1]}),
    "batch": ((2, 4), {"lengths": [[3, 1], [0, 4]], "axis": 1}),
    "batch and rows": ((2, 4, 3), {"lengths": [[3, 1], [0, 4]], "axis": 1, "initial": 0.5}),
    "batch of offsets": ((2, 4), {"offsets": [[0, 1, 4], [0, 0, 4]], "axis": 1}),
    "one piece": ((3,), {"lengths": [3], "axis": -1}),
    "int32": ((6,), {"lengths": np.array([1, 5], np.int32)}),
}


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("how", HOW)
def test_values_and_gradients_are_pytorchs(how: str, reduce: str, torch: Any, rng: Any) -> None:
    shape, arguments = HOW[how]
    numbers, weights = rng.standard_normal(shape), rng.standard_normal(64)
    found = []
    for t in (torch, ferro):
        x = t.tensor(numbers, requires_grad=True)
        given = {k: t.tensor(v) if k in ("lengths", "offsets") else v for k, v in arguments.items()}
        y = t.segment_reduce(x, reduce, **given)
        used = t.where(t.isfinite(y), y, t.zeros_like(y)).flatten()
        (g,) = t.autograd.grad((used * t.tensor(weights[: used.numel()])).sum(), x)
        found.append((y.detach().numpy(), g.numpy()))
    for theirs, ours in zip(*found, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-14, equal_nan=True)
        assert ours.shape == theirs.shape


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_derivatives_are_those_of_differences(reduce: str, rng: Any) -> None:
    x = ferro.tensor(rng.standard_normal((5, 2)), requires_grad=True)
    lengths = ferro.tensor([3, 2])
    assert ferro.autograd.gradcheck(lambda x: ferro.segment_reduce(x, reduce, lengths=lengths), x)
    assert ferro.autograd.gradgradcheck(lambda x: ferro.segment_reduce(x, reduce, lengths=lengths), x)


def test_equal_extrema_share_the_gradient_and_nan_is_the_largest(torch: Any) -> None:
    found = []
    for t in (torch, ferro):
        x = t.tensor([2.0, 2.0, 1.0, 0.0, 5.0], requires_grad=True)
        t.segment_reduce(x, "max", lengths=t.tensor([3, 2])).sum().backward()
        nan = t.segment_reduce(t.tensor([1.0, float("nan"), 2.0]), "max", lengths=t.tensor([3]), initial=0.0)
        found.append((x.grad.tolist(), str(nan.tolist())))
    assert found[0] == found[1]


REFUSED: dict[str, Any] = {
    "no lengths": lambda t: t.segment_reduce(t.ones(3), "sum"),
    "lengths too short": lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([1, 1])),
    "negative": lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([4, -1])),
    "too many dimensions": lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([[1, 2]])),
    "another axis": lambda t: t.segment_reduce(t.ones(3, 2), "sum", lengths=t.tensor([1, 1]), axis=1),
    "indices": lambda t: t.segment_reduce(t.ones(3), "sum", indices=t.tensor([0, 1])),
    "integers": lambda t: t.segment_reduce(t.arange(3), "sum", lengths=t.tensor([1, 2])),
    "lengths of floats": lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([1.0, 2.0])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(what: str, torch: Any) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)) as theirs:
        REFUSED[what](torch)
    with pytest.raises(type(theirs.value)) as ours:
        REFUSED[what](ferro)
    assert str(theirs.value).partition(".  (Could")[0] in str(ours.value)
