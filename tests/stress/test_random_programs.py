"""Random programs: ferro equals PyTorch where both run, a twin without in-place operations where only ferro does, and itself
on any number of threads bit for bit."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import engine
from tests.stress.programs import Broken, Maker, Outcome, Program, run, without_hooks

torch: Any = pytest.importorskip("torch", exc_type=ImportError)
from tests.stress import twin  # noqa: E402 (needs torch)
from tests.stress.twin import VIEWS  # noqa: E402

ENDINGS = {"backward", "twice", "again", "inputs", "grad", "second"}


def close(got: Any, want: Any) -> bool:
    """Whether two gradients, or what else two libraries computed, are equal up to rounding."""
    scale = max(1.0, float(np.abs(want).max())) if want.size else 1.0
    return got.shape == want.shape and np.allclose(got, want, rtol=1e-8, atol=1e-8 * scale, equal_nan=True)


def same_bits(a: Outcome, b: Outcome, what: str) -> None:
    """Asserts that two runs of ferro gave the same."""
    assert a.errors.keys() == b.errors.keys(), what
    if a.errors.keys() & ENDINGS:  # how far a backward came before it raised is nobody's promise
        return
    assert a.grads.keys() == b.grads.keys(), what
    for name, g in a.grads.items():
        if name.startswith("first "):  # which gradient comes first is up to the threads
            continue
        h = b.grads[name]
        assert (g is None) == (h is None), f"{what}: {name}"
        assert g is None or (g.shape == h.shape and g.tobytes() == h.tobytes()), f"{what}: {name}"


def same_gradients(mine: Outcome, theirs: Outcome, second: bool = False) -> None:
    """Asserts that ferro and PyTorch found the same gradients, None included."""
    for name in mine.grads.keys() | theirs.grads.keys():
        got, want = mine.grads.get(name), theirs.grads.get(name)
        if second and name.startswith(("second ", "hook ", "first ")) and got is None and want is not None:
            got = np.zeros_like(
                want
            )  # where PyTorch differentiates a mask (relu, clamp), ferro knows that nothing comes of it
        assert (got is None) == (want is None), f"{name}: ferro {got}, PyTorch {want}"
        assert got is None or close(got, want), f"{name}: ferro {got}, PyTorch {want}"


def check(program: Program) -> str:
    """Compares the libraries; returns which rule applied."""
    mine, theirs = run(program, ferro, num_threads=1), run(program, torch)
    for n in (None, 2, 4):
        same_bits(mine, run(program, ferro, num_threads=n), f"{n or 'as many as wanted'} threads")
    extra = mine.errors.keys() - theirs.errors.keys()
    first = min(
        (i for i in theirs.errors.keys() - mine.errors.keys() if isinstance(i, int)), default=len(program.steps)
    )
    extra = {k for k in extra if not isinstance(k, int) or k < first}  # later ones follow from what ferro could do
    assert not extra or first < len(program.steps), f"only ferro raises: {[(k, mine.errors[k]) for k in extra]}"
    if mine.errors.keys() == theirs.errors.keys():
        assert mine.flags == theirs.flags
        for name, value in theirs.values.items():
            assert close(mine.values[name], value), f"value of {name}"
        broken = [k for k, e in theirs.errors.items() if isinstance(e, Broken)]
        assert all(isinstance(mine.errors[k], (Broken, RuntimeError)) for k in broken)
        if not mine.errors.keys() & ENDINGS:
            same_gradients(mine, theirs, program.ending == "second")
        return "raised" if mine.errors.keys() & ENDINGS else "equal"
    if program.ending == "again" and theirs.errors.keys() - mine.errors.keys() == {"again"}:
        same_gradients(mine, run(program._replace(ending="twice"), torch))
        return "graph kept"
    return against_twin(without_hooks(program, mine.errors))


def against_twin(program: Program) -> str:
    """Asserts that ferro finds the gradients, by the leaves, of the program without in-place operations."""
    mine, functional = run(program, ferro), run(program, torch, twin)
    if any("modified by an inplace" in str(e) for e in mine.errors.values()):
        return "raised"  # asked for the gradients of all leaves, ferro raises too
    errors = [str(e) for k, e in functional.errors.items() if not isinstance(e, Broken)]
    assert not errors, f"the twin cannot run: {errors}"
    for name, value in functional.values.items():
        assert close(mine.values[name], value), f"value of {name}"
    assert mine.errors.keys() == functional.errors.keys(), mine.errors
    if mine.errors.keys() & ENDINGS:  # (as above: other threads may have come further)
        return "raised"
    for name, want in functional.grads.items():
        got = mine.grads.get(name)
        zero = np.zeros_like(want if want is not None else got) if want is not None or got is not None else None
        if zero is not None:  # the twin's writes lead gradients of zero to places that they overwrite
            assert close(zero if got is None else got, zero if want is None else want), (
                f"{name}: ferro {got}, twin {want}"
            )
    return "twin"


@pytest.fixture(autouse=True)
def _eager_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hand every graph with two ready nodes to the threads; PyTorch's warnings are its own."""
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    sys.setswitchinterval(before)


