"""Names that libraries take from PyTorch: pytrees, hub, onnx, fx, types, symbols, methods as functions, lists of overrides."""

from __future__ import annotations

import inspect
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.utils import _pytree

# -- utils._pytree -----------------------------------------------------------------------------------------------------


def test_a_registered_class_is_a_branch_of_functions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    from ferro.core import trees

    monkeypatch.setattr(trees, "NODES", dict(trees.NODES))
    _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], "context"), lambda children, context: Pair(*children))
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, context: Pair(*children))
    assert _pytree.tree_leaves([Pair(1, {"x": 2})]) == [1, 2]
    found = ferro.func.grad(lambda p: (p.a * p.b).sum())(Pair(ferro.tensor([1.0, 2.0]), ferro.tensor([3.0, 4.0])))
    assert type(found) is Pair
    assert (found.a.tolist(), found.b.tolist()) == ([3.0, 4.0], [1.0, 2.0])


# -- hub, onnx, fx -----------------------------------------------------------------------------------------------------

HUBCONF = '''
dependencies = ["numpy"]
from parts import layer

def model(width, *, bias=True):
    """A layer."""
    return layer(width, bias)

def _hidden(): ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    (tmp_path / "parts.py").write_text("import ferro\ndef layer(n, bias): return ferro.nn.Linear(n, 1, bias=bias)\n")
    return tmp_path


def test_hub_reads_local_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "parts", None)
    monkeypatch.delitem(sys.modules, "parts")
    hub, path = ferro.hub, list(sys.path)
    net = hub.load(str(folder), "model", 3, bias=False, source="local")
    assert (net.in_features, net.bias) == (3, None)
    assert hub.help(str(folder), "model") == "A layer."
    assert hub.list(str(folder)) == ["layer", "model"]
    assert sys.path == path
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(str(folder), "other", source="local")
    with pytest.raises(ValueError, match=re.escape('Unknown source: "gitlab". Allowed values: "github" | "local".')):
        hub.load(str(folder), "model", source="gitlab")
    with pytest.raises(RuntimeError, match=r"downloads nothing: clone https://github\.com/pytorch/vision and"):
        hub.load("pytorch/vision:v0.10", "resnet18")
    with pytest.raises(FileNotFoundError, match="no hubconf"):
        hub.load(str(folder / "none"), "model", source="local")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package']\ndef model(): ...\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(str(folder), "model", source="local")


def test_hub_reads_weights_from_its_cache(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ferro.utils.model_zoo import load_url

    hub = ferro.hub
    monkeypatch.setattr(hub, "_folder", [])
    for variable, value in (("TORCH_HOME", str(tmp_path)), ("XDG_CACHE_HOME", str(tmp_path / "x"))):
        monkeypatch.setenv(variable, value)
        assert hub.get_dir() == torch.hub.get_dir()
    monkeypatch.delenv("TORCH_HOME")
    assert hub.get_dir() == torch.hub.get_dir()
    hub.set_dir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    file = tmp_path / "checkpoints" / "net.pth"
    url = "https://example.org/weights/net.pth"
    with pytest.raises(FileNotFoundError, match="ferro downloads nothing") as caught:
        hub.load_state_dict_from_url(url)
    assert str(file) in str(caught.value)
    torch.save({"w": torch.arange(3.0)}, file)
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [0.0, 1.0, 2.0]
    digest = sha256(file.read_bytes()).hexdigest()
    for start, fits in ((digest[:8], True), ("00000000", digest.startswith("00000000"))):
        named = file.rename(file.with_name(f"net-{start}.pth"))
        if fits:
            assert load_url(f"https://example.org/{named.name}?x=1", check_hash=True)["w"].shape == (3,)
        else:
            with pytest.raises(RuntimeError, match="invalid hash value"):
                hub.load_state_dict_from_url(f"https://example.org/{named.name}", check_hash=True)
        file = named
    with pytest.raises(RuntimeError, match="downloads nothing"):
        hub.download_url_to_file(url, str(tmp_path / "x"))


def test_export_and_tracing_are_refused_at_their_use() -> None:
    assert ferro.onnx.is_in_onnx_export() is False
    with pytest.raises(NotImplementedError, match=r"torch.onnx.export is not in ferro.*state_dict"):
        ferro.onnx.export(ferro.nn.Linear(1, 1), ferro.ones(1), "model.onnx")
    assert ferro.fx.wrap("len") == "len"
    assert ferro.fx.wrap(len) is len
    assert not isinstance(ferro.ones(1), ferro.fx.Proxy)
    with pytest.raises(RuntimeError, match="Must be either a callable or string name"):
        ferro.fx.wrap(3)  # type: ignore[arg-type]
    for name in ("Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer"):
        assert not isinstance(ferro.nn.Identity(), getattr(ferro.fx, name))
        with pytest.raises(TypeError, match=f"torch.fx.{name}: there is no symbolic tracer"):
            getattr(ferro.fx, name)(None)
    with pytest.raises(
        AttributeError, match=r"torch\.fx\.symbolic_trace is not in ferro\. Instead: there is no symbolic tracer"
    ):
        ferro.fx.symbolic_trace(len)  # type: ignore[attr-defined]


# -- names of types, symbols, functions --------------------------------------------------------------------------------


def test_types_have_pytorchs_names(torch: Any) -> None:
    import torch.nn.common_types
    import torch.types

    from ferro.nn import common_types

    assert isinstance(ferro.channels_last, ferro.memory_format)
    assert isinstance(ferro.sparse_coo, ferro.layout)
    assert not isinstance(ferro.strided, ferro.memory_format)
    assert (ferro.layout.__name__, ferro.memory_format.__name__) == ("layout", "memory_format")
    assert ferro.newaxis is None
    assert ferro.ones(2)[:, ferro.newaxis].shape == (2, 1)
    assert isinstance(3.0, ferro.types.Number)
    assert ferro.types.Number == torch.types.Number
    assert ferro.types.FileLike == torch.types.FileLike
    assert ferro.types._bool is bool
    names = [name for name in vars(torch.nn.common_types) if name.endswith("_t")]
    assert [name for name in names if not hasattr(common_types, name)] == []
    assert common_types._size_2_t == torch.nn.common_types._size_2_t


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sym_int", (2.7,)),
        ("sym_int", (-2.7,)),
        ("sym_int", (3,)),
        ("sym_float", (2,)),
        ("sym_not", (True,)),
        ("sym_sqrt", (2,)),
        ("sym_max", (2, 3)),
        ("sym_max", (4, 3.0)),
        ("sym_min", (2, 3.5)),
        ("sym_sum", ([1, 2, 3],)),
        ("sym_ite", (False, 1, 2)),
        ("is_vulkan_available", ()),
    ],
)
def test_symbols_are_numbers(torch: Any, name: str, args: tuple) -> None:
    found, expected = getattr(ferro, name)(*args), getattr(torch, name)(*args)
    assert (found, type(found)) == (expected, type(expected))


def test_what_a_build_says_of_itself() -> None:
    assert ferro.set_flush_denormal(True) is False
    assert float(ferro.tensor(1e-310, dtype=ferro.float64) / 10) > 0
    with pytest.raises(TypeError, match="expects a bool"):
        ferro.set_flush_denormal(1)  # type: ignore[arg-type]
    assert issubclass(ferro.OutOfMemoryError, RuntimeError)
    assert ferro.cuda.OutOfMemoryError is ferro.OutOfMemoryError
    assert issubclass(ferro.AcceleratorError, RuntimeError)
    assert ferro.has_lapack is True
    assert ferro.has_mkl is False


def test_methods_are_functions_too(torch: Any) -> None:
    results = []
    for lib in (ferro, torch):
        x = lib.arange(6.0)
        flat = lib.as_strided_(x, (2, 2), (3, 1), 1)
        vector = lib.addmv_(lib.ones(2), flat, lib.ones(2), beta=2, alpha=3)
        recorded = lib.ones(2, requires_grad=True) * 2
        lib.detach_(recorded)
        shape = tuple(lib.resize_as_(lib.zeros(4), lib.ones(2, 2)).shape)
        answers = lib.get_device(x), x.get_device(), lib.is_distributed(x), x.is_distributed(), x.is_xla, x.is_mkldnn
        results.append((flat.tolist(), vector.tolist(), recorded.requires_grad, shape, answers))
    assert results[0] == results[1]
    with pytest.raises(TypeError):
        ferro.get_device(np.ones(2))  # type: ignore[arg-type]


def test_typename_says_what_pytorch_says(torch: Any) -> None:
    for make in (
        lambda lib: lib.ones(1),
        lambda lib: lib.ones(1, dtype=lib.int64),
        lambda lib: 3,
        lambda lib: "text",
        lambda lib: [1],
        lambda lib: lib.nn.Linear,
        lambda lib: lib.nn.Linear(1, 1),
        lambda lib: len,
        lambda lib: None,
    ):
        assert ferro.typename(make(ferro)).replace("ferro.", "torch.") == torch.typename(make(torch))


# -- overrides ---------------------------------------------------------------------------------------------------------


def test_overridable_functions_are_those_that_ask() -> None:
    found = ferro.overrides.get_overridable_functions()
    assert ferro.exp in found[ferro]
    assert ferro.nn.functional.softmax in found[ferro.nn.functional]
    assert ferro.Tensor.add in found[ferro.Tensor]
    assert not set(found[ferro]) & ferro.overrides.get_ignored_functions()
    assert {ferro.manual_seed, ferro.is_grad_enabled} <= ferro.overrides.get_ignored_functions()

    class Asked(ferro.Tensor):
        calls: list = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.calls.append(func)
            return -1

    for name in ("exp", "softmax", "cat", "matmul"):
        assert any(f.__name__ == name for f in ferro.overrides.get_overridable_functions()[ferro])
        assert getattr(ferro, name)(*(([Asked([1.0])],) if name == "cat" else (Asked([1.0]), 0))) == -1


def test_testing_overrides_have_the_arguments_of_the_functions() -> None:
    found = ferro.overrides.get_testing_overrides()
    dummy = found[ferro.cat]
    assert dummy([ferro.ones(1)], dim=0) == -1
    assert inspect.signature(dummy) == inspect.signature(getattr(ferro.cat, "function", ferro.cat))
    with pytest.raises(TypeError):
        dummy(parrot=1)


def test_functions_that_ask_have_names_and_kinds(torch: Any) -> None:
    for lib in (ferro, torch):
        kinds = [
            lib.overrides.is_tensor_method_or_property(f)
            for f in (
                lib.Tensor.add_,
                lib.Tensor.shape.__get__,
                lib.Tensor.T.__get__,
                lib.add,
                lib.nn.functional.softmax,
            )
        ]
        assert kinds == [True, True, True, False, False]
        names = [lib.overrides.resolve_name(f) for f in (lib.add, lib.Tensor.add_, lib.linalg.svd, lib.fft.fft, len)]
        assert names == ["torch.add", "torch.Tensor.add_", "torch.linalg.svd", "torch.fft.fft", None]
