"""The arguments of ferro.compile, and ferro.compiler: refusals and compiled modules are PyTorch's. What is captured: tests/graph."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ferro
from ferro.core import notices


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Notices are given anew in every test; the default backend is put back."""
    monkeypatch.setattr(notices, "_given", set())
    yield
    ferro.compiler.set_default_backend(None)


def double(x: Any) -> Any:
    return 2 * x


def test_modes_are_taken_and_functions_keep_their_names() -> None:
    compiled = ferro.compile(mode="reduce-overhead", dynamic=True)(double)
    assert (compiled.__name__, compiled.__wrapped__) == ("double", double)
    assert [ferro.equal(compiled(ferro.ones(2)), ferro.full((2,), 2.0)) for _ in range(3)] == [True] * 3
    assert compiled.explain().replays == 1


@pytest.mark.parametrize(
    "given", [{"backend": "eager"}, {"backend": "aot_eager"}, {"disable": True}], ids=lambda d: next(iter(d.values()))
)
def test_functions_are_themselves_where_no_graph_is_asked_for(given: dict[str, Any]) -> None:
    assert ferro.compile(double, **given) is double


def test_the_default_backend_can_be_set() -> None:
    ferro.compiler.set_default_backend("eager")
    assert ferro.compiler.get_default_backend() == "eager"
    assert ferro.compile(double) is double


REFUSED: dict[str, Callable[[Any], Any]] = {
    "backend": lambda t: t.compile(double, backend="nonsense"),
    "mode": lambda t: t.compile(double, mode="nonsense"),
    "mode and options": lambda t: t.compile(double, mode="default", options={}),
    "no function": lambda t: t.compile(3, backend="eager"),
    "none decorated": lambda t: t.compile(backend="eager")(None),
    "forced": lambda t: t.compiler.set_stance("force_eager", force_backend="eager"),
    "disable": lambda t: t.compiler.disable(3),
    "allow_in_graph": lambda t: t.compiler.allow_in_graph(3),
}


