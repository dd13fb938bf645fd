"""save and load: what comes back, what PyTorch reads and writes, and what is refused."""

from __future__ import annotations

import gzip
import io
import mmap
import pickle
import struct
import sys
import types
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

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
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed.*Unsupported global: GLOBAL torch.nn"):
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
    with pytest.raises(pickle.UnpicklingError, match="neither a zip archive nor an older one"):
        ferro.load(io.BytesIO(b"something else"))
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        ferro.load(io.BytesIO(), pickle_module=pickle, weights_only=True)
    path = tmp_path / "kept.pt"
    ferro.save([1], path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        ferro.save(lambda: 1, path)
    assert ferro.load(path) == [1]


def file_of(writer: Any, obj: Any, **options: Any) -> io.BytesIO:
    """What a library writes."""
    file = io.BytesIO()
    writer.save(obj, file, **options)
    file.seek(0)
    return file


OLD = {"_use_new_zipfile_serialization": False}


def test_the_old_format_crosses(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro), (ferro, ferro)):
        found = reader.load(file_of(writer, sample(writer), **OLD))
        same(found, sample(reader))
        whole, transposed, *_ = found["shared"]
        whole[1, 2] = 99.0
        assert transposed[2, 1].item() == 99.0
    sparse = ferro.load(file_of(torch, torch.eye(3).to_sparse(), **OLD))
    assert sparse.to_dense().tolist() == torch.eye(3).tolist()


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_tensors_cross(layout: str, torch: Any) -> None:
    def made(t: Any) -> Any:
        x = t.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
        return x.to_sparse() if layout == "coo" else getattr(x, f"to_sparse_{layout}")()

    for writer, reader in ((ferro, torch), (torch, ferro)):
        found = reader.load(file_of(writer, {"x": made(writer)}))["x"]
        assert str(found.layout) == str(made(reader).layout)
        assert found.to_dense().tolist() == made(writer).to_dense().tolist()


def test_dtypes_without_an_old_storage_and_lazy_conjugates_cross(torch: Any) -> None:
    names = ("bfloat16", "uint16", "uint32", "uint64")
    for writer, reader in ((ferro, torch), (torch, ferro)):
        made = [writer.tensor([1, 2, 3]).to(getattr(writer, name))[1:] for name in names]
        for name, x in zip(names, reader.load(file_of(writer, made)), strict=True):
            assert (x.dtype, x.tolist()) == (getattr(reader, name), [2, 3])
    z = torch.tensor([1 + 2j, 3 - 1j])
    conjugate, imaginary = (ferro.load(file_of(torch, x)) for x in (z.conj(), z.conj().imag))
    assert conjugate.tolist() == [1 - 2j, 3 + 1j]
    assert imaginary.tolist() == [-2.0, 1.0]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_are_written_and_are_those_of_their_tensors(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro)):
        x = writer.arange(6.0)
        storage, view = reader.load(file_of(writer, [x._typed_storage(), x.view(2, 3)]))
        assert storage.dtype is reader.float32
        assert storage.data_ptr() == view.data_ptr()
    x = ferro.arange(6.0)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        ferro.save([x, x.view(ferro.int32)], io.BytesIO())
    assert copied(x.untyped_storage()).dtype is ferro.uint8


def test_metadata_of_a_state_dict_and_named_tuples_are_kept(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro)):
        state = writer.nn.BatchNorm1d(2).state_dict()
        assert reader.load(file_of(writer, state))._metadata == state._metadata
    with pytest.raises(pickle.UnpicklingError, match="Pair"):
        copied(Pair(1, ferro.ones(2)))
    with ferro.serialization.safe_globals([Pair]):
        assert copied(Pair(1, 2)) == Pair(1, 2)


class Pair(NamedTuple):
    """A named tuple of a user's."""

    x: Any
    y: Any


