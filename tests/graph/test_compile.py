"""ferro.compile: programs run as written and compiled give the same bits, call by call, and are replayed, or say why not."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from bench.workloads import WORKLOADS, Trainer, initial_state
from ferro.core import notices
from ferro.utils import _pytree
from tests.graph.programs import CASES


@pytest.fixture(autouse=True)
def _notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings that are given once are given in every test."""
    monkeypatch.setattr(notices, "_given", set())


def seen(thing: Any) -> list:
    """What can be seen of results: bits, layouts, whether they require gradients."""
    found = []
    for x in _pytree.tree_leaves(thing):
        if isinstance(x, ferro.Tensor):
            a = x._data
            found.append((a.dtype, a.shape, a.strides if a.size else None, a.tobytes(), x.requires_grad))
        else:
            found.append(repr(x))
    return found


@pytest.mark.parametrize("name", CASES)
def test_programs_give_eagers_bits(name: str) -> None:
    case = CASES[name]
    want = [seen(given) for given in case.program(lambda f: f)]
    made: list = []

    def compile(f: Callable) -> Any:
        made.append(ferro.compile(f))
        return made[-1]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = []
        for i, given in enumerate(case.program(compile)):
            got.append(seen(given))
            assert got[i] == want[i], f"call {i}"
    assert len(got) == len(want)
    (compiled,) = made
    told = compiled.explain()
    if case.why is None:
        assert not [str(w.message) for w in said if issubclass(w.category, UserWarning)]
        assert len(told.graphs) == case.captures, str(told)
        assert told.replays > 0
    else:
        assert re.search(case.why, told.fallbacks[0]), told.fallbacks[0]
        assert [str(w.message) for w in said if "runs as it is written" in str(w.message)]
        assert told.replays == 0


# -- the models of the benchmarks --------------------------------------------------------------------------------------


def trained(name: str, part: str, steps: int) -> tuple[list, Any]:
    """What some steps of a workload leave, where `part` of it is compiled."""
    workload = WORKLOADS[name]
    ferro.manual_seed(3)
    trainer = Trainer(workload, ferro, initial_state(workload, ferro))
    compiled = None
    if part == "step":
        step = compiled = ferro.compile(trainer.step)
    elif part == "loss":
        loss = compiled = ferro.compile(lambda x, y: trainer.loss(ferro, trainer.model, x, y))
        step = _outside(trainer, loss)
    elif part == "twice":
        loss = ferro.compile(lambda x, y: trainer.loss(ferro, trainer.model, x, y))
        compiled, step = loss, _twice(trainer, loss)
    elif part == "twice, as written":
        step = _twice(trainer, lambda x, y: trainer.loss(ferro, trainer.model, x, y))
    else:
        step = trainer.step
    batches, found = workload.batches(), []
    found += [seen(step(*trainer.load(next(batches))).detach()) for _ in range(steps)]
    state = [seen((t, getattr(t, "_version", 0))) for t in trainer.model.state_dict().values()]
    return [*found, *state, *[seen(p.grad) for p in trainer.model.parameters()]], compiled


