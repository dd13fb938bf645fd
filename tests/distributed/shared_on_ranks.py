"""A script for several ranks of one machine: gradients are added in memory that all see, which is given back. Argument: whether it is there."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import ferro
import ferro.distributed as dist
from ferro.nn.parallel import DistributedDataParallel

WANTED = int(sys.argv[1])


def mapped() -> int:
    """How many pieces of shared memory this process sees."""
    return Path("/proc/self/maps").read_text().count("/memfd:ferro")


def opened() -> int:
    return sum("/memfd:ferro" in str(p.readlink()) for p in Path("/proc/self/fd").iterdir() if p.is_symlink())


def trained() -> Any:
    model = DistributedDataParallel(ferro.nn.Linear(3, 2))
    for _ in range(3):
        model.zero_grad()
        model(ferro.full((1, 3), dist.get_rank() + 1.0)).sum().backward()
        mean = (dist.get_world_size() + 1) / 2
        assert model.module.weight.grad.tolist() == [[mean] * 3] * 2, model.module.weight.grad
    return model


dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
model = trained()
assert mapped() == WANTED
other = trained()
assert mapped() == 2 * WANTED
del other
gc.collect()  # (with the model its memory goes)
assert mapped() == WANTED
some = dist.new_group(list(range(size)))
inner = DistributedDataParallel(ferro.nn.Linear(1, 1), process_group=some)
for _ in range(2):
    inner(ferro.ones(1, 1)).sum().backward()
assert mapped() == 2 * WANTED
dist.destroy_process_group(some)
assert mapped() == WANTED
dist.destroy_process_group()
assert (mapped(), opened()) == (0, 0)  # (and the models are still there)
dist.init_process_group("mpi")
trained()
if rank == 0:
    print(f"{size} ranks have given {WANTED} back")
