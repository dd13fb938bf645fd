"""A script for several ranks: writes or reads a checkpoint of a training, in parts of a given kind, and goes on with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.distributed import checkpoint
from ferro.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from ferro.distributed.fsdp import fully_shard
from ferro.nn.parallel import DistributedDataParallel
from ferro.utils.data import DataLoader, DistributedSampler
from tests.distributed.placing import BACKEND, DEVICE, checked

KIND, ACTIONS, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
DATA = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
STEPS = 4  # (from the first epoch into the second)


def made() -> tuple[Any, Any, Any]:
    ferro.manual_seed(RANK)  # (every rank has random numbers of its own)
    model: Any = nn.Sequential(nn.Linear(6, 29), nn.Dropout(0.25), nn.Tanh(), nn.Linear(29, 3), nn.BatchNorm1d(3))
    ferro.manual_seed(7)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    model = model.to(DEVICE)
    ferro.manual_seed(100 + RANK)
    if KIND == "parts":
        fully_shard(model[0])
        fully_shard(model)
    elif KIND == "copies":
        model = DistributedDataParallel(model)
    optimizer = ferro.optim.AdamW(model.parameters(), lr=0.02)
    sampler = DistributedSampler(DATA, seed=3)  # type: ignore[arg-type]
    return model, optimizer, DataLoader(DATA, batch_size=4, sampler=sampler)


class Training:
    """What a checkpoint has: model, optimiser, place in the data, random numbers of every rank."""

    def __init__(self) -> None:
        self.model, self.optimizer, self.loader = made()
        self.schedule = ferro.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        self.epoch, self.data = 0, self.batches()

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        random = {"all": ferro.get_rng_state()}
        if DEVICE == "cuda":  # (which dropout draws from there)
            random["device"] = ferro.cuda.get_rng_state()
        data, schedule = self.loader.state_dict(), self.schedule.state_dict()
        random["data"] = data.pop("start")  # (of every rank, too)
        ranks = {str(RANK): random}
        return {
            "model": model,
            "optimizer": optimizer,
            "data": data,
            "schedule": schedule,
            "ranks": ranks,
            "epoch": self.epoch,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        random = state["ranks"][str(RANK)]
        self.loader.load_state_dict({**state["data"], "start": random["data"]})
        self.schedule.load_state_dict(state["schedule"])
        self.epoch = state["epoch"]
        ferro.set_rng_state(random["all"])
        if DEVICE == "cuda":
            ferro.cuda.set_rng_state(random["device"])

    def batches(self) -> Iterator[Any]:
        while True:
            self.loader.sampler.set_epoch(self.epoch)
            yield from self.loader
            self.epoch += 1

    def steps(self, count: int) -> list[float]:
        losses: list[float] = []
        for _ in range(count):
            self.optimizer.zero_grad()
            loss = (self.model(next(self.data).to(DEVICE)) - 0.5).square().mean()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        return losses


def whole(training: Training) -> dict[str, Any]:
    return {
        n: (v.full_tensor() if hasattr(v, "_spec") else v).tolist() for n, v in training.state_dict()["model"].items()
    }


def save(training: Any) -> None:
    training.steps(STEPS)
    if KIND == "parts":  # written in a thread, while training goes on
        future, epoch = checkpoint.async_save({"training": training}, checkpoint_id=FOLDER), training.epoch
        after = training.steps(STEPS)
        assert future.result().values["training.epoch"] == epoch
    else:
        checkpoint.save({"training": training}, checkpoint_id=FOLDER)
        after = training.steps(STEPS)
    np.savez(FOLDER / f"expected_{RANK}.npz", losses=after, **whole(training))


def again(training: Any) -> None:
    """As many ranks in the same parts: bit for bit."""
    checkpoint.load({"training": training}, checkpoint_id=FOLDER)
    losses = training.steps(STEPS)
    with np.load(FOLDER / f"expected_{RANK}.npz") as file:
        expected = dict(file)
    assert losses == expected["losses"].tolist(), (losses, expected["losses"])
    for name, value in whole(training).items():
        if "running" in name and RANK > 0:  # (a buffer that ranks have of their own is that of the first one)
            continue
        assert np.array(value, expected[name].dtype).tolist() == expected[name].tolist(), name


def others(training: Any) -> None:
    """Other ranks, some of which did not save, or other parts: the state is that of the first one."""
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load({"training": training}, checkpoint_id=FOLDER, planner=planner)
    reader = checkpoint.FileSystemReader(FOLDER)
    metadata = reader.read_metadata()
    for group in ("model", "optimizer"):
        state = training.state_dict()[group]
        for name, value in state.items() if group == "model" else state["state"].items():
            leaves = {"": value} if group == "model" else {f".{k}": v for k, v in value.items()}
            for key, leaf in leaves.items():
                at = f"training.{group}.{'' if group == 'model' else 'state.'}{name}{key}"
                known = metadata.state_dict_metadata[at]
                expected = reader.read(known, (0,) * len(known.size), known.size)
                found = leaf.full_tensor() if hasattr(leaf, "_spec") else leaf
                assert found.tolist() == expected.tolist(), at
    assert training.optimizer.param_groups[0]["lr"] == 0.01
    training.steps(2)


for action in ACTIONS.split("+"):
    {"save": save, "again": again, "others": others}[action](Training())
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks {ACTIONS}")
