"""Gradients through views: disjoint ones share a buffer without adding, which is filled with zeros only where they leave gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph import capture, pieces

SIZES = {"small": (8, 6), "large": (512, 48)}


def part(x: Any, i: int) -> Any:
    n = x.shape[0] // 8
    return x[i * n : (i + 1) * n]


def of_parts(*which: int) -> Callable:
    return lambda x: ferro.stack([part(x, i).sin() * (i + 1) for i in which])


def chunks(*which: int) -> Callable:
    return lambda x: ferro.stack([p.sin() * (i + 1) for i, p in enumerate(x.chunk(8)) if i in which])


# What is computed, how many additions and buffers there are, and whether they are filled.
CASES: dict[str, tuple[Callable, int, int, bool]] = {
    "eight parts": (of_parts(*range(8)), 0, 1, False),
    "seven parts": (of_parts(*range(7)), 0, 1, True),
    "parts from behind": (of_parts(*range(7, -1, -1)), 0, 1, False),
    "rows": (lambda x: sum((x[i] * x[i].exp() for i in range(7)), ferro.zeros(())), 7, 1, True),
    "every other row": (lambda x: x[::2].sin() * x[1::2], 0, 1, False),
    "steps with gaps": (lambda x: x[::3, :2].exp().sum() + x[1::3, :2].sin().sum(), 0, 1, True),
    "columns and rows": (lambda x: x[:, 0].exp().sum() + x[0].sin().sum(), 1, 0, False),
    "one part twice behind the whole": (lambda x: (part(x, 1) * part(x, 1).cos()).sum() + x.exp().sum(), 1, 0, False),
    "one part twice": (lambda x: part(x, 1).sin() * part(x, 1).cos() + part(x, 2), 1, 1, True),
    "parts and the whole": (lambda x: part(x, 0).sin() * part(x, 1) + x.exp().sum(), 1, 1, True),
    "the whole in between": (lambda x: (part(x, 0).exp() * x.sum() * part(x, 1)).sum(), 1, 0, False),
    "narrow and select": (
        lambda x: x.narrow(1, 1, x.shape[1] - 1).sin().sum() * x.select(1, 0).exp().sum(),
        0,
        1,
        False,
    ),
}


def gradients(function: Callable, size: str) -> tuple[Any, Any, Any]:
    ferro.manual_seed(5)
    x = ferro.randn(*SIZES[size]).requires_grad_()
    gradient = capture(function, x).differentiate()
    y = function(x)
    seed = ferro.randn(*y.shape)
    (want,) = ferro.autograd.grad(y, x, seed)
    outs = gradient.joint.interpret(x.detach(), seed)
    return gradient.backward, outs[-1]._data, want._data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_parts_share_a_buffer(name: str, size: str) -> None:
    function, additions, buffers, filled = CASES[name]
    backward, got, want = gradients(function, size)
    names = [node.function for node in backward.nodes]
    assert names.count("array.total") == additions
    assert names.count("array.pieces") == buffers
    assert all(node.args[1] is filled for node in backward.nodes if node.function == "array.pieces")
    assert got.dtype == want.dtype
    assert (got + 0.0).tobytes() == (want + 0.0).tobytes()  # (the sign of a zero may differ)


@pytest.mark.parametrize("size", SIZES)
def test_chunks_are_joined(size: str) -> None:
    for which, fills in ((range(8), 0), (range(7), 1)):
        backward, got, want = gradients(chunks(*which), size)
        names = [node.function for node in backward.nodes]
        assert names.count("array.total") == names.count("array.pieces") == 0
        assert len([n for n in names if n.endswith(("zeros", "zeros_like"))]) == fills
        assert got.tobytes() == want.tobytes()


def test_large_arrays_are_added_as_eager_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST", 40)
    backward, got, want = gradients(of_parts(*range(8)), "small")
    assert [node.function for node in backward.nodes].count("array.total") == 1
    assert np.array_equal(got, want)


def test_parts_that_are_inputs_of_the_backward() -> None:
    x = ferro.randn(4, 3).requires_grad_()
    gradient = capture(lambda x: (x[:2], x[2:]), x).differentiate()
    assert [node.function for node in gradient.backward.nodes] == ["array.pieces"]
    seeds = [ferro.randn(2, 3), ferro.randn(2, 3)]
    (got,) = gradient.backward.interpret(*seeds)
    assert ferro.equal(got, ferro.cat(seeds))