@pytest.mark.slow  # (PyTorch's compiler takes three seconds to import)
@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(torch: Any, case: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - its type is what is asked for
        REFUSED[case](torch)
    kind = next(k for k in type(theirs.value).__mro__ if k.__module__ == "builtins")
    with pytest.raises(kind) as ours:
        REFUSED[case](ferro)
    assert str(theirs.value).rstrip("\n").partition("\n")[0] in str(ours.value)


def test_a_backend_that_is_a_function_is_refused_before_anything_runs() -> None:
    with pytest.raises(NotImplementedError, match="graph"):
        ferro.compile(double, backend=lambda graph, inputs: graph)


def module_facts(torch: Any) -> list[Any]:
    """What programs see of a compiled module, as values that can be compared."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    compiled = torch.compile(model, backend="eager")
    facts = [
        list(compiled.state_dict()),
        [n for n, _ in compiled.named_parameters()],
        [n for n, _ in compiled.named_modules()],
        len(compiled),
        compiled.training,
        compiled._orig_mod is model,
        hasattr(compiled, "__getitem__"),
    ]
    compiled.eval()
    facts += [model.training, compiled.training]
    compiled.train()
    compiled.note = 3
    facts += [model.note, hasattr(compiled, "absent"), type(compiled).__name__]
    del compiled.note
    facts.append(hasattr(model, "note"))
    twin = copy.deepcopy(compiled)
    facts += [type(twin).__name__, list(twin.state_dict()), twin._orig_mod is model]
    called = []
    model.register_forward_hook(lambda *_: called.append("inner"))
    compiled.register_forward_hook(lambda *_: called.append("outer"))
    compiled(torch.ones(4, 2))
    facts.append(called)
    model.load_state_dict({k.removeprefix("_orig_mod."): v for k, v in compiled.state_dict().items()})
    return facts


@pytest.mark.slow  # (as above)
def test_a_compiled_module_is_seen_as_pytorch_s(torch: Any) -> None:
    assert module_facts(ferro) == module_facts(torch)


def test_a_compiled_module_trains_is_pickled_and_says_what_it_lacks() -> None:
    model = ferro.nn.Linear(2, 1)
    compiled = ferro.compile(model, backend="eager")
    compiled(ferro.ones(3, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[3.0, 3.0]]
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    again = pickle.loads(pickle.dumps(compiled))
    assert ferro.equal(again.weight, model.weight)
    assert compiled.in_features == 2
    assert ferro.compile(compiled, backend="eager")._orig_mod is model
    assert "weight" in dir(compiled)
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(compiled)
    with pytest.raises(AttributeError, match="absent"):
        _ = compiled.absent


def test_a_module_compiles_its_own_calls() -> None:
    model = ferro.nn.Linear(2, 1)
    assert model.compile() is None
    assert list(model.state_dict()) == ["weight", "bias"]
    want = ferro.nn.functional.linear(ferro.ones(3, 2), model.weight, model.bias)
    assert [ferro.equal(model(ferro.ones(3, 2)), want) for _ in range(3)] == [True] * 3
    assert model._compiled_call_impl.explain().replays == 1
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin._compiled_call_impl is None
        assert ferro.equal(twin(ferro.ones(3, 2)), want)
    with pytest.raises(RuntimeError, match="Invalid backend"):
        model.compile(backend="nonsense")


def test_marks_and_switches_are_checked() -> None:
    c = ferro.compiler
    assert c.disable(double).__wrapped__ is double
    assert c.disable(recursive=False, reason="slow")(double).__wrapped__ is double
    assert c.allow_in_graph([double]) == [double]
    assert c.assume_constant_result(double) is double
    with c.set_stance("force_eager"):
        assert [c.is_compiling(), c.is_dynamo_compiling(), c.is_exporting()] == [False] * 3
    assert c.set_stance("eager_on_recompile")(double)(3) == 6
    with pytest.raises(RuntimeError, match="Invalid backend"):
        c.set_default_backend("nonsense")
    with pytest.raises(RuntimeError, match="invalid stance"):
        c.set_stance("never")
    assert c.list_backends() == ["cudagraphs", "inductor"]
    assert "eager" in c.list_backends(None)
    c.reset()
    c.cudagraph_mark_step_begin()


def test_settings_of_the_compiler_are_kept_and_unknown_ones_refused() -> None:
    import ferro._dynamo.config as dynamo  # pyright: ignore[reportMissingImports]
    import ferro._inductor.config as inductor  # pyright: ignore[reportMissingImports]

    assert ferro._dynamo.config is dynamo
    with dynamo.patch(suppress_errors=True), dynamo.patch("cache_size_limit", 64):
        assert (dynamo.suppress_errors, dynamo.cache_size_limit) == (True, 64)
    assert (dynamo.suppress_errors, dynamo.cache_size_limit) == (False, 8)
    with inductor.triton.patch({"unique_kernel_names": False}):
        assert not inductor.triton.unique_kernel_names
    with pytest.raises(AttributeError, match=r"torch\._dynamo\.config\.supress_errors does not exist"):
        dynamo.supress_errors = True


@pytest.mark.slow  # (as above)
@pytest.mark.parametrize("name", ["_dynamo", "_inductor"])
def test_settings_have_pytorch_s_names_and_values(torch: Any, name: str) -> None:
    import importlib

    theirs = importlib.import_module(f"torch.{name}.config")
    ours = getattr(ferro, name).config
    machine = {"compile_threads", "triton", "inline_inbuilt_nn_modules"}  # (the last warns that it is deprecated)
    values = {k: v for k, v in vars(ours).items() if not k.startswith("_") and k not in machine}
    assert values == {k: getattr(theirs, k) for k in values}


def test_assert_of_a_model_raises_its_message(torch: Any) -> None:
    for lib in (torch, ferro):
        lib._assert(True, "holds")
        with pytest.raises(AssertionError, match="sizes differ"):
            lib._assert(lib.zeros(1).sum() > 1, "sizes differ")
