"""Embeddings with sparse gradients, and the optimisers that take them, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

torch: Any = pytest.importorskip("torch")

TABLE = np.arange(12.0).reshape(6, 2)


def table(lib: Any, **options: Any) -> Any:
    """An embedding of six rows with sparse gradients."""
    e = lib.nn.Embedding(6, 2, sparse=True, **options).double()
    with lib.no_grad():
        e.weight.copy_(lib.tensor(TABLE))
    return e


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", ["SGD", "SparseAdam", "Adagrad"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}], ids=["plain", "padding"])
def test_thirty_steps_are_those_of_torch(name: str, options: dict[str, Any]) -> None:
    ends = []
    for lib in (ferro, torch):
        e = table(lib, **options)
        optimizer = getattr(lib.optim, name)(e.parameters(), lr=0.02)
        for _ in range(30):
            optimizer.zero_grad()
            (e(lib.tensor([1, 1, 4, 3])) ** 2).sum().backward()
            (e(lib.tensor([[0], [4]])) ** 2).mean().backward()  # added to the first
            assert e.weight.grad.is_sparse
            optimizer.step()
        ends.append(e.weight.detach().numpy())
    np.testing.assert_allclose(*ends, rtol=1e-10)
    np.testing.assert_array_equal(ends[0][[2, 5]], TABLE[[2, 5]])


def test_gradients_are_sparse_only_at_a_leaf() -> None:
    e = table(ferro)
    (g,) = ferro.autograd.grad(e(ferro.tensor([1, 1])).sum(), e.weight)
    assert g.is_sparse
    assert g.to_dense().tolist() == [[0.0, 0.0], [2.0, 2.0], *[[0.0, 0.0]] * 4]
    w = ferro.tensor(TABLE, requires_grad=True)
    (ferro.nn.functional.embedding(ferro.tensor([1, 1]), w * 2, sparse=True)).sum().backward()
    assert not w.grad.is_sparse
    assert w.grad.tolist() == [[0.0, 0.0], [4.0, 4.0], *[[0.0, 0.0]] * 4]


def test_sparse_and_dense_gradients_add_up() -> None:
    for first in (True, False):
        e = table(ferro)
        losses = [e(ferro.tensor([1])).sum(), (e.weight * 3).sum()]
        for loss in losses if first else losses[::-1]:
            loss.backward()
        assert e.weight.grad.to_dense().tolist() == [[3.0, 3.0], [4.0, 4.0], *[[3.0, 3.0]] * 4]
    e = table(ferro)
    (e(ferro.tensor([1])).sum() + (e.weight * 3).sum()).backward()
    assert e.weight.grad.tolist() == [[3.0, 3.0], [4.0, 4.0], *[[3.0, 3.0]] * 4]


def test_hooks_see_the_sparse_gradient() -> None:
    e = table(ferro)
    seen = []
    e.weight.register_hook(lambda g: seen.append(g.is_sparse))
    e(ferro.tensor([1])).sum().backward()
    assert seen == [True]


@pytest.mark.parametrize(("name", "words"), [("Adam", "Adam does not support sparse gradients, please consider SparseAdam instead"),
                                             ("RMSprop", "RMSprop does not support sparse gradients")])  # fmt: skip
def test_other_optimisers_refuse(name: str, words: str) -> None:
    e = table(ferro)
    e(ferro.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=words):
        getattr(ferro.optim, name)(e.parameters()).step()


def test_gradients_scaled_by_frequency() -> None:  # PyTorch refuses them
    grads = []
    for sparse in (True, False):
        w = ferro.tensor(TABLE, requires_grad=True)
        out = ferro.nn.functional.embedding(ferro.tensor([1, 1, 4]), w, scale_grad_by_freq=True, sparse=sparse)
        (out**2).sum().backward()
        grads.append(w.grad.to_dense().tolist())
    assert grads[0] == grads[1]
