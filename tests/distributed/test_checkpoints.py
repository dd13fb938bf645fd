"""Checkpoints of several ranks, and loaders that go on where others stood: what was saved comes back, whole or not at all."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.distributed import checkpoint as dcp
from ferro.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from ferro.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler
from tests.distributed.test_mpi import HERE, pytestmark, ranks

__all__ = ["pytestmark"]


def checkpointed(count: int, kind: str, actions: str, folder: Path, device: str = "cpu") -> None:
    done = ranks(count, HERE / "checkpoints_on_ranks.py", kind, actions, str(folder), device=device)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks {actions}" in done.stdout.splitlines()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", id="nccl", marks=pytest.mark.slow)])
def test_training_goes_on_from_a_checkpoint_bit_for_bit_and_with_other_ranks(tmp_path: Path, device: str) -> None:
    """Model, optimiser, rate, place in the data and random numbers; saved in a thread while training goes on."""
    checkpointed(2, "parts", "save", tmp_path, device)
    checkpointed(2, "parts", "again", tmp_path, device)
    checkpointed(1, "copies", "others", tmp_path, device)


def test_training_goes_on_from_a_checkpoint_over_nccl_in_short(tmp_path: Path) -> None:
    """In the ranks that have saved it, with a model, an optimiser and a loader that are new."""
    checkpointed(2, "parts", "save+again", tmp_path, "cuda")


@pytest.mark.slow
def test_training_goes_on_with_more_and_fewer_ranks_and_other_parts(tmp_path: Path) -> None:
    checkpointed(3, "copies", "save", tmp_path / "copies")
    checkpointed(3, "copies", "again", tmp_path / "copies")
    checkpointed(4, "parts", "others", tmp_path / "copies")
    checkpointed(4, "parts", "save", tmp_path / "parts")
    checkpointed(4, "parts", "again", tmp_path / "parts")
    for count, kind in ((2, "parts"), (3, "parts"), (2, "copies"), (8, "parts")):
        checkpointed(count, kind, "others", tmp_path / "parts")


def state() -> dict[str, Any]:
    tensors = [
        ferro.arange(6.0).reshape(2, 3),
        ferro.ones(3, dtype=ferro.bfloat16),
        ferro.tensor([1 + 2j], dtype=ferro.complex128),
    ]
    plain = {
        "n": 3,
        "nan": float("nan"),
        "text": "a",
        "none": None,
        "pair": (1, 2.5),
        "dtype": ferro.float16,
        7: [True, "x"],
    }
    return {
        "model": {"list": [*tensors, "x"], "pair": (ferro.zeros(0, 2), 1)},
        "array": np.arange(3, dtype=np.int16),
        "plain": plain,
    }


def test_a_state_of_tensors_and_plain_data_comes_back(tmp_path: Path) -> None:
    saved: Any = state()
    found: Any = state()
    dcp.save(saved, checkpoint_id=tmp_path)
    found["model"]["list"][0].zero_()
    found["model"]["list"][3] = found["array"] = found["plain"]["text"] = None
    found["model"]["list"][1] = kept = ferro.zeros(3, dtype=ferro.float64)  # (cast)
    found["plain"]["pair"] = (0, 0)
    dcp.load(found, checkpoint_id=tmp_path)
    assert found["model"]["list"][1] is kept
    assert kept.tolist() == [1.0, 1.0, 1.0]
    for a, b in zip(saved["model"]["list"][::2], found["model"]["list"][::2], strict=True):
        assert a.tolist() == b.tolist()
    assert found["model"]["list"][3] == "x"
    assert found["model"]["pair"][1] == 1
    assert found["array"].tolist() == [0, 1, 2]
    assert found["array"].dtype == np.int16
    assert str(found["plain"]) == str(saved["plain"])


def test_a_file_of_a_checkpoint_is_a_safetensors_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    dcp.save({"a": {"w": ferro.arange(6.0).reshape(2, 3)}, "b": ferro.tensor([True])}, checkpoint_id=tmp_path)
    (file,) = tmp_path.glob("rank_*.safetensors")
    found = safetensors.load_file(file)
    assert found["a.w"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert found["b"].tolist() == [True]


def test_what_does_not_fit_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    dcp.save({"w": ferro.ones(2), "n": 1}, checkpoint_id=tmp_path)
    w = ferro.zeros(2)
    for wanted, words in (
        ({"w": w, "x": 1}, "Missing key in checkpoint state_dict: x"),
        ({"w": w, "n": ferro.ones(1)}, "Missing key in checkpoint state_dict: n"),
        ({"a": w, "w": ferro.zeros(3)}, "Missing key in checkpoint state_dict: a"),
        ({"w": ferro.zeros(3)}, "Size mismatch"),
    ):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.load(wanted, checkpoint_id=tmp_path)
    assert w.tolist() == [0.0, 0.0]
    partial = {"w": w, "x": 5}
    dcp.load(partial, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert w.tolist() == [1.0, 1.0]
    assert partial["x"] == 5
    with pytest.raises(dcp.CheckpointException, match="FileNotFoundError"):
        dcp.load({"w": w}, checkpoint_id=tmp_path / "nothing")
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save({"w": w})
    with pytest.raises(dcp.CheckpointException, match="'o' is of <class 'object'>"):
        dcp.save({"o": object()}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=r"two values have the name 'a.b'"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save({"w": w}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    dcp.load({"w": w, "n": 0}, checkpoint_id=tmp_path)  # (the last whole one)


KILLED = """
import os, sys, ferro
from ferro.distributed import checkpoint
folder = sys.argv[1]
def dies(point):
    count = 0
    def dying(real):
        def call(*args):
            nonlocal count
            count += 1
            if count == point:
                os._exit(9)
            return real(*args)
        return call
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, dying(getattr(os, name)))
    checkpoint.save({"w": ferro.full((1000,), 2.0), "n": 2}, checkpoint_id=folder)
    os._exit(0)
