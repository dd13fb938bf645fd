"""What is recorded and what is guarded: casts to integers, and results that an operation does not read again."""

from __future__ import annotations

import pytest

import ferro


def test_a_cast_to_integers_or_bool_ends_the_graph() -> None:
    x = ferro.rand(3, requires_grad=True)
    for y in (x.long(), x.bool(), x.to(ferro.int32)):
        assert not y.requires_grad
    assert not (x.bool() * 1.0).requires_grad
    assert x.double().requires_grad


def test_only_the_results_that_formulas_read_are_guarded() -> None:
    x = ferro.tensor([[1.0, 3.0], [4.0, 2.0]], requires_grad=True)
    values = x.max(0).values  # its formula reads the indices only
    values.mul_(2)
    values.sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0], [2.0, 0.0]]
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
