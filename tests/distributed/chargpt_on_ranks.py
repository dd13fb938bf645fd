"""A script for several ranks: the example char-GPT learns in one of four ways; writes its losses, the means over the ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro.distributed.fsdp import fully_shard
from ferro.distributed.tensor import Replicate
from ferro.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from ferro.examples.chargpt import CharGPT, Size, corpus, cross_entropy
from ferro.nn.parallel import DistributedDataParallel

HOW, FILE, STEPS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("mpi", pg_options=dist.GroupOptions(deterministic=True))
RANK, PARTS = dist.get_rank(), 4
text = corpus()[:50_000]
letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
codes = np.array([letters[letter] for letter in text])
size = Size(vocabulary=len(letters), context=32, width=32, heads=4, blocks=2)
ferro.manual_seed(0)
model: Any = CharGPT(size)
mine: list[int] = [RANK]  # of the four parts of a batch
if HOW == "alone":
    mine = list(range(PARTS))
elif HOW == "copies":
    model = DistributedDataParallel(model)
elif HOW == "parts":
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
else:  # two by two
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plan: Any = {
        "characters": RowwiseParallel(input_layouts=Replicate()),
        "blocks.*.mlp.0": ColwiseParallel(),
        "blocks.*.mlp.2": RowwiseParallel(),
        "scores": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, mesh["tp"], plan)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    place = mesh["dp"].get_local_rank()
    mine = [2 * place, 2 * place + 1]
optimizer = ferro.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
rng, losses = np.random.default_rng(0), []
for _ in range(STEPS):
    starts = rng.integers(0, len(codes) - 33, 16).reshape(PARTS, 4)
    optimizer.zero_grad()
    total = 0.0
    for k, part in enumerate(mine):
        pieces = codes[starts[part][:, None] + np.arange(33)]
        if HOW not in ("alone", "copies"):
            model.set_requires_gradient_sync(k == len(mine) - 1)
        loss = cross_entropy(model, ferro.tensor(pieces[:, :-1]), ferro.tensor(pieces[:, 1:]))
        (loss / len(mine)).backward()
        total += loss.item() / len(mine)
    optimizer.step()
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, total)
    losses.append(sum(found) / len(found))
if RANK == 0:
    FILE.write_text(json.dumps(losses))
dist.destroy_process_group()
