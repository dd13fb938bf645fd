"""The parts of `distributed`: exchanges with gradients and divided optimisers are PyTorch's; the rest imports and refuses."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ferro
import ferro.distributed as dist
from ferro.distributed.elastic.multiprocessing.errors import record
from ferro.distributed.refused import HOME, TABLE, is_refused

pytestmark = pytest.mark.timeout(120)
OLD = pytest.mark.filterwarnings("ignore:torch.distributed.nn.functional.* is deprecated:FutureWarning")


@pytest.fixture
def ours() -> Iterator[Any]:
    importlib.import_module("ferro.distributed.nn.functional")
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield SimpleNamespace(t=ferro, d=dist)
    dist.destroy_process_group()


@pytest.fixture
def theirs() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    d = torch.distributed
    if not (d.is_available() and d.is_gloo_available()):
        pytest.skip("this PyTorch has no process groups")
    with warnings.catch_warnings(action="ignore"):  # (PyTorch's own, of its jit)
        importlib.import_module("torch.distributed.nn.functional")
        importlib.import_module("torch.distributed.optim")
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=60))
    yield SimpleNamespace(t=torch, d=d)
    d.destroy_process_group()


def first(results: Any) -> Any:
    (result,) = results
    return result


EXCHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast": lambda m, x: m.d.nn.broadcast(x, 0),
    "gather": lambda m, x: first(m.d.nn.gather(x)),
    "scatter": lambda m, x: m.d.nn.scatter([x]),
    "reduce": lambda m, x: m.d.nn.reduce(x, 0),
    "reduce_scatter": lambda m, x: m.d.nn.reduce_scatter(m.t.zeros(2, 2), [x]),
    "all_gather": lambda m, x: first(m.d.nn.all_gather(x)),
    "all_to_all": lambda m, x: first(m.d.nn.all_to_all([m.t.zeros(2, 2)], [x])),
    "all_to_all_single": lambda m, x: m.d.nn.all_to_all_single(m.t.zeros(2, 2), x),
    "all_to_all_single of sizes": lambda m, x: m.d.nn.all_to_all_single(m.t.zeros(2, 2), x, [2], [2]),
    "all_reduce": lambda m, x: m.d.nn.all_reduce(x),
    "all_reduce, the largest": lambda m, x: m.d.nn.functional.all_reduce(x, op=m.d.ReduceOp.MAX),
}


@OLD
@pytest.mark.parametrize("name", EXCHANGES)
def test_an_exchange_and_its_derivatives_are_pytorchs(name: str, ours: Any, theirs: Any) -> None:
    found = []
    for m in (ours, theirs):
        x = m.t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = EXCHANGES[name](m, x * 2)
        (g,) = m.t.autograd.grad((y**3).sum(), x, create_graph=True)
        (h,) = m.t.autograd.grad(g.sum(), x)
        found.append((y.tolist(), g.tolist(), h.tolist()))
        assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_exchange_is_deprecated_where_pytorchs_is(name: str, ours: Any, theirs: Any) -> None:
    found = []
    for m in (ours, theirs):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            EXCHANGES[name](m, m.t.ones(2, 2))
        found.append([(w.category, str(w.message).partition("(ferro")[0].strip()) for w in seen])
    assert found[0] == found[1]


def test_an_exchange_needs_a_group() -> None:
    from ferro.distributed import nn

    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.gather(ferro.ones(1))


def train(m: Any) -> Any:
    """A few steps of a divided optimiser, with groups, a schedule, and a second one that goes on from the saved state."""
    w, b = m.t.tensor([1.0, -2.0], requires_grad=True), m.t.tensor([0.5], requires_grad=True)
    loss = lambda: ((w * 3 + b) ** 2).sum()  # noqa: E731
    make = lambda: m.d.optim.ZeroRedundancyOptimizer([w], optimizer_class=m.t.optim.AdamW, lr=0.1, weight_decay=0.01)  # noqa: E731
    optimizer = make()
    optimizer.add_param_group({"params": [b], "lr": 0.5})
    schedule = m.t.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()
    with pytest.raises(
        RuntimeError, match=r"has not been consolidated on this rank\. Please call `consolidate_state_dict"
    ):
        optimizer.state_dict()
    optimizer.consolidate_state_dict()
    saved = optimizer.state_dict()
    state = {i: {k: v.tolist() for k, v in entry.items()} for i, entry in saved["state"].items()}
    again = make()
    again.add_param_group({"params": [b], "lr": 0.5})
    again.load_state_dict(saved)
    for group in again.param_groups:
        group["lr"] *= 2

    def closure() -> Any:
        again.zero_grad()
        value = loss()
        value.backward()
        return value

    last = again.step(closure)
    options = [{k: v for k, v in group.items() if k != "params"} for group in again.param_groups]
    return w.tolist(), b.tolist(), last.item(), options, state, [group["params"] for group in saved["param_groups"]]


def test_a_divided_optimiser_steps_as_pytorchs(ours: Any, theirs: Any) -> None:
    from ferro.distributed.optim import ZeroRedundancyOptimizer

    assert issubclass(ZeroRedundancyOptimizer, ferro.optim.Optimizer)
    *numbers, options, state, groups = train(ours)
    *expected, their_options, their_state, their_groups = train(theirs)
    assert numbers[0] == pytest.approx(expected[0], rel=1e-5)
    assert numbers[1] == pytest.approx(expected[1], rel=1e-5)
    assert numbers[2] == pytest.approx(expected[2], rel=1e-5)
    assert options == their_options
    assert groups == their_groups
    assert state.keys() == their_state.keys()
    for i in state:
        assert state[i].keys() == their_state[i].keys()
        for name, value in state[i].items():
            assert value == pytest.approx(their_state[i][name], rel=1e-5)


REFUSED: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "one tensor": (TypeError, lambda m: m.t.ones(1, requires_grad=True)),
    "no iterable": (TypeError, lambda m: 3),
    "nothing": (ValueError, lambda m: []),
    "numbers": (TypeError, lambda m: [1, 2]),
    "a group without parameters": (ValueError, lambda m: [{"lr": 1}]),
    "two dtypes": (ValueError, lambda m: [m.t.ones(1), m.t.ones(1, dtype=m.t.float64)]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_divided_optimiser_refuses_what_pytorchs_refuses(name: str, ours: Any, theirs: Any) -> None:
    error, params = REFUSED[name]
    with pytest.raises(error) as their_error:
        theirs.d.optim.ZeroRedundancyOptimizer(params(theirs), theirs.t.optim.SGD, lr=0.1)
    with pytest.raises(error) as our_error:
        ours.d.optim.ZeroRedundancyOptimizer(params(ours), ours.t.optim.SGD, lr=0.1)
    assert str(our_error.value).startswith(str(their_error.value))


def test_a_divided_optimiser_overlaps_nothing(ours: Any) -> None:
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ours.d.optim.ZeroRedundancyOptimizer([ferro.ones(1)], ferro.optim.SGD, overlap_with_ddp=True, lr=0.1)


def test_the_exception_of_a_recorded_function_is_in_the_launchers_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @record
    def main(end: BaseException) -> None:
        raise end

    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    assert main(SystemExit(0)) is None
    with pytest.raises(SystemExit):
        main(SystemExit(3))
    assert not file.exists()
    with pytest.raises(KeyError, match="lost"):
        main(KeyError("lost"))
    message = json.loads(file.read_text("utf-8"))["message"]
    assert message["message"] == "KeyError: 'lost'"
    assert "in main" in message["extraInfo"]["py_callstack"]


@pytest.mark.parametrize("module", TABLE, ids=[name or "distributed" for name in TABLE])
def test_what_needs_several_processes_is_imported_and_raises_when_it_is_used(module: str) -> None:
    inside = importlib.import_module(f"{HOME}.{module}".rstrip("."))
    for name in TABLE[module][1].split():
        value = getattr(inside, name)
        place = f"{module}.{name}".removeprefix(".")
        assert is_refused(value), place
        with pytest.raises(NotImplementedError, match=f"torch.distributed.{place} is not in ferro.*Instead: "):
            value()
        if isinstance(value, type):
            assert not isinstance(ferro.ones(1), value)
            with pytest.raises(AttributeError, match=f"{place} has no attribute 'parrot'.*Instead: "):
                _ = value.parrot


@pytest.mark.slow
def test_the_names_that_raise_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no process groups")
    code = f"""
import importlib, warnings
warnings.simplefilter("ignore")
for module, names in {[(m, names) for m, (_, names) in TABLE.items()]!r}:
    try:
        found = importlib.import_module("torch.distributed." + module if module else "torch.distributed")
    except ImportError as e:
        print(module, e)
        continue
    print(*[f"{{module}}.{{name}}" for name in names.split() if not hasattr(found, name)], sep="\\n", end="")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert run.stdout.strip() == ""


def test_a_program_imports_them_as_torch(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
        "from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy\n"
        "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
        "from torch.distributed.distributed_c10d import _get_default_group, ProcessGroup\n"
        "import torch, torch.distributed.nn.functional\n"
        "class Wrapped(FSDP): pass\n"
        "print(torch.__name__, torch.distributed.nn.functional.gather.__name__, isinstance(1, FSDP))\n"
    )
    command = [sys.executable, "-m", "ferro.as_torch", str(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (run.stdout, run.stderr) == ("torch gather False\n", "")
