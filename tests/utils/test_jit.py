"""ferro.jit: programs that script or trace run as they are written, as PyTorch's do with PYTORCH_JIT=0."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from ferro.core import notices

SAID = "jit.script and jit.trace compile nothing"


@pytest.mark.parametrize("name", ["script", "trace", "trace_module"])
def test_the_first_use_says_that_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(notices, "_given", set())
    module = ferro.nn.Identity()
    arguments = {"script": (), "trace": (ferro.ones(1),), "trace_module": ({"forward": ferro.ones(1)},)}[name]
    with pytest.warns(UserWarning, match=SAID) as said:
        same = getattr(ferro.jit, name)(module, *arguments)
    assert same is module
    assert said[0].filename == __file__
    assert ferro.jit.script(module) is module


@pytest.mark.parametrize("name", ["freeze", "optimize_for_inference"])
def test_modules_are_frozen_in_eval_mode_alone(name: str) -> None:
    module = ferro.nn.Dropout()
    with pytest.raises(RuntimeError, match="eval"):
        getattr(ferro.jit, name)(module)
    assert getattr(ferro.jit, name)(module.eval()) is module
    with pytest.raises(RuntimeError, match="a Module is needed"):
        getattr(ferro.jit, name)(abs)


def test_files_of_compiled_code_are_refused(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match="state_dict"):
        ferro.jit.save(ferro.nn.Identity(), tmp_path / "m.pt")
    with pytest.raises(NotImplementedError, match="state_dict"):
        ferro.jit.load(tmp_path / "m.pt")


@pytest.mark.filterwarnings(f"ignore:{SAID}")
def test_what_is_scripted_or_traced_runs_as_it_is_written() -> None:
    @ferro.jit.script
    def cube(x: Any) -> Any:
        return x * x * x

    class Net(ferro.nn.Module):
        @ferro.jit.export
        def double(self, x: Any) -> Any:
            return 2 * x

        @ferro.jit.unused
        def never(self) -> None:
            raise AssertionError

        @ferro.jit.ignore
        def left_alone(self, x: Any) -> Any:
            return x

        @ferro.jit.ignore(drop=True)
        def dropped(self, x: Any) -> Any:
            return x

        def forward(self, x: Any) -> Any:
            if ferro.jit.is_scripting() or ferro.jit.is_tracing():
                self.never()
            return self.left_alone(self.dropped(self.double(cube(x))))

    net, x = Net(), ferro.tensor([2.0], requires_grad=True)
    assert ferro.jit.script(net) is net
    assert ferro.jit.trace(net, x) is net
    assert ferro.jit.trace_module(net, {"forward": x}) is net
    y = net(x)
    y.backward()
    assert (y.item(), x.grad.item()) == (16.0, 24.0)
    assert issubclass(ferro.jit.ScriptModule, ferro.nn.Module)
    assert ferro.jit.annotate(int, 3) == 3
    assert ferro.jit.script_if_tracing(cube) is cube
    assert ferro.jit.script_method(cube) is cube
    assert ferro.jit.interface(Net) is Net
    ferro.jit.enable_onednn_fusion(True)
    assert not ferro.jit.onednn_fusion_enabled()


KINDS: dict[str, tuple] = {
    "list": ([1, 2], list[int]),
    "other_list": ([1, "a"], list[int]),
    "dict": ({"a": 1}, dict[str, int]),
    "other_dict": ({"a": "b"}, dict[str, int]),
    "tuple": ((1, "a"), tuple[int, str]),
    "longer_tuple": ((1, "a", 2), tuple[int, str]),
    "optional": (None, int | None),
    "union": (1.5, int | str),
    "several": (1, (int, str)),
    "plain": ("a", str),
}


@pytest.mark.parametrize("name", KINDS)
def test_types_with_types_inside_are_torchs(torch: Any, name: str) -> None:
    assert ferro.jit.isinstance(*KINDS[name]) == torch.jit.isinstance(*KINDS[name])
