"""A script for several ranks: meshes, tensors in parts, and optimisers whose state is divided. Prints one line when all agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.distributed.optim import ZeroRedundancyOptimizer
from ferro.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from ferro.nn.parallel import DistributedDataParallel
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(0)

# -- meshes

ROWS = 2 if SIZE % 2 == 0 else 1
mesh = dist.init_device_mesh(DEVICE, (ROWS, SIZE // ROWS), mesh_dim_names=("dp", "tp"))
grid = np.arange(SIZE).reshape(ROWS, -1)
row, column = RANK // (SIZE // ROWS), RANK % (SIZE // ROWS)
assert mesh.get_coordinate() == (row, column)
assert dist.get_process_group_ranks(mesh.get_group("tp")) == grid[row].tolist()
assert dist.get_process_group_ranks(mesh.get_group("dp")) == grid[:, column].tolist()
assert mesh["tp"].mesh.tolist() == grid[row].tolist()
assert mesh["dp"].get_local_rank() == row
total = ferro.tensor([float(RANK)], device=DEVICE)
dist.all_reduce(total, group=mesh.get_group("dp"))
assert total.item() == grid[:, column].sum()
assert mesh._flatten("all").get_group().size() == SIZE

# -- tensors in parts: 7 rows do not divide, 1 row leaves ranks without any

for shape in ((7, 5), (1, 3), (4, 4)):
    whole = rng.standard_normal(shape).astype(np.float32)
    for placements in (
        [Replicate(), Shard(0)],
        [Shard(0), Shard(1)],
        [Shard(1), Shard(0)],
        [Shard(0), Shard(0)],
        [Replicate()] * 2,
    ):
        given = ferro.tensor(whole if RANK == 0 else whole * 0, device=DEVICE)  # (that of rank 0 goes to all)
        x = distribute_tensor(given, mesh, placements)
        parts = whole
        for p, place, count in zip(placements, (row, column), mesh.shape, strict=True):
            if isinstance(p, Shard):
                most = math.ceil(parts.shape[p.dim] / count)
                parts = np.take(
                    parts,
                    range(min(place * most, parts.shape[p.dim]), min((place + 1) * most, parts.shape[p.dim])),
                    p.dim,
                )
        assert x.to_local().tolist() == parts.tolist(), (shape, placements)
        assert x.shape == shape
        assert x.full_tensor().tolist() == whole.tolist(), (shape, placements)
        turned = x.redistribute(placements=[Shard(1), Replicate()])
        assert turned.full_tensor().tolist() == whole.tolist()
term = DTensor.from_local(ferro.full((2,), float(RANK + 1), device=DEVICE), mesh, [Partial(), Partial()])
assert term.full_tensor().tolist() == [SIZE * (SIZE + 1) / 2] * 2

# -- the state of an optimiser in parts


def trained(make: Any, steps: int = 4) -> Any:
    ferro.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Linear(50, 40), nn.Tanh(), nn.Linear(40, 3))
    model = DistributedDataParallel(model.to(DEVICE))
    optimizer = make(model)
    for step in range(steps):
        ferro.manual_seed(step)
        x = ferro.randn(4 * SIZE, 6)[4 * RANK : 4 * RANK + 4].to(DEVICE)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return model, optimizer


def groups(model: Any) -> Any:
    few, many = [p for p in model.parameters() if p.dim() == 1], [p for p in model.parameters() if p.dim() == 2]
    return [{"params": many, "weight_decay": 0.1}, {"params": few, "lr": 0.01}]


def held(optimizer: Any) -> int:
    return sum(t._data.nbytes for state in optimizer.state.values() for t in state.values() if t.dim())


KINDS: Any = (
    (ferro.optim.AdamW, {"lr": 0.02}),
    (ferro.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (ferro.optim.RMSprop, {"lr": 0.01}),
)
for kind, options in KINDS:
    model, optimizer = trained(lambda m: ZeroRedundancyOptimizer(groups(m), kind, **options))  # noqa: B023 - called at once
    alone, whole_optimizer = trained(lambda m: kind(groups(m), **options))  # noqa: B023
    for (name, a), b in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert a.tolist() == b.tolist(), (kind, name)
    mine, all_of = held(optimizer.optim), held(whole_optimizer)
    largest = max(p._data.nbytes for p in alone.parameters()) * all_of / sum(p._data.nbytes for p in alone.parameters())
    assert mine <= all_of / SIZE + largest, (mine, all_of)
    assert SIZE == 1 or mine < 0.9 * all_of
    optimizer.consolidate_state_dict(to=SIZE - 1)
    saved: list[Any] = [optimizer.state_dict() if RANK == SIZE - 1 else None]
    assert SIZE == 1 or RANK == SIZE - 1 or optimizer._collected is None
    dist.broadcast_object_list(saved, SIZE - 1)
    expected = whole_optimizer.state_dict()
    assert saved[0]["state"].keys() == expected["state"].keys()
    for i, state in expected["state"].items():
        for name, value in state.items():
            assert saved[0]["state"][i][name].tolist() == value.tolist(), (kind, i, name)
    again = ZeroRedundancyOptimizer(groups(model), kind, lr=9.0)
    again.load_state_dict(saved[0])
    assert [g["lr"] for g in again.param_groups] == [g["lr"] for g in expected["param_groups"]]
    assert held(again.optim) == mine
    for optimizer, net in ((again, model), (whole_optimizer, alone)):
        optimizer.zero_grad()
        net(ferro.ones(2, 6, device=DEVICE) * (RANK + 1)).square().mean().backward()
        optimizer.step()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        assert a.tolist() == b.tolist(), kind
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks share")
