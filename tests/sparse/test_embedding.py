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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Adam", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("RMSprop", "RMSprop does not support sparse gradients"),
    ],
)
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


BAGS: dict[str, dict[str, Any]] = {
    "sum": {"mode": "sum"},
    "mean": {"mode": "mean"},
    "padding": {"mode": "sum", "padding_idx": 1},
    "padding-mean": {"mode": "mean", "padding_idx": 1},
    "last": {"mode": "mean", "include_last_offset": True},
}


def bags(lib: Any, options: dict[str, Any], sparse: bool) -> Any:
    """An EmbeddingBag of six rows."""
    e = lib.nn.EmbeddingBag(6, 2, sparse=sparse, **options).double()
    with lib.no_grad():
        e.weight.copy_(lib.tensor(TABLE))
    return e


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("options", list(BAGS.values()), ids=list(BAGS))
def test_bags_have_the_sparse_gradient_of_torch(options: dict[str, Any]) -> None:
    grads = []
    for lib, sparse in ((ferro, True), (ferro, False), (torch, True)):
        e = bags(lib, options, sparse)
        offsets = [0, 3, 3, 5] if "include_last_offset" in options else [0, 3, 3]
        out = e(lib.tensor([1, 4, 1, 0, 4]), lib.tensor(offsets))
        (out * lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=lib.float64)).sum().backward()
        assert e.weight.grad.is_sparse is sparse
        grads.append(e.weight.grad.to_dense().tolist())
    assert np.allclose(grads[0], grads[1])
    assert np.allclose(grads[0], grads[2])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_bags_with_weights_of_samples() -> None:
    grads = []
    for lib in (ferro, torch):
        e = bags(lib, {"mode": "sum"}, True)
        w = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64, requires_grad=True)
        (e(lib.tensor([[1, 4], [1, 0]]), per_sample_weights=w) ** 2).sum().backward()
        grads += [e.weight.grad.to_dense().tolist(), w.grad.tolist()]
    assert np.allclose(grads[0], grads[2])
    assert np.allclose(grads[1], grads[3])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_steps_of_bags_are_those_of_torch() -> None:
    ends = []
    for lib in (ferro, torch):
        e = bags(lib, {"mode": "mean"}, True)
        optimizer = lib.optim.SparseAdam(e.parameters(), lr=0.02)
        for _ in range(10):
            optimizer.zero_grad()
            (e(lib.tensor([[1, 1, 4], [3, 4, 4]])) ** 2).sum().backward()
            optimizer.step()
        ends.append(e.weight.detach().numpy())
    np.testing.assert_allclose(*ends, rtol=1e-10)


def test_bags_of_maxima_have_no_sparse_gradient() -> None:
    for lib in (ferro, torch):
        with pytest.raises(ValueError, match=r"max mode does not support .*sparse"):
            bags(lib, {"mode": "max"}, True)(lib.tensor([[1, 2]]))


def test_a_recorded_backward_through_bags_is_dense() -> None:
    w = ferro.tensor(TABLE, requires_grad=True)

    def run(table: Any) -> Any:
        return (
            ferro.nn.functional.embedding_bag(ferro.tensor([[1, 4], [1, 0]]), table**2, sparse=True, mode="mean") ** 2
        )

    assert ferro.autograd.gradcheck(run, (w,))
    assert ferro.autograd.gradgradcheck(run, (w,))


def test_a_sparse_gradient_may_be_given() -> None:
    p = ferro.ones(3, 2, requires_grad=True)
    g = ferro.sparse_coo_tensor(ferro.tensor([[0, 2]]), ferro.ones(2, 2), (3, 2))
    p.grad = g
    assert p.grad is g
    ferro.optim.SGD([p], lr=0.5).step()
    assert p.tolist() == [[0.5, 0.5], [1.0, 1.0], [0.5, 0.5]]
    with pytest.raises(RuntimeError, match="assigned grad has data of a different size"):
        p.grad = ferro.sparse_coo_tensor(ferro.tensor([[0]]), ferro.ones(1, 2), (4, 2))
    with pytest.raises(RuntimeError, match="assigned grad has data of a different type"):
        p.grad = ferro.sparse_coo_tensor(ferro.tensor([[0]]), ferro.ones(1, 2).double(), (3, 2))
    assert p.grad is g
