"""Replays as one Python function: memory given up, literals and nested arguments, long graphs, errors that find their node."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph import capture


def test_a_value_is_given_up_after_its_last_reader() -> None:
    graph = capture(lambda x: ((x.exp() + 1).sin() * 2).sum(), ferro.ones(3))
    alive: list[list[bool]] = []
    seen: list[weakref.ref] = []

    def note(_node: Any, made: list) -> None:
        seen.extend(map(weakref.ref, made))
        del made
        alive.append([r() is not None for r in seen])

    graph.interpret(ferro.ones(3), on_node=note)
    assert len(alive) == len(graph.nodes) == 5
    for i, flags in enumerate(alive):  # when a node is told of, its operand is still there, and nothing before that
        assert flags == [False] * max(i - 1, 0) + [True] * min(i + 1, 2)


def test_nested_arguments_and_literals_reach_the_functions() -> None:
    def program(x: Any, y: Any) -> Any:
        joined = ferro.cat([x, y, x], 1)
        part = joined[1:, [0, 2]]
        return ferro.einsum("ij,kj->ik", part, part).clamp(-0.5, float("inf")), ferro.topk(joined, 2)

    x, y = ferro.randn(3, 2), ferro.randn(3, 2)
    graph = capture(program, x, y)
    x, y = ferro.randn(3, 2), ferro.randn(3, 2)
    product, (values, places) = program(x, y)
    found = graph.interpret(x, y)
    assert [ferro.equal(a, b) for a, b in zip(found, (product, values, places), strict=True)] == [True] * 3


def test_a_long_graph_is_replayed_without_recursion() -> None:
    def program(x: Any) -> Any:
        for _ in range(10_000):
            x = x + 1
        return x

    graph = capture(program, ferro.zeros(2))
    assert len(graph.nodes) == 10_000
    (found,) = graph.interpret(ferro.ones(2))
    np.testing.assert_array_equal(found.numpy(), [10_001, 10_001])


def test_an_error_names_its_node_and_line() -> None:
    graph = capture(lambda a: ferro.linalg.inv(a.exp() - 1), ferro.eye(2))
    with pytest.raises(ferro.linalg.LinAlgError) as error:
        graph.interpret(ferro.zeros(2, 2))
    (said,) = error.value.__notes__
    assert "inv" in said
    assert "test_executor.py" in said


def test_an_exception_in_on_node_names_the_node_too() -> None:
    def refuse(_node: Any, _made: list) -> None:
        raise KeyError("mine")

    graph = capture(lambda a: a * 2, ferro.eye(2))
    with pytest.raises(KeyError) as error:
        graph.interpret(ferro.eye(2), on_node=refuse)
    assert "'mul'" in error.value.__notes__[0]