status, point = 9, 0
while status:
    point += 1
    checkpoint.save({"w": ferro.full((1000,), 1.0), "n": 1}, checkpoint_id=folder)
    child = os.fork()
    if not child:
        dies(point)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = {"w": ferro.zeros(1000), "n": 0}
    checkpoint.load(found, checkpoint_id=folder)
    assert set(found["w"].tolist()) == {float(found["n"])}
    print(status, found["n"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not here")
def test_a_save_that_is_killed_at_any_point_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """The program dies at its first, second, ... call that reaches the disk: the old values are there, or the new ones."""
    script, folder = tmp_path / "killed.py", tmp_path / "checkpoint"
    script.write_text(KILLED)
    command = [sys.executable, script, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    *killed, last = done.stdout.splitlines()
    assert killed == sorted(killed)  # (the old ones before the new ones)
    assert killed[0] == "9 1"
    assert last == "0 2"
    assert len(killed) >= 3
    dcp.save({"w": ferro.ones(2)}, checkpoint_id=folder)
    assert len(list(folder.iterdir())) == 2  # what was left lying about is gone


def test_a_checkpoint_that_is_not_whole_is_not_loaded(tmp_path: Path) -> None:
    dcp.save({"w": ferro.ones(1000)}, checkpoint_id=tmp_path)
    (file,) = tmp_path.glob("rank_*.safetensors")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(dcp.CheckpointException, match="bytes, and the manifest says"):
        dcp.load({"w": ferro.zeros(1000)}, checkpoint_id=tmp_path)
    file.unlink()
    with pytest.raises(dcp.CheckpointException, match="has None bytes"):
        dcp.load({"w": ferro.zeros(1000)}, checkpoint_id=tmp_path)
    file.write_bytes(content)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(dcp.CheckpointException, match="none of ferro's checkpoints"):
        dcp.load({"w": ferro.zeros(1000)}, checkpoint_id=tmp_path)


def test_a_save_in_a_thread_has_what_was_there_when_it_was_asked_for(tmp_path: Path) -> None:
    w = ferro.ones(1000)
    future = dcp.async_save({"w": w}, checkpoint_id=tmp_path)
    w.zero_()
    future.result(timeout=60)
    dcp.load({"w": w}, checkpoint_id=tmp_path)
    assert w.tolist() == [1.0] * 1000
    (tmp_path / "file").write_text("")
    future = dcp.async_save({"w": w}, checkpoint_id=tmp_path)
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    future.result(timeout=60)


def test_an_optimiser_that_has_not_stepped_takes_its_state_and_is_otherwise_as_new(tmp_path: Path) -> None:
    def made() -> tuple[Any, Any]:
        ferro.manual_seed(0)
        model = ferro.nn.Linear(3, 2)
        return model, ferro.optim.AdamW([{"params": [model.weight], "lr": 0.5}, {"params": [model.bias]}])

    def step(model: Any, optimizer: Any) -> list:
        optimizer.zero_grad()
        model(ferro.ones(1, 3)).square().sum().backward()
        optimizer.step()
        return model.weight.tolist()

    model, optimizer = made()
    step(model, optimizer)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path / "whole")
    state = get_optimizer_state_dict(model, optimizer)
    dcp.save({"state": state}, checkpoint_id=tmp_path / "names")
    expected = step(model, optimizer)
    other = made()
    dcp.load({"model": other[0], "optimizer": other[1]}, checkpoint_id=tmp_path / "whole")
    assert step(*other) == expected
    model, optimizer = made()
    before = model.weight.tolist()
    found = {"state": get_optimizer_state_dict(model, optimizer)}
    assert model.weight.tolist() == before
    dcp.load(found, checkpoint_id=tmp_path / "names")
    set_optimizer_state_dict(model, optimizer, found["state"])
    assert optimizer.state[model.weight]["step"].item() == 1
    assert optimizer.param_groups[0]["lr"] == 0.5
    fresh, untouched = made(), made()
    get_optimizer_state_dict(*fresh)
    assert step(*fresh) == step(*untouched)


LOADERS: dict[str, dict[str, Any]] = {
    "shuffled": {"shuffle": True, "batch_size": 2},
    "in order": {"batch_size": 2},
    "threads": {"shuffle": True, "batch_size": 2, "num_workers": 2},
    "batches": {"batch_sampler": BatchSampler(SequentialSampler(range(11)), 3, False)},
    "single": {"shuffle": True, "batch_size": None},
    "of a rank": {"sampler": DistributedSampler(range(11), 2, 1, seed=4), "batch_size": 2},
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_goes_on_where_another_one_stood(kind: str, own: bool) -> None:
    """The rest of the epoch, the next one, and the random numbers behind it are those of a loader that has not been left."""

    def made() -> Any:
        return DataLoader(
            np.arange(11), generator=ferro.Generator().manual_seed(5) if own else None, **copy.deepcopy(LOADERS[kind])
        )

    def rest(batches: Any, loader: Any) -> list:
        return [x.tolist() for x in batches] + [x.tolist() for x in loader] + [ferro.rand(1).item()]

    ferro.manual_seed(1)
    loader = made()
    batches = iter(loader)
    next(batches)
    next(batches)
    ferro.rand(3)
    state, random = loader.state_dict(), ferro.get_rng_state()
    expected = rest(batches, loader)
    assert loader.state_dict()["given"] == -1
    ferro.manual_seed(99)
    other = made()
    other.load_state_dict(state)
    ferro.set_rng_state(random)
    assert rest(other, other) == expected


def test_an_epoch_goes_on_with_another_number_of_ranks() -> None:
    """What two ranks have not had, three share: every sample once."""
    had: list[int] = []
    for rank in range(2):
        loader = DataLoader(range(24), batch_size=2, sampler=DistributedSampler(range(24), 2, rank, seed=2))
        batches = iter(loader)
        had += next(batches).tolist() + next(batches).tolist() + next(batches).tolist()
        state = loader.state_dict()
    for rank in range(3):
        loader = DataLoader(range(24), batch_size=2, sampler=DistributedSampler(range(24), 3, rank, seed=2))
        loader.load_state_dict(state)
        had += [i for batch in loader for i in batch.tolist()]
    assert sorted(had) == list(range(24))
