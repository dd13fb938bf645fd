"""utils.safetensors: the same files as safetensors.torch's, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ferro

pytest.importorskip("safetensors", reason="the optional package safetensors is not installed")
from ferro.utils import safetensors


def tensors(t: Any) -> dict[str, Any]:
    """Tensors of every kind that the format holds."""
    names = (
        "bool",
        "uint8",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
    )
    made = {name: t.tensor([[1, 0], [2, 3]]).to(getattr(t, name)) for name in names}
    return {**made, "number": t.tensor(3.5), "empty": t.zeros(0, 2), "parameter": t.nn.Parameter(t.ones(2))}


def values(found: dict[str, Any]) -> dict[str, Any]:
    return {name: (str(x.dtype).partition(".")[2], tuple(x.shape), x.tolist()) for name, x in found.items()}


def test_files_are_those_of_safetensors_torch(torch: Any, tmp_path: Path) -> None:
    from safetensors import torch as theirs

    path = tmp_path / "a.safetensors"
    safetensors.save_file(tensors(ferro), path, {"format": "pt"})
    theirs.save_file(tensors(torch), tmp_path / "b.safetensors", {"format": "pt"})
    assert path.read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert values(safetensors.load_file(path)) == values(theirs.load_file(path)) == values(tensors(torch))
    with pytest.raises(RuntimeError, match="cuda"):
        safetensors.load_file(path, device="cuda")


class Tied(ferro.nn.Module):
    """Two layers that are one."""

    def __init__(self) -> None:
        super().__init__()
        self.second = ferro.nn.Linear(2, 2)
        self.first = self.second


def test_models_with_tied_weights(tmp_path: Path) -> None:
    path = tmp_path / "tied.safetensors"
    net, twin = Tied(), Tied()
    safetensors.save_model(net, path)
    assert sorted(safetensors.load_file(path)) == ["first.bias", "first.weight"]
    assert safetensors.load_model(twin, path) == (set(), [])
    assert twin.second.weight.tolist() == net.second.weight.tolist()
    plain = ferro.nn.Sequential(ferro.nn.Linear(2, 2))
    with pytest.raises(
        RuntimeError, match=r'Missing key\(s\) in state_dict: "0.bias", "0.weight"\n.*Unexpected.*"first.bias"'
    ):
        safetensors.load_model(plain, path)
    missing, unexpected = safetensors.load_model(plain, path, strict=False)
    assert missing == {"0.bias", "0.weight"}
    assert sorted(unexpected) == ["first.bias", "first.weight"]


def test_what_the_format_has_no_place_for_is_refused(tmp_path: Path) -> None:
    x = ferro.ones(4, 4)
    refused: dict[str, tuple[type[Exception], Any]] = {
        "non contiguous": (ValueError, {"a": x.T[1:]}),
        "sparse": (ValueError, {"a": x.to_sparse()}),
        "Expected a dict": (ValueError, [x]),
        "expected torch.Tensor": (ValueError, {"a": 1}),
        "complex128": (ValueError, {"a": x.to(ferro.complex128)}),
        "share memory": (RuntimeError, {"a": x[:3], "b": x[1:]}),
    }
    path = tmp_path / "kept.safetensors"
    safetensors.save_file({"a": x[:2], "b": x[2:]}, path)
    for match, (kind, wrong) in refused.items():
        with pytest.raises(kind, match=match):
            safetensors.save_file(wrong, path)
    assert safetensors.load_file(path)["b"].tolist() == x[2:].tolist()