# Whole modules: how each is made, and the shape of its input.
MODULES: dict[str, Any] = {
    "conv": (
        lambda t: t.nn.Sequential(t.nn.Conv2d(2, 3, 3, padding="same"), t.nn.BatchNorm2d(3), t.nn.ReLU()),
        (2, 2, 8, 8),
    ),
    "reflected": (lambda t: t.nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 6, 6)),
    "transposed": (lambda t: t.nn.ConvTranspose1d(2, 3, 3, stride=2), (1, 2, 6)),
    "norms": (
        lambda t: t.nn.Sequential(t.nn.LayerNorm(4), t.nn.GELU("tanh"), t.nn.RMSNorm(4), t.nn.Dropout(0.0)),
        (2, 4),
    ),
    "pools": (lambda t: t.nn.Sequential(t.nn.MaxPool2d(2), t.nn.AdaptiveAvgPool2d(2), t.nn.Flatten()), (1, 2, 8, 8)),
    "lstm": (lambda t: t.nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
    "gru": (lambda t: t.nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    "transformer": (lambda t: t.nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation="gelu"), (5, 2, 4)),
    "weight-norm": (lambda t: t.nn.utils.weight_norm(t.nn.Linear(4, 3)), (2, 4)),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", MODULES)
def test_whole_modules_cross(name: str, torch: Any, rng: np.random.Generator) -> None:
    make, shape = MODULES[name]
    x = rng.random(shape, np.float32)
    for writer, reader in ((ferro, torch), (torch, ferro), (ferro, ferro)):
        net = make(writer)
        twin = reader.load(file_of(writer, net), weights_only=False)
        assert type(twin).__module__.partition(".")[0] == reader.__name__
        assert repr(twin) == repr(net)
        copied_state = {key: value.tolist() for key, value in twin.state_dict().items()}
        assert copied_state == {key: value.tolist() for key, value in net.state_dict().items()}
        # (from here on the two differ by rounding: what they compute, and the means that a normalisation keeps)
        outputs = [module(library.tensor(x)) for module, library in ((net, writer), (twin, reader))]
        first, second = (y[0] if isinstance(y, tuple) else y for y in outputs)
        np.testing.assert_allclose(first.detach().numpy(), second.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_class_that_ferro_has_not_is_named(torch: Any) -> None:
    with pytest.raises(
        AttributeError, match=r"torch\.fx\.proxy\.GraphAppendingTracer, and ferro has nothing of this name"
    ):
        ferro.load(file_of(torch, torch.fx.proxy.GraphAppendingTracer), weights_only=False)


# -- where storages go


def on_a_gpu(location: str = "cuda:0") -> io.BytesIO:
    """A file whose tensor was on a GPU."""
    whole = file_of(ferro, ferro.ones(2))
    changed = io.BytesIO()
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            here, there = (b"X" + struct.pack("<I", len(text)) + text for text in (b"cpu", location.encode()))
            new.writestr(name, old.read(name).replace(here, there))
    changed.seek(0)
    return changed


def test_a_storage_from_a_gpu_needs_a_map_location() -> None:
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        ferro.load(on_a_gpu())
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        ferro.load(on_a_gpu("moon"))
    for allowed in ("cpu", ferro.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert ferro.load(on_a_gpu(), map_location=allowed).tolist() == [1.0, 1.0]
    seen = []
    assert (
        copied(ferro.ones(2), map_location=lambda storage, location: seen.append((storage.nbytes(), location))).sum()
        == 2
    )
    assert seen == [(8, "cpu")]
    doubled = copied(ferro.ones(2), map_location=lambda storage, location: ferro.tensor([2.0, 3.0]).untyped_storage())
    assert doubled.tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="map_location returned int"):
        copied(ferro.ones(2), map_location=lambda storage, location: 1)
    with pytest.raises(TypeError, match="map_location must be a device"):
        copied(1, map_location=1.5)
    with pytest.raises(RuntimeError, match="CUDA device"):
        copied(ferro.ones(2), map_location="cuda")


# -- mapped files and the order of bytes


def test_a_mapped_file_is_read_when_it_is_used_and_not_written(tmp_path: Path, torch: Any) -> None:
    path = tmp_path / "big.pt"
    for writer in (ferro, torch):
        x = writer.arange(1000.0).view(10, 100)
        writer.save({"x": x, "y": x.T, "z": writer.ones(3)}, path)
        for reader in (ferro, torch):
            found = reader.load(path, mmap=True)
            assert found["x"].tolist() == x.tolist()
            found["x"][1, 2] = -1.0
            assert found["y"][2, 1] == -1.0
        assert ferro.load(path)["x"][1, 2] == 102.0
        assert ferro.load(path, mmap=True)["z"].untyped_storage().nbytes() == 12
    with ferro.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ferro.load(path, mmap=True)["x"][1, 2] = 7.0
    assert ferro.load(path, mmap=True)["x"][1, 2] == 7.0
    with pytest.raises(RuntimeError, match="does not agree with its checksum"):
        ferro.load(path)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        ferro.load(io.BytesIO(path.read_bytes()), mmap=True)
    ferro.save(1, path, **OLD)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        ferro.load(path, mmap=True)
    with pytest.raises(ValueError, match=r"expected mmap\.MAP_PRIVATE or mmap\.MAP_SHARED"):
        ferro.serialization.set_default_mmap_options(77)


def test_large_files_are_mapped_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.pt"
    ferro.save(ferro.ones(100), path)
    monkeypatch.setattr("ferro.serialization.reading.MAPPED_FROM", 100)
    base = ferro.load(path)._data
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def test_numbers_with_the_other_order_of_bytes_are_turned_round() -> None:
    values = [
        ferro.tensor([1, 2]),
        ferro.tensor([1.5 + 2j]),
        ferro.tensor([True]),
        ferro.tensor([3], dtype=ferro.int16),
    ]
    swapped = io.BytesIO()
    other = "big" if sys.byteorder == "little" else "little"
    with zipfile.ZipFile(file_of(ferro, values)) as old, zipfile.ZipFile(swapped, "w") as new:
        for name in old.namelist():
            held = old.read(name)
            if name.endswith("byteorder"):
                held = other.encode()
            if "/data/" in name:
                kind = [np.int64, np.float32, np.int8, np.int16][int(name.rpartition("/")[2])]
                held = np.frombuffer(held, kind).byteswap().tobytes()
            new.writestr(name, held)
    swapped.seek(0)
    assert [x.tolist() for x in ferro.load(swapped)] == [x.tolist() for x in values]
    ferro.serialization.set_default_load_endianness(ferro.serialization.LoadEndianness.BIG)
    try:
        found = ferro.load(file_of(ferro, ferro.tensor([1]), _disable_byteorder_record=True))
        assert found.item() == (1 << 56 if sys.byteorder == "little" else 1)
    finally:
        ferro.serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
        ferro.serialization.set_default_load_endianness("big")  # type: ignore[arg-type]


# -- arguments


def test_pickle_modules_and_what_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loud(pickle.Unpickler):
        def load(self) -> Any:
            return ["loud", super().load()]

    module = types.SimpleNamespace(Unpickler=Loud, Pickler=pickle._Pickler, __name__="loud")  # type: ignore[attr-defined]
    assert ferro.load(file_of(ferro, 1, pickle_module=module), pickle_module=module) == ["loud", 1]
    with pytest.raises(
        NotImplementedError, match="pickle_module must be pickle or one whose Pickler is written in Python"
    ):
        ferro.save(1, io.BytesIO(), pickle_module=types.SimpleNamespace(Pickler=pickle.Pickler))
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        ferro.load(file_of(ferro, Pair(1, 2)), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="should be set, but both were set"):
        ferro.load(file_of(ferro, 1))
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert ferro.load(file_of(ferro, Pair(1, 2))) == Pair(1, 2)
    with pytest.raises(ValueError, match="Expected tuple of length 2"):
        ferro.serialization.add_safe_globals([(1, 2, 3)])
    with pytest.raises(TypeError, match="Expected second item in tuple to be str"):
        ferro.serialization.add_safe_globals([(1, 2)])


def test_a_file_says_which_names_are_not_safe(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    ferro.save([Pair(1, ferro.ones(2)), Path("x")], path, pickle_protocol=4)
    found = ferro.serialization.get_unsafe_globals_in_checkpoint(path)
    assert found[0] == f"{__name__}.Pair"
    assert found[1].startswith("pathlib")
    with ferro.serialization.safe_globals([Pair]):
        assert len(ferro.serialization.get_unsafe_globals_in_checkpoint(path)) == 1
    with pytest.raises(ValueError, match="Expected input to be a checkpoint"):
        ferro.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"text"))


def test_generators_results_with_names_and_optimizers_cross(torch: Any) -> None:
    for writer, reader in ((ferro, torch), (torch, ferro), (ferro, ferro)):
        generator = writer.Generator().manual_seed(5)
        writer.rand(3, generator=generator)
        net = writer.nn.Linear(2, 2)
        optimizer = writer.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
        net(writer.ones(1, 2)).sum().backward()
        optimizer.step()
        extremes = writer.tensor([1.0, 3.0, 2.0]).max(0)
        file = file_of(writer, [net, optimizer, generator, extremes])
        twin, other, there, named = reader.load(file, weights_only=False)
        assert there.initial_seed() == 5
        assert writer.rand(4, generator=generator).tolist() == reader.rand(4, generator=there).tolist()
        assert (named.values, named.indices) == (3.0, 1)
        for library, module, steps in ((writer, net, optimizer), (reader, twin, other)):
            module.weight.grad = library.ones(2, 2)
            steps.step()
        assert twin.weight.tolist() == net.weight.tolist(), "the optimiser is that of the module beside it"
    assert pickle.loads(pickle.dumps(ferro.Generator().manual_seed(9))).initial_seed() == 9


def test_records_of_large_archives_cross(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)  # bytes, from which on the numbers in the headers are longer
    path = tmp_path / "large.pt"
    ferro.save({"x": ferro.arange(500.0), "y": ferro.ones(3)}, path)
    for library in (ferro, torch):
        for options in ({}, {"mmap": True}):
            found = library.load(path, **options)
            assert found["x"].tolist() == list(range(500))
            assert found["y"].tolist() == [1.0] * 3


class Sink:
    """A file object that takes bytes, and can do nothing else."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, content: Any) -> None:
        self.taken += bytes(content)


def test_file_objects_of_many_kinds(torch: Any, tmp_path: Path) -> None:
    for options in ({}, OLD):
        sink = Sink()
        ferro.save({"x": ferro.arange(3.0)}, sink, **options)
        with gzip.open(tmp_path / "a.gz", "wb") as file:
            ferro.save({"x": ferro.arange(3.0)}, file, **options)
        for library in (ferro, torch):
            assert library.load(io.BytesIO(sink.taken))["x"].tolist() == [0.0, 1.0, 2.0]
            with gzip.open(tmp_path / "a.gz", "rb") as file:
                assert library.load(file)["x"].tolist() == [0.0, 1.0, 2.0]
    behind = io.BytesIO()
    behind.write(b"a header")
    ferro.save(ferro.ones(2), behind)
    behind.seek(8)
    assert ferro.load(behind).tolist() == [1.0, 1.0]
    two = io.BytesIO()
    ferro.save([1], two, **OLD)
    ferro.save([2], two, **OLD)
    two.seek(0)
    assert [ferro.load(two), ferro.load(two)] == [[1], [2]]


def test_files_of_safetensors_are_loaded_too(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy", reason="the optional package safetensors is not installed")
    path = tmp_path / "weights.safetensors"
    safetensors.save_file({"x": np.arange(3.0)}, path)
    assert ferro.load(path)["x"].tolist() == [0.0, 1.0, 2.0]
    assert ferro.load(path, map_location=ferro.device("cpu"))["x"].dtype is ferro.float64
    with pytest.raises(RuntimeError, match="Loading safetensors file with dict map_location is not supported"):
        ferro.load(path, map_location={})


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_kinds_of_tensors_that_ferro_has_not_are_named(torch: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of what it will remove
        kinds = {
            "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            "float8_e4m3fn is not supported": torch.ones(2).to(torch.float8_e4m3fn),
            "meta": torch.ones(2, device="meta"),
            "layout 'torch.sparse_bsr'": torch.ones(2, 2).to_sparse_bsr((1, 1)),
        }
        files = {words: file_of(torch, {"x": x}) for words, x in kinds.items()}
        half = file_of(torch, torch.tensor([1 + 2j, 3]).chalf())
    for words, file in files.items():
        with pytest.raises(NotImplementedError, match=words):
            ferro.load(file)
    assert ferro.load(half).cfloat().tolist() == [1 + 2j, 3]
    assert torch.load(file_of(ferro, ferro.tensor([1 + 2j, 3]).chalf())).cfloat().tolist() == [1 + 2j, 3]
    assert ferro.load(file_of(torch, torch.float8_e5m2)) is ferro.float8_e5m2


def test_records_of_a_file_are_read_by_name(torch: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "x.pt")
    torch.save({"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.arange(4)}, path)
    ours, theirs = ferro.PyTorchFileReader(path), torch.PyTorchFileReader(path)
    assert sorted(ours.get_all_records()) == sorted(theirs.get_all_records())
    for name in ("data.pkl", "data/0", "data/1"):
        assert ours.get_record(name) == theirs.get_record(name)
        assert ours.get_record_size(name) == theirs.get_record_size(name)
        assert ours.has_record(name)
    assert not ours.has_record("data/2")
    held = ours.get_storage_from_record("data/0", 3, ferro.float32)
    assert held.numel() == theirs.get_storage_from_record("data/0", 3, torch.float32).numel() == 0
    assert held.as_strided((3,), (1,)).tolist() == [1.0, 2.0, 3.0]
    for module in (ferro, torch):
        with pytest.raises(RuntimeError, match="file not found"):
            module.PyTorchFileReader(path).get_record("data/2")
        with pytest.raises(RuntimeError, match="open file failed because of errno 2"):
            module.PyTorchFileReader(str(tmp_path / "absent.pt"))
    with pytest.raises(RuntimeError, match="too few for 9 numbers"):
        ours.get_storage_from_record("data/0", 9, ferro.float32)
