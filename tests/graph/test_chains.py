"""Elementwise chains: one node, one program, the bits of eager's separate operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cpu import fusion
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.graph import Graph, capture
from ferro.graph.compare import same_bits
from ferro.graph.errors import GraphFormatError

SPECIAL = [1.5, -2.0, 0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-38, 3e38, 1e-45]
FORMULAS: list[Callable] = [
    lambda x, y: (x * y + 1.5) * x - y,
    lambda x, y: ((x - y) * (x - y)).neg() / (y + 0.5),
    lambda x, y: (x * 2.0 + y * 3.0) * (x - 4.0) / 7.0 + x.exp() * y * 0.5,
    lambda x, y: ((x * y).sqrt() + x.abs() * y) * (1.0 - y * y),
    lambda x, y: (1.0 / x - y / x) * (x * x * x),
]


def numbers(size: int, dtype: Any, seed: int) -> Any:
    """Random numbers with special ones among them."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(size).astype(dtype)
    array[rng.integers(size, size=size // 3)] = np.resize(np.array(SPECIAL).astype(dtype), size // 3)
    return ferro.from_numpy(array)


@pytest.mark.parametrize("size", [7, PROGRAM_LEAST - 1, PROGRAM_LEAST, 3 * PROGRAM_LEAST + 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_chains_have_eagers_bits(formula: Callable, dtype: str, size: int) -> None:
    x, y = numbers(size, dtype, 1), numbers(size, dtype, 2)
    graph = capture(formula, x, y)
    chained = graph.optimise(debug=True)
    assert (chained.optimised["elementwise_chains"] > 0) is (size >= PROGRAM_LEAST)
    assert not any(chained.optimise().optimised.values())
    read = Graph.parse(str(chained))
    assert str(read) == str(chained)
    x, y = numbers(size, dtype, 3), numbers(size, dtype, 4)
    want = formula(x, y)
    for one in (chained, read):
        assert same_bits(one.interpret(x, y)[0]._data, want._data)
    left_out = graph.optimise(tuple(n for n in chained.optimised if n != "elementwise_chains"))
    assert len(left_out.nodes) == len(chained.nodes) + chained.optimised["elementwise_chains"]


def test_a_chain_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = numbers(PROGRAM_LEAST, "float32", 1), numbers(PROGRAM_LEAST, "float32", 2)
    graph = capture(lambda x, y: (x * y + x) * y - 1.0, x, y).optimise()
    assert [node.function for node in graph.nodes] == ["chain.elementwise"]
    asked = []
    evaluate = fusion.evaluate
    monkeypatch.setattr(fusion, "evaluate", lambda *args, **kwargs: asked.append(1) or evaluate(*args, **kwargs))
    graph.interpret(x, y)
    assert asked[0] == 1


def test_what_is_read_elsewhere_or_written_stays_apart() -> None:
    def function(x: Any, y: Any) -> Any:
        a = x * y
        b = a + 1.0
        x.add_(1.0)
        c = x * y
        d = c + 2.0
        c[0] = 0.0
        e = x * 2.0
        x.mul_(3.0)
        return a, b, d, c, e + x

    x, y = numbers(PROGRAM_LEAST, "float64", 1), numbers(PROGRAM_LEAST, "float64", 2)
    graph = capture(function, x.clone(), y).optimise(debug=True)
    assert graph.optimised["elementwise_chains"] == 0
    for got, want in zip(graph.interpret(x.clone(), y), function(x.clone(), y), strict=True):
        assert same_bits(got._data, want._data)


def test_gradients_are_chained() -> None:
    x, w = ferro.randn(PROGRAM_LEAST).requires_grad_(), ferro.randn(PROGRAM_LEAST)
    graph = capture(lambda x: ((x * w * 2.0 + x) * w).sum(), x)
    assert graph.optimise().optimised["elementwise_chains"] == 0
    short = graph.differentiate().optimise(debug=True)
    assert short.joint.optimised["elementwise_chains"] > 0
    seed = ferro.tensor(1.5)
    value = ((x * w * 2.0 + x) * w).sum()
    (want,) = ferro.autograd.grad(value, x, seed)
    got = short.joint.interpret(x.detach(), seed)
    assert same_bits(got[0]._data, value._data)
    assert same_bits(got[1]._data, want._data)


@pytest.mark.parametrize(
    "steps",
    [
        "(('os.system', 'x0'),)",
        "(('xp.load', 'x0'),)",
        "(('add', 'x0', 'x1'),)",
        "(('add', 's0', 'x0'),)",
        "(('add', 'x0', 'y0'),)",
        "(('add', 'x0', 'x-1'),)",
        "((3, 'x0'),)",
    ],
)
def test_a_text_with_steps_that_are_none_is_refused(steps: str) -> None:
    graph = ferro.graph.capture(lambda x: x + x, ferro.ones(2))
    text = str(graph).replace("add(%0, %0)", f"chain.elementwise({steps}, %0)")
    assert steps in text
    with pytest.raises(GraphFormatError, match="is no step of a chain of 1 arrays"):
        ferro.graph.Graph.parse(text).interpret(ferro.ones(2))
