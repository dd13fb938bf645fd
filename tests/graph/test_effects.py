"""What functions do beside giving values: draw random numbers, write into memory, check the data."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.graph import capture
from ferro.graph.functions import PURE, Effects, effects, is_effect, written_by


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mul", PURE),
        ("xp.matmul", PURE),
        ("array.getitem", PURE),
        ("array.setitem", Effects(writes=True)),
        ("xp.write_", Effects(writes=True)),
        ("xp.adam_step", Effects(writes=True)),
        ("check.is_within", Effects(checks=True)),
        ("random.uniform", Effects(random=True)),
    ],
)
def test_effects(name: str, expected: Effects) -> None:
    assert effects(name) == expected
    assert is_effect(name) is (expected != PURE)


def test_a_node_says_into_which_values_it_writes() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[0] = x[1]
        return y

    graph = capture(function, ferro.ones(3))
    writers = [node for node in graph.nodes if node.effect]
    assert writers
    for node in writers:
        assert [v.shape for v in written_by(node)] == [node.operands[0].shape]
    assert all(written_by(node) == [] for node in graph.nodes if not node.effect)
