"""Helpers of the nn tests: the same module in ferro and in torch, and the comparison of what both compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)

TOLERANCE = {"rtol": 1e-10, "atol": 1e-11}


def to_ferro(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A torch tensor, or a tuple, list or dictionary of such, as ferro's: same numbers, memory of its own.

    One tensor that occurs twice becomes one tensor that occurs twice.
    """
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = ferro.from_numpy(value.detach().numpy().copy())
        return seen[id(value)]
    if isinstance(value, dict):
        return {key: to_ferro(item, seen) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(to_ferro(item, seen) for item in value)
    return value


def flat(value: Any) -> list[Any]:
    """The tensors of a nested result."""
    if value is None:
        return []
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in flat(item)]
    return [value]


def assert_same(ours: Any, theirs: Any, what: str, **tolerance: float) -> None:
    """Equal shapes and dtypes, and numbers that agree to float64 rounding."""
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
    # force: torch marks a conjugate or negative view instead of computing it
    a, b = ours.detach().numpy(), theirs.detach().numpy(force=True)
    np.testing.assert_allclose(a, b, err_msg=what, **{**TOLERANCE, **tolerance})


def twins(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The module that `make(nn)` builds, from ferro.nn and from torch.nn, in float64 and with torch's weights."""
    theirs, ours = make(torch.nn).double(), make(ferro.nn).double()
    ours.load_state_dict(to_ferro(dict(theirs.state_dict())))
    return ours, theirs


def compare_modules(
    make: Callable[[Any], Any], inputs: tuple[Any, ...], train: bool = True, rtol: float = 1e-10, **kwargs: Any
) -> None:
    """Outputs, gradients of inputs and parameters, buffers, keys and repr of the twins agree."""
    ours, theirs = twins(make)
    ours.train(train)
    theirs.train(train)
    assert repr(ours).replace("ferro.", "torch.") == repr(theirs)
    our_inputs = to_ferro(inputs)
    for theirs_in, ours_in in zip(flat(inputs), flat(our_inputs), strict=True):
        if torch.is_tensor(theirs_in) and theirs_in.is_floating_point():
            theirs_in.requires_grad_()
            ours_in.requires_grad_()
    our_out, their_out = flat(ours(*our_inputs, **to_ferro(kwargs))), flat(theirs(*inputs, **kwargs))
    assert len(our_out) == len(their_out)
    for i, (a, b) in enumerate(zip(our_out, their_out, strict=True)):
        assert_same(a, b, f"output {i}", rtol=rtol)
    compare_gradients(ours, theirs, flat(our_inputs), flat(inputs), our_out, their_out, rtol)
    compare_state(ours, theirs)


def compare_gradients(
    ours: Any, theirs: Any, our_inputs: list, their_inputs: list, our_out: list, their_out: list, rtol: float
) -> None:
    """The gradients of one random linear function of all outputs."""
    total_ours, total_theirs = 0.0, 0.0
    for a, b in zip(our_out, their_out, strict=True):
        if b.requires_grad:
            weight = torch.randn(b.shape, dtype=b.dtype)
            total_ours = total_ours + (a * to_ferro(weight)).sum()
            total_theirs = total_theirs + (b * weight).sum()
    if not torch.is_tensor(total_theirs):
        assert not any(a.requires_grad for a in our_out)
        return
    total_ours.backward()
    total_theirs.backward()
    pairs = [(f"input {i}", a, b) for i, (a, b) in enumerate(zip(our_inputs, their_inputs, strict=True))]
    parameters = zip(ours.named_parameters(), theirs.named_parameters(), strict=True)
    pairs += [(name, a, b) for (name, a), (_, b) in parameters]
    for name, a, b in pairs:
        if torch.is_tensor(b) and b.grad is not None:
            assert a.grad is not None, f"no gradient of {name}"
            assert_same(a.grad, b.grad, f"gradient of {name}", rtol=rtol)


def compare_state(ours: Any, theirs: Any) -> None:
    """The same keys in the same order, and the same numbers."""
    our_state, their_state = ours.state_dict(), theirs.state_dict()
    assert list(our_state) == list(their_state)
    for key, value in their_state.items():
        assert_same(our_state[key], value, key)
