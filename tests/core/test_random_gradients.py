"""Drawn numbers do not change with what they are drawn for: zero gradients and zero tangents, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.autograd.forward_ad

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "rand_like": lambda m, x: m.rand_like(x),
    "bernoulli": lambda m, x: m.bernoulli(x),
    "poisson": lambda m, x: m.poisson(x),
    "multinomial": lambda m, x: m.multinomial(x, 2),
    "normal of means": lambda m, x: m.normal(x, 1.0),
    "normal of deviations": lambda m, x: m.normal(0.5, x),
    "normal of both": lambda m, x: m.normal(x, x),
    "normal_": lambda m, x: (x * 1).normal_(1, 2),
    "uniform_": lambda m, x: (x * 1).uniform_(),
    "bernoulli_": lambda m, x: (x * 1).bernoulli_(0.3),
    "bernoulli_ by tensors": lambda m, x: (x * 1).bernoulli_(x),
    "exponential_": lambda m, x: (x * 1).exponential_(),
    "cauchy_": lambda m, x: (x * 1).cauchy_(),
    "log_normal_": lambda m, x: (x * 1).log_normal_(),
    "geometric_": lambda m, x: (x * 1).geometric_(0.5),
    "random_": lambda m, x: (x * 1).random_(3),
    "of a transposed tensor": lambda m, x: m.stack([x, x]).t().normal_(),
    "of a view": lambda m, x: m.stack([x, x])[1].normal_(),
    "of infinite content": lambda m, x: (x + float("inf")).uniform_(),
    "of a constant": lambda m, x: m.ones(3).normal_(),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own decompositions
@pytest.mark.parametrize("name", DRAWS)
def test_tangents_and_gradients_are_those_of_torch(name: str) -> None:
    found = []
    for m in (ferro, torch):
        modes = m.autograd.forward_ad
        with modes.dual_level():
            m.manual_seed(1)
            dual = modes.unpack_dual(DRAWS[name](m, modes.make_dual(m.tensor([0.3, 0.5, 0.9]), m.ones(3))))
            tangent = None if dual.tangent is None else dual.tangent.numpy().copy()
            values = dual.primal.numpy().copy()
        x = m.tensor([0.3, 0.5, 0.9], requires_grad=True)
        m.manual_seed(1)
        drawn = DRAWS[name](m, x)
        gradient = m.autograd.grad(drawn.sum(), x)[0].numpy() if drawn.requires_grad else None
        found.append((values, tangent, gradient))
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, 1e-6)


def test_what_may_not_be_written_is_refused_before_a_number_is_drawn() -> None:
    leaf = ferro.ones(3, requires_grad=True)
    state = ferro.get_rng_state()
    for tensor, words in ((leaf, "a leaf Variable"), (ferro.ones(1).expand(3), "more than one element")):
        with pytest.raises(RuntimeError, match=words):
            tensor.normal_()
    assert ferro.equal(ferro.get_rng_state(), state)