def _outside(trainer: Any, loss: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        trainer.optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        trainer.optimizer.step()
        return value

    return step


def _twice(trainer: Any, loss: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        parameters = list(trainer.model.parameters())
        trainer.optimizer.zero_grad()
        value = loss(x, y)
        grads = ferro.autograd.grad(value, parameters, create_graph=True, allow_unused=True)
        (value + sum((g * g).sum() for g in grads if g is not None)).backward()
        trainer.optimizer.step()
        return value

    return step


@pytest.mark.parametrize("part", ["step", "loss"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_training_steps(name: str, part: str) -> None:
    want, _ = trained(name, "", 5)
    got, compiled = trained(name, part, 5)
    told = compiled.explain()
    assert got == want, str(told)
    assert (len(told.graphs), told.replays) == (1, 3), str(told)


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_steps_with_gradients_of_gradients(name: str) -> None:
    want, _ = trained(name, "twice, as written", 4)
    got, compiled = trained(name, "twice", 4)
    told = compiled.explain()
    assert got == want, str(told)
    assert (len(told.graphs), told.replays) == (1, 2), str(told)


# -- what can be asked and said ----------------------------------------------------------------------------------------


def test_calls_are_explained() -> None:
    f = ferro.compile(lambda x, n: x * n)
    for n in (2, 2, 2, 3, 3):
        f(ferro.ones(3), n)
    told = f.explain()
    assert (len(told.graphs), told.replays, told.eager) == (2, 2, 1)
    assert told.graphs == f.graphs
    assert told.misses == ["argument 1 was 2, now it is 3"]
    assert told.fallbacks == []
    assert "captured again: argument 1 was 2, now it is 3" in str(told)
    assert told.seconds > 0


def test_after_eight_captures_a_function_runs_as_written_and_says_so_once() -> None:
    f = ferro.compile(lambda x, n: x * n)
    with pytest.warns(
        UserWarning, match="captured 8 times, the last time because argument 1 was 7, now it is 8"
    ) as said:
        found = [f(ferro.ones(1), n).item() for n in range(12) for _ in range(2)]
    assert found == [float(n) for n in range(12) for _ in range(2)]
    assert len(said) == 1
    assert said[0].filename == __file__
    assert len(f.explain().graphs) == 8


def test_the_number_of_captures_can_be_set() -> None:
    f = ferro.compile(lambda x, n: x * n, recompile_limit=1)
    with pytest.warns(UserWarning, match="captured 1 times"):
        assert [f(ferro.ones(1), n).item() for n in (1, 1, 2, 2, 1)] == [1, 1, 2, 2, 1]
    with pytest.raises(ValueError, match="recompile_limit is 0"):
        ferro.compile(abs, recompile_limit=0)


def test_fullgraph_captures_the_first_call_and_raises_where_that_cannot_be() -> None:
    f = ferro.compile(lambda x: x.exp(), fullgraph=True)
    f(ferro.ones(2))
    f(ferro.ones(2))
    assert f.explain().replays == 1

    def g(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    x = ferro.ones(2)
    with pytest.raises(ferro.graph.CaptureError, match=r"asks for the numbers.*test_compile.py.*in g"):
        ferro.compile(g, fullgraph=True)(x)
    assert x.tolist() == [1.0, 1.0]


def test_no_call_runs_the_function_twice() -> None:
    calls: list = []

    class Noted:
        def __call__(self, x: Any) -> Any:
            calls.append(x)  # (a list that is there before: the function runs as written)
            return x + 1

    f = ferro.compile(Noted())
    with pytest.warns(UserWarning, match="changes a list that was there before"):  # noqa: PT031
        for i in range(5):
            f(ferro.ones(2))
            assert len(calls) == i + 1


def test_reset_drops_captures() -> None:
    f = ferro.compile(lambda x: x + 1)
    for _ in range(3):
        f(ferro.ones(2))
    ferro.compiler.reset()
    f(ferro.ones(2))
    told = f.explain()
    assert (told.graphs, told.replays, told.eager) == ([], 0, 1)


def test_stances() -> None:
    f = ferro.compile(lambda x: x + 1)
    for _ in range(3):
        f(ferro.ones(2))
    with ferro.compiler.set_stance("eager_on_recompile"):
        f(ferro.ones(3))
        f(ferro.ones(3))
    assert len(f.explain().graphs) == 1
    with ferro.compiler.set_stance("fail_on_recompile"):
        f(ferro.ones(2))
        with pytest.raises(RuntimeError, match=r"no graph fits this call.*float32\[2\], now it is .*float32\[3\]"):
            f(ferro.ones(3))
    replays = f.explain().replays
    with ferro.compiler.set_stance("force_eager"):
        f(ferro.ones(2))
    assert f.explain().replays == replays == 2


def test_what_is_left_alone_is_named() -> None:
    @ferro.compiler.disable(reason="it talks to a device")
    def outside(x: Any) -> Any:
        assert not ferro.compiler.is_compiling()
        return x * 2

    f = ferro.compile(lambda x: outside(x) + 1)
    with pytest.warns(UserWarning, match=r"outside is left alone by ferro.compiler.disable \(it talks to a device\)"):  # noqa: PT031
        for _ in range(3):
            assert f(ferro.ones(1)).item() == 3


def test_a_function_can_ask_whether_it_is_captured() -> None:
    found: list = []

    def f(x: Any) -> Any:
        if ferro.compiler.is_compiling():
            return x * 2
        found.append("eager")
        return x * 2

    compiled = ferro.compile(f, fullgraph=True)
    for _ in range(3):
        compiled(ferro.ones(1))
    assert found == []
    assert not ferro.compiler.is_compiling()


def test_a_compiled_function_inside_another_is_a_part_of_it() -> None:
    inner = ferro.compile(lambda x: x.exp())
    outer = ferro.compile(lambda x: inner(x) * 2)
    want = ferro.ones(3).exp() * 2
    assert all(ferro.equal(outer(ferro.ones(3)), want) for _ in range(4))
    (graph,) = outer.explain().graphs
    assert [node.function for node in graph.nodes] == ["exp", "mul"]
    assert ferro.equal(inner(ferro.ones(3)) * 2, want)


def test_methods_and_modules() -> None:
    class Scaled(ferro.nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        @ferro.compile
        def forward(self, x: Any) -> Any:
            return x * self.scale

    models = [Scaled(2.0), Scaled(3.0)]
    for _ in range(4):
        assert [m(ferro.ones(1)).item() for m in models] == [2.0, 3.0]
    assert len(Scaled.forward.explain().graphs) == 2
    compiled = ferro.compile(ferro.nn.Linear(2, 1))
    for _ in range(3):
        compiled(ferro.ones(3, 2))
    assert compiled.explain().replays == 1
    with pytest.raises(RuntimeError, match="captures nothing"):
        ferro.compile(ferro.nn.Linear(2, 1), backend="eager").explain()


def test_threads_call_one_function() -> None:
    w = ferro.ones(64, requires_grad=True)
    f = ferro.compile(lambda x: (x * w).exp().sum())
    want = [f.__wrapped__(ferro.full((64,), i / 8)).item() for i in range(8)]
    found: dict[int, list] = {}

    def run(i: int) -> None:
        found[i] = [f(ferro.full((64,), i / 8)).item() for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert found == {i: [want[i]] * 20 for i in range(8)}


def test_an_interrupted_capture_leaves_tensors_as_they_were() -> None:
    w = ferro.ones(3, requires_grad=True)
    stop = [False, True, False, False]

    def f(x: Any) -> Any:
        y = x * w
        if stop[0]:
            raise KeyboardInterrupt
        return y.exp()

    compiled = ferro.compile(f)
    compiled(ferro.ones(3))
    stop[0] = True
    with pytest.raises(KeyboardInterrupt):
        compiled(ferro.ones(3))
    stop[0] = False
    assert type(w._data) is np.ndarray
    for _ in range(3):
        compiled(ferro.ones(3)).sum().backward()
    assert np.array_equal(w.grad.numpy(), 3 * np.exp(np.ones(3, np.float32)))


def test_a_symbol_that_was_kept_is_a_tensor_like_any_other() -> None:
    box = {}

    def f(x: Any) -> Any:
        y = x.exp()
        box["kept"] = y
        return y + 1

    compiled = ferro.compile(f)
    with pytest.warns(UserWarning, match=r"puts another tensor at box\['kept'\]"):  # noqa: PT031
        for i in range(4):
            compiled(ferro.full((2,), float(i)))
            assert ferro.equal(box["kept"], ferro.full((2,), float(i)).exp())


def test_compiled_results_are_called_so_on_the_tape() -> None:
    w = ferro.ones(3, requires_grad=True)
    f = ferro.compile(lambda x: x * w)
    for _ in range(3):
        y = f(ferro.ones(3))
    assert y.grad_fn.name() == "CompiledFunctionBackward0"
    assert [n.variable is w for n, _ in y.grad_fn.next_functions] == [True]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
