"""A script for several ranks of ferro, or of PyTorch over gloo: `beside_gloo_on_ranks.py ferro|torch FOLDER`.

Each rank exchanges tensors and trains, and writes what came out to FOLDER. What gloo refuses is left out, and written down.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

lib: Any = importlib.import_module(sys.argv[1])
dist: Any = importlib.import_module(f"{sys.argv[1]}.distributed")
parallel: Any = importlib.import_module(f"{sys.argv[1]}.nn.parallel")
FOLDER = Path(sys.argv[2])
dist.init_process_group("gloo")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "int8", "bool")
OPERATIONS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR")
SOME = dist.new_group([0, SIZE - 1])
found: dict[str, Any] = {}  # arrays by name
refused: dict[str, str] = {}


def drawn(dtype: str, *shape: int, rank: int = RANK) -> Any:
    """A tensor of one rank: the same in both libraries."""
    rng = np.random.default_rng([rank, len(shape)])
    numbers = rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 7, shape)
    return lib.tensor(numbers).to(getattr(lib, dtype))


def keep(name: str, *tensors: Any) -> None:
    for k, t in enumerate(tensors):
        found[f"{name} {k}"] = (t.float() if t.dtype in (lib.float16, lib.bfloat16) else t).detach().numpy().copy()


def attempt(name: str, exchange: Callable[[], Any]) -> None:
    """Keeps what an exchange returns, unless it is refused: gloo refuses before anything has travelled."""
    try:
        tensors = exchange()
    except (RuntimeError, ValueError, TypeError) as error:
        refused[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    else:
        keep(name, *tensors)


def reduced(dtype: str, operation: str) -> None:
    op = getattr(dist.ReduceOp, operation)

    def all_reduce() -> Any:
        x = drawn(dtype, 3, 5)
        dist.all_reduce(x, op)
        return [x]

    def later() -> Any:
        x, y = drawn(dtype, 70), drawn(dtype, 3)
        works = [dist.all_reduce(t, op, async_op=True) for t in (x, y)]
        for work in works:
            work.wait()
        return x, y

    def reduce() -> Any:
        x = drawn(dtype, 3, 5)
        dist.reduce(x, SIZE - 1, op)
        return [x] if RANK == SIZE - 1 else []

    def reduce_scatter() -> Any:
        x, out = drawn(dtype, SIZE, 4), drawn(dtype, 4)
        dist.reduce_scatter(out, list(x), op)
        return [out]

    for exchange in (all_reduce, later, reduce, reduce_scatter):
        attempt(f"{exchange.__name__} {operation} {dtype}", exchange)


def moved(dtype: str) -> None:
    def all_gather() -> Any:
        outputs = [drawn(dtype, 2, 3) for _ in range(SIZE)]
        dist.all_gather(outputs, drawn(dtype, 2, 3))
        return outputs

    def all_gather_single() -> Any:
        whole = drawn(dtype, 2 * SIZE, 3)
        dist.all_gather_single(whole, drawn(dtype, 2, 3))
        return [whole]

    def broadcast() -> Any:
        x = drawn(dtype, 4)
        dist.broadcast(x, SIZE - 1)
        return [x]

    def scatter() -> Any:
        out = drawn(dtype, 4)
        dist.scatter(out, list(drawn(dtype, SIZE, 4)) if RANK == 0 else None, 0)
        return [out]

    def gather() -> Any:
        outputs = [drawn(dtype, 4) for _ in range(SIZE)] if RANK == 0 else None
        dist.gather(drawn(dtype, 4), outputs, 0)
        return outputs or []

    def all_to_all() -> Any:
        outputs = [drawn(dtype, 4) for _ in range(SIZE)]
        dist.all_to_all(outputs, list(drawn(dtype, SIZE, 4)))
        return outputs

    def all_to_all_single() -> Any:
        """Rank i has i + 1 rows for each."""
        x, out = drawn(dtype, SIZE * (RANK + 1), 2), drawn(dtype, SIZE * (SIZE + 1) // 2, 2)
        dist.all_to_all_single(out, x, list(range(1, SIZE + 1)), [RANK + 1] * SIZE)
        return [out]

    def send_and_recv() -> Any:
        x = drawn(dtype, 4)
        work = dist.isend(drawn(dtype, 4), (RANK + 1) % SIZE)
        dist.recv(x, (RANK - 1) % SIZE)
        work.wait()
        return [x]

    def within_a_group() -> Any:
        x = drawn(dtype, 4)
        if RANK in (0, SIZE - 1):
            dist.broadcast(x, SIZE - 1, SOME)
        return [x]

    exchanges = [all_gather, all_gather_single, broadcast, scatter, gather, all_to_all, all_to_all_single]
    for exchange in (*exchanges, send_and_recv, within_a_group):
        attempt(f"{exchange.__name__} {dtype}", exchange)


class Net(lib.nn.Module):
    """An MLP with a norm, whose buffers are those of rank 0, and a layer that every other step leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = lib.nn.Linear(6, 32), lib.nn.BatchNorm1d(32), lib.nn.Linear(32, 8)
        self.sometimes, self.last = lib.nn.Linear(8, 8), lib.nn.Linear(8, 3)

    def forward(self, x: Any, step: int) -> Any:
        y = self.second(self.norm(self.first(x)).tanh())
        return self.last(self.sometimes(y).relu() + y if step % 2 else y)


def trained() -> None:
    """Steps of DistributedDataParallel, in one of which gradients of two backwards are added up."""
    net = Net()
    rng = np.random.default_rng(5 if RANK == 0 else 6 + RANK)  # (rank 0's parameters go to all)
    with lib.no_grad():
        for p in net.parameters():
            p.copy_(lib.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32) / 4))
    model = parallel.DistributedDataParallel(net, find_unused_parameters=True, bucket_cap_mb=0.001)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(6):
        x = drawn("float32", 8, 6) + step
        labels = drawn("int64", 8) % 3
        optimizer.zero_grad()
        if step == 3:
            with model.no_sync():
                lib.nn.functional.cross_entropy(model(x.flip(0), step), labels).backward()
        loss = lib.nn.functional.cross_entropy(model(x, step), labels)
        loss.backward()
        keep(f"trained gradients {step}", loss, *(p.grad for p in net.parameters() if p.grad is not None))
        optimizer.step()
        keep(f"trained {step}", *net.state_dict().values())


for dtype in DTYPES:
    for operation in OPERATIONS:
        reduced(dtype, operation)
    moved(dtype)
trained()
objects: list[Any] = [None] * SIZE
dist.all_gather_object(objects, {"rank": RANK, "text": "ä" * RANK})
told: list[Any] = [RANK, {"of": RANK}]
dist.broadcast_object_list(told, SIZE - 1)
dist.barrier()
np.savez(FOLDER / f"{lib.__name__}_{RANK}.npz", **found)
(FOLDER / f"{lib.__name__}_{RANK}.json").write_text(json.dumps({"objects": [objects, told], "refused": refused}))
dist.destroy_process_group()
