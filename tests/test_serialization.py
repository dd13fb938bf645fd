"""save and load: what comes back, what PyTorch reads and writes, and what is refused."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro


class Tagged(ferro.Tensor):
    """A subclass of a user's."""


def copied(obj: Any, **options: Any) -> Any:
    """The object, through a file."""
    file = io.BytesIO()
    ferro.save(obj, file)
    file.seek(0)
    return ferro.load(file, **options)


def sample(t: Any) -> dict[str, Any]:
    """Tensors of every dtype, shared memory, strides, empty ones and numbers."""
    x = t.arange(12.0).reshape(3, 4)
    names = (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
    return {
        "dtypes": [t.tensor([1, 0, 1]).to(getattr(t, name)) for name in names],
        "shared": (x, x.T, x[1:, ::2], x[0].expand(2, 4)),
        "empty": t.zeros(0, 3),
        "number": t.tensor(5),
        "grad": t.ones(2, requires_grad=True),
        "parameter": t.nn.Parameter(t.ones(2), requires_grad=False),
        "others": [t.float16, t.Size([2, 3]), t.device("cpu"), {"a", 1}, 2j, None, b"bytes"],
    }


def same(ours: Any, theirs: Any) -> None:
    """Equal values, whichever library they come from."""
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()))
    elif hasattr(theirs, "detach"):
        assert type(ours).__name__ == type(theirs).__name__
        assert ours.requires_grad == theirs.requires_grad
        assert ours.stride() == theirs.stride()
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    else:
        assert str(ours).replace("ferro", "torch") == str(theirs).replace("ferro", "torch")


def test_a_file_comes_back() -> None:
    before = sample(ferro)
    after = copied(before)
    same(after, before)
    whole, transposed, part, _ = after["shared"]
    whole[1, 2] = 99.0
    assert transposed[2, 1].item() == part[0, 1].item() == 99.0


def test_pytorch_reads_what_ferro_writes_and_the_other_way_round(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro)):
        file = io.BytesIO()
        writer.save(sample(writer), file)
        file.seek(0)
        found = reader.load(file)
        same(found, sample(reader))
        whole, transposed, *_ = found["shared"]
        whole[1, 2] = 99.0
        assert transposed[2, 1].item() == 99.0


def test_states_of_models_and_optimizers_cross(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro)):
        net = writer.nn.Sequential(writer.nn.Linear(2, 3), writer.nn.BatchNorm1d(3))
        optimizer = writer.optim.Adam(net.parameters())
        net(writer.ones(4, 2)).sum().backward()
        optimizer.step()
        file = io.BytesIO()
        writer.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        state = reader.load(file)
        twin = reader.nn.Sequential(reader.nn.Linear(2, 3), reader.nn.BatchNorm1d(3))
        twin.load_state_dict(state["net"])
        reader.optim.Adam(twin.parameters()).load_state_dict(state["optimizer"])
        same(twin.state_dict(), net.state_dict())


def test_modules_subclasses_and_attributes(tmp_path: Path) -> None:
    net = ferro.nn.Sequential(ferro.nn.Linear(2, 3), ferro.nn.ReLU())
    net[0].weight.tag = "first"
    tensor = ferro.ones(2)
    tensor.note = [1, 2]
    path = tmp_path / "net.pt"
    ferro.save([net, tensor, ferro.ones(3).as_subclass(Tagged)], path)
    again, noted, tagged = ferro.load(path, weights_only=False)
    assert again[0].weight.tag == "first"
    assert noted.note == [1, 2]
    assert type(tagged) is Tagged
    same(dict(again.state_dict()), dict(net.state_dict()))


def test_weights_only_refuses_classes_that_nobody_named() -> None:
    obj = {"layer": ferro.nn.ReLU()}
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed.*Unsupported global: GLOBAL ferro.nn"):
        copied(obj)
    with ferro.serialization.safe_globals([ferro.nn.ReLU, (ferro.nn.ReLU, "another.name")]):
        assert ferro.serialization.get_safe_globals() == [ferro.nn.ReLU, ferro.nn.ReLU]
        ferro.serialization.remove_safe_globals([(ferro.nn.ReLU, "another.name")])
        with pytest.raises(pickle.UnpicklingError, match="GLOBAL pathlib"):
            copied([obj, Path])
        assert ferro.serialization.get_safe_globals() == [ferro.nn.ReLU]
    assert ferro.serialization.get_safe_globals() == []


def test_other_refusals(tmp_path: Path) -> None:
    for wrong in (3, None):
        with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
            ferro.save(1, wrong)
        with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
            ferro.load(wrong)
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        ferro.load(tmp_path / "none.pt")
    with pytest.raises(pickle.UnpicklingError, match="no zip archive"):
        ferro.load(io.BytesIO(b"something else"))
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        ferro.load(io.BytesIO(), pickle_module=pickle, weights_only=True)
    path = tmp_path / "kept.pt"
    ferro.save([1], path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        ferro.save(lambda: 1, path)
    assert ferro.load(path) == [1]


def test_a_storage_from_a_gpu_needs_a_map_location() -> None:
    locate = ferro.serialization._check_location
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        locate(None, "cuda:0")
    for allowed in ("cpu", ferro.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        locate(allowed, "cuda:0")
