"""Random programs, compiled: each call gives the bits of the program as it is written, on new data, gradients included."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.graph.planning import replays
from tests.stress.programs import (
    Broken,
    Maker,
    Name,
    Program,
    _functions,
    _perform,
    functions,
    leaves_of,
    without_hooks,
)


def body(program: Program, inside: bool) -> Callable:
    """The steps of a program as a function of its leaves; `inside`: it calls backward() itself."""
    steps = [
        step._replace(args=tuple(map(constant, step.args))) for step in program.steps if step.call != "retain_grad"
    ]
    quiet = program.quiet
    names = [name for name, _, _ in leaves_of(program)]

    def run(*leaves: Any) -> Any:
        tensors = dict(zip(names, leaves, strict=True))
        for step in steps:
            wanted = [n for a in step.args for n in (a if isinstance(a, list) else [a]) if isinstance(n, Name)]
            if any(n not in tensors for n in wanted):
                continue
            try:
                with ferro.no_grad() if step.no_grad else contextlib.nullcontext():
                    result = _perform(step, 0, tensors, ferro, constant, {}, None)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            if step.out:
                made = result if isinstance(result, (tuple, list)) else [result]
                tensors.update(zip(step.out, made, strict=True))
        found = {n: t.clone() for n, t in tensors.items() if n not in names and n not in quiet}
        losses = [t.sum() for t in found.values() if t.requires_grad]
        if inside and losses:
            ferro.stack(losses).sum().backward()
            return {n: t.detach() for n, t in found.items()}
        return found

    return run


def constant(a: Any) -> Any:
    """An argument with tensors in the place of arrays."""
    if isinstance(a, list):
        return [constant(x) for x in a]
    return ferro.from_numpy(np.array(a)) if isinstance(a, np.ndarray) else a


def outcome(program: Program, run: Callable, call: int) -> list[Any]:
    """What a call with other data gives, and what a backward leaves."""
    rng = np.random.default_rng(call)
    leaves = []
    for _, array, requires in leaves_of(program):
        t = ferro.from_numpy(np.array(array * rng.uniform(0.5, 1.5), array.dtype))
        leaves.append(t.requires_grad_() if requires else t)
    try:
        found = run(*leaves)
        losses = [t.sum() for t in found.values() if t.requires_grad]
        if losses:
            ferro.stack(losses).sum().backward()
    except (RuntimeError, Broken) as error:
        return [type(error), str(error).partition("\n")[0][:60]]
    seen = [*found.items(), *[(f"grad {i}", t.grad) for i, t in enumerate(leaves)], *enumerate(leaves)]
    return [(n, None if t is None else (t._data.shape, t._data.tobytes(), t.requires_grad)) for n, t in seen]


def check_many(seeds: range) -> Counter:
    """Compares the calls of programs; counts how many are replayed, and why others are not."""
    counts: Counter = Counter()
    _functions.setdefault(ferro, functions(ferro))
    for seed in seeds:
        program = without_hooks(Maker(seed).make(), {})
        run = body(program, bool(seed % 2))
        compiled = ferro.compile(run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in range(4):
                want, got = outcome(program, run, call), outcome(program, compiled, call)
                assert got == want, f"seed {seed}, call {call}\n{compiled.explain()}\n{program}"
        told = compiled.explain()
        counts["replayed" if told.replays else told.fallbacks[0][:60] if told.fallbacks else "raised"] += 1
    return counts


@pytest.fixture(autouse=True)
def _planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory plans for small graphs, too, from the second replay on."""
    monkeypatch.setattr(replays, "PLAN_LEAST", 0)
    monkeypatch.setattr(replays, "RECORDED", 1)


@pytest.mark.parametrize("part", range(2))
def test_random_programs(part: int) -> None:
    counts = check_many(range(part * 25, part * 25 + 25))
    assert counts["replayed"] >= 10, counts


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs(part: int) -> None:
    counts = check_many(range(1000 + part * 100, 1100 + part * 100))
    assert counts["replayed"] >= 40, counts