def check_many(seeds: range) -> dict[str, int]:
    """Checks programs; returns how often each rule applied."""
    counts: dict[str, int] = {}
    for seed in seeds:
        program = Maker(seed, large=seed % 25 == 0).make()
        try:
            rule = check(program)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{program}") from e
        counts[rule] = counts.get(rule, 0) + 1
    return counts


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    counts = check_many(range(part * 100, part * 100 + 100))
    assert counts["equal"] >= 60
    assert counts.get("twin", 0) <= 25


def features(program: Program, mine: Outcome) -> set[str]:
    """What a program has, as far as it took part."""
    calls = [(step, step.call) for step in program.steps]
    done = [(step, call) for i, (step, call) in enumerate(calls) if i not in mine.errors]
    found = {
        call
        for _, call in done
        if call.startswith(("hook.", "fn.", "lib.")) or call in ("expand", "retain_grad", "detach")
    }
    used = [a for step, _ in done for a in step.args if isinstance(a, str)]
    found |= {"fan-out"} if any(used.count(n) > 2 for n in set(used)) else set()
    found |= {"view"} if any(call in VIEWS - {"contiguous"} for _, call in done) else set()
    found |= {"in-place"} if any(call.endswith("_") for _, call in done) else set()
    views = {out for step, call in done if call in VIEWS for out in step.out}
    found |= (
        {"in-place on a view"} if any(call.endswith("_") and step.args[0] in views for step, call in done) else set()
    )
    found |= {"no_grad"} if any(step.no_grad for step, _ in done) else set()
    found |= (
        {"a hook is told None"} if any(g is None and n.startswith("hook ") for n, g in mine.grads.items()) else set()
    )
    found |= (
        {"an input without gradient"}
        if any(g is None and n in program.inputs for n, g in mine.grads.items())
        else set()
    )
    found |= (
        {"backward raises what a formula or hook raised"}
        if any(isinstance(mine.errors.get(e), Broken) for e in ENDINGS)
        else set()
    )
    found |= (
        {"a saved value was changed"}
        if any("modified by an inplace" in str(e) for e in mine.errors.values())
        else set()
    )
    return found | {f"ends with {program.ending}"}


def test_the_programs_of_ci_have_all_that_they_should() -> None:
    counts: Counter = Counter()
    for seed in range(400):
        program = Maker(seed, large=seed % 25 == 0).make()
        counts.update(features(program, run(program, ferro)))
    often = [
        "fan-out",
        "view",
        "in-place",
        "in-place on a view",
        "expand",
        "no_grad",
        "detach",
        "retain_grad",
        "hook.keep",
        "hook.replace",
        "hook.scale",
        "hook.node",
        "hook.before",
        "hook.post",
        "hook.all",
        "fn.Pair",
        "fn.Lazy",
        "fn.Second",
        "fn.Double",
        "lib.cat",
        "lib.where",
        *[f"ends with {e}" for e in ENDINGS],
        "an input without gradient",
    ]
    seldom = [
        "a hook is told None",
        "hook.any",
        "hook.break",
        "fn.Breaks",
        "backward raises what a formula or hook raised",
        "a saved value was changed",
    ]
    few = {name: counts[name] for name in often if counts[name] < 10} | {
        name: counts[name] for name in seldom if counts[name] < 3
    }
    assert not few, counts


def test_threads_and_the_serial_loop_run_the_same_form_of_a_formula() -> None:
    """The gradient of a product whose cotangent lies in another order: once its two forms gave arrays of different order."""
    check(Maker(10230).make())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_random_programs(part: int) -> None:
    check_many(range(10_000 + part * 1000, 11_000 + part * 1000))


def test_the_twin_agrees_with_pytorch_where_both_run() -> None:
    compared = 0
    for seed in range(5000, 5300):
        program = Maker(seed).make()
        theirs = run(program, torch)
        bare = without_hooks(program, theirs.errors)
        want, got = run(bare, torch), run(bare, torch, twin)
        if want.errors or theirs.errors.keys() & ENDINGS:
            continue
        compared += 1
        assert not got.errors, f"{got.errors}\n{program}"
        for name, g in want.grads.items():
            h = got.grads[name]
            if g is not None or h is not None:
                zero = np.zeros_like(g if g is not None else h)
                assert close(zero if h is None else h, zero if g is None else g), f"{name}\n{bare}"
    assert compared > 150
