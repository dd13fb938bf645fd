"""Second derivatives of compiled functions that no graph holds: eager's bits, and eager's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph.taped import TapedSweep
from tests.graph.test_compile import seen

DRAWN = np.random.default_rng(7).standard_normal((3, 40, 40)) + 40 * np.eye(40)


def solved(a: Any, b: Any) -> Any:
    """A solution by factors that are kept, from which the first derivative is computed: the second reads the matrix."""
    return ferro.linalg.solve(a, b)


def multiplied(a: Any, b: Any) -> Any:
    """Products of chosen rows, whose second derivative decides by zeros among the numbers."""
    return a.index_reduce(0, ferro.tensor([2, 0, 2]), b, "prod")


def in_both_orders(f: Callable, arrays: Any) -> list:
    a, b = [ferro.tensor(x, requires_grad=True) for x in arrays]
    made = f(a, b)
    first = ferro.autograd.grad(made.pow(2).sum(), (a, b), create_graph=True)
    second = ferro.autograd.grad(sum(g.pow(2).sum() for g in first), (a, b))
    return seen([made, *first, *second])


@pytest.mark.parametrize(("f", "few"), [(solved, slice(None)), (multiplied, slice(3))], ids=["solve", "index_reduce"])
def test_formulas_that_run_on_the_tape_give_eagers_bits(
    f: Callable, few: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    run = TapedSweep.run
    monkeypatch.setattr(TapedSweep, "run", lambda self: (runs.append(self), run(self))[1])
    compiled = ferro.compile(f)
    for i in range(4):
        arrays = DRAWN[i % 3], DRAWN[(i + 1) % 3][few]
        assert in_both_orders(compiled, arrays) == in_both_orders(f, arrays)
    assert runs


def test_what_only_a_second_derivative_reads_must_not_have_changed() -> None:
    compiled = ferro.compile(solved)
    for _ in range(3):
        in_both_orders(compiled, DRAWN[:2])
    for f in (solved, compiled):
        a, b = [ferro.tensor(x, requires_grad=True) for x in DRAWN[:2]]
        inner = a * 1
        out = f(inner, b)
        inner.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            ferro.autograd.grad(out.sum(), b, create_graph=True)


def test_a_gradient_without_dimensions_is_an_array_as_in_a_graph() -> None:
    # NumPy multiplies complex numbers on their own without the fused additions of its loops
    def f(a: Any, b: Any, c: Any) -> Any:
        return a * (b * c)

    drawn = np.random.default_rng(3).standard_normal((20, 8)).view(complex)
    compiled = ferro.compile(f)
    for x in drawn:
        a, b, c = [ferro.tensor(v, requires_grad=True) for v in (x[:2], x[2], x[3])]
        found = [seen(ferro.autograd.grad(g(a, b, c).abs().pow(2).sum(), (a, b, c))) for g in (compiled, f)]
        assert found[0] == found[1]
