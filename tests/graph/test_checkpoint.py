"""What a checkpoint computes again takes time to spare memory: passes leave it there, and text and files say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.utils.checkpoint import checkpoint

JOINING = (
    "simplification",
    "constant_folding",
    "common_subexpressions",
)  # (dead code is left out of what was computed again, too)


def block(x: Any) -> Any:
    return x.exp().sin().exp()


def step(w: Any, x: Any, reentrant: bool | None) -> Any:
    """Loss and gradient; reentrant None: without a checkpoint."""
    w.grad = None
    y = block(x * w) if reentrant is None else checkpoint(lambda t: block(t), x * w, use_reentrant=reentrant)
    loss = y.sum()
    loss.backward()
    return loss


def count(graph: Graph, again: bool) -> int:
    return len([n for n in graph.nodes if n.function in ("exp", "sin") and bool(n.again) is again])


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_nodes_are_marked_and_stay(reentrant: bool, tmp_path: Path) -> None:
    w = ferro.randn(5).requires_grad_()
    x = ferro.randn(5)
    graph = capture(lambda x: step(w, x, reentrant), x)
    assert count(graph, False) == 3
    assert count(graph, True) >= 2  # (it stops when it has what backward needs)
    short = graph.optimise(JOINING, differentiable=False, debug=True)
    assert count(short, True) == count(graph, True)
    assert count(short, False) == 3
    graph.save(tmp_path / "graph.safetensors")
    for again in (Graph.parse(str(short)), Graph.load(tmp_path / "graph.safetensors")):
        assert count(again, True) == count(graph, True)
    assert " again 1" in str(short)
    y = ferro.randn(5)
    (got,) = short.interpret(y)
    found = w.grad.clone()
    want = step(w, y, reentrant)
    assert same_bits(got._data, want._data)
    assert same_bits(found._data, w.grad._data)


def test_the_same_without_a_checkpoint_is_joined() -> None:
    w, x = ferro.randn(5).requires_grad_(), ferro.randn(5)

    def twice(x: Any) -> Any:
        with ferro.no_grad():
            return block(x * w) + block(x * w)

    def again(x: Any) -> Any:
        with ferro.no_grad():
            first = block(x * w)
        return first + step(w, x, False).detach()

    short = capture(twice, x).optimise(JOINING)
    assert count(short, False) == 3
    graph = capture(again, x)
    joined = graph.optimise(JOINING, differentiable=False)
    assert (count(graph, False), count(joined, False)) == (6, 3)
    assert count(graph, True) == count(joined, True) > 0


def test_each_recomputation_has_its_number() -> None:
    w = ferro.randn(5).requires_grad_()

    def function(x: Any) -> Any:
        a = checkpoint(block, x * w, use_reentrant=False)
        b = checkpoint(block, x * w, use_reentrant=False)
        (a * b).sum().backward()
        return a * 1

    graph = capture(function, ferro.randn(5))
    assert {n.again for n in graph.nodes} == {0, 1, 2}
    short = graph.optimise(JOINING, differentiable=False)
    assert [count(short, again) for again in (True, False)] == [count(graph, True), 3]
