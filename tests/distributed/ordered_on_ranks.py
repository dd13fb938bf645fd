"""A script for several ranks: sums in the order of the ranks that go on while the program does. Prints one line when all agree."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.nn.parallel import DistributedDataParallel

dist.init_process_group(
    "mpi", timeout=timedelta(seconds=60), pg_options=dist.GroupOptions(deterministic=True)
)  # (what waits for the wrong thing raises)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
TESTS = []


def test(f: Any) -> Any:
    """Runs below, on all ranks."""
    TESTS.append(f)
    return f


def numbers(rank: int, key: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, key]).standard_normal(size).astype(np.float32)


def total(key: int, size: int) -> np.ndarray:
    """NumPy's sum in the order of the ranks."""
    found = numbers(0, key, size).copy()
    for rank in range(1, SIZE):
        found += numbers(rank, key, size)
    return found


def after_a_message(call: Any) -> Any:
    """Rank 0 calls at once and then sends a message, for which the others wait before they call."""
    mark = ferro.zeros(1)
    if RANK == 0:
        found = call()
        for other in range(1, SIZE):
            dist.send(mark, other)
        return found
    dist.recv(mark, 0)
    return call()


@test
def beginning_waits_for_nobody() -> None:
    for dtype in (ferro.float32, ferro.bfloat16, ferro.int64):
        for call in (
            lambda x: dist.all_reduce(x, async_op=True),
            lambda x: dist.reduce(x, SIZE - 1, async_op=True),
        ):
            x = ferro.full((5,), RANK + 1.0).to(dtype)
            work = after_a_message(lambda call=call, x=x: call(x))
            work.wait()
            if RANK == SIZE - 1:
                assert x.tolist() == [SIZE * (SIZE + 1) / 2] * 5
    parts = [ferro.full((2,), float(RANK)) for _ in range(SIZE)]
    out = ferro.zeros(2)
    after_a_message(lambda: dist.reduce_scatter(out, parts, async_op=True)).wait()
    assert out.tolist() == [sum(range(SIZE))] * 2


@test
def many_go_on_at_once_and_are_waited_for_in_any_order() -> None:
    some = dist.new_group(list(range(SIZE))[::-1])
    sizes = [0, 1, SIZE, SIZE + 1, 1000, 4 * SIZE, 99]
    xs = [ferro.tensor(numbers(RANK, key, size)) for key, size in enumerate(sizes)]
    works: list[Any] = [dist.all_reduce(x, group=some if k % 3 == 2 else None, async_op=True) for k, x in enumerate(xs)]
    y = ferro.ones(1)
    dist.broadcast(y, 0)
    order = np.random.default_rng(RANK).permutation(len(xs))  # (another one on each rank)
    for k in order:
        works[k].wait()
    for key, (x, size) in enumerate(zip(xs, sizes, strict=True)):
        assert x.numpy().tobytes() == total(key, size).tobytes(), key


@test
def who_waits_for_something_else_holds_nobody_up() -> None:
    """Rank 0 waits for the sum first, the others for a barrier first, for a message, for another group."""
    x, y = ferro.ones(3), ferro.zeros(1)
    some = dist.new_group(list(range(SIZE)))
    work: Any = dist.all_reduce(x, async_op=True)
    if RANK == 0:
        work.wait()
        for other in range(1, SIZE):
            dist.send(y, other)
    else:
        dist.recv(y, 0)
        work.wait()
    work = dist.all_reduce(x, async_op=True)
    if RANK == 0:
        work.wait()
        dist.barrier(some)
    else:
        dist.barrier(some)
        work.wait()
    work = dist.all_reduce(x, async_op=True)
    if RANK == 0:
        work.wait()
    dist.new_group(list(range(SIZE)))
    work.wait()
    assert x.tolist() == [float(SIZE**3)] * 3


@test
def asking_is_enough() -> None:
    x = ferro.ones(7)
    work: Any = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        pass
    assert x.tolist() == [float(SIZE)] * 7
    future = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True).get_future()
    while not future.done():
        pass
    assert x.tolist() == [float(SIZE)] * 7


@test
def sixteen_bits_are_added_in_float32() -> None:
    """In the order of the ranks, and rounded once, whatever is on its way."""
    for dtype in (ferro.float16, ferro.bfloat16):
        mine = [ferro.tensor(numbers(RANK, key, 33)).to(dtype) for key in range(4)]
        works: list[Any] = [dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True) for x in mine]
        for key in (2, 0, 3, 1):
            works[key].wait()
            every = [ferro.tensor(numbers(r, key, 33)).to(dtype).float().numpy() for r in range(SIZE)]
            want = every[0].copy()
            for other in every[1:]:
                want += other
            want = ferro.tensor(want / np.float32(SIZE)).to(dtype)
            assert mine[key].float().tolist() == want.float().tolist()


@test
def a_group_may_be_given_back_before_the_end() -> None:
    some = dist.new_group(list(range(SIZE)))
    xs = [ferro.ones(50) for _ in range(3)]
    for x in xs:
        dist.all_reduce(x, group=some, async_op=True)
    dist.destroy_process_group(some)
    dist.barrier()


@test
def backward_waits_for_no_other_rank() -> None:
    """Rank 0 goes through its whole backward, in which buckets begin to travel, before the others begin theirs."""
    mark = ferro.zeros(1)

    def tell(grad: Any) -> None:
        for other in range(1, SIZE):
            dist.send(mark, other)

    for dtype in (ferro.float32, ferro.bfloat16):
        ferro.manual_seed(0)
        net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)]).to(dtype)
        model = DistributedDataParallel(net, bucket_cap_mb=0.0001)
        for _ in range(3):
            x = ferro.ones(2, 8, dtype=dtype)
            x.requires_grad_()
            out = model(x).sum()
            if RANK > 0:
                dist.recv(mark, 0)
            else:
                x.register_hook(tell)
            model.zero_grad()
            out.backward(num_threads=1)
        assert len(model._reducer.buckets) > 3
        every: list[Any] = [None] * SIZE
        dist.all_gather_object(every, [p.grad for p in net.parameters()])
        for other in every[1:]:
            for a, b in zip(every[0], other, strict=True):
                assert a.float().tolist() == b.float().tolist()


for one in TESTS:
    one()
if RANK == 0:
    print(f"{SIZE} ranks agree on sums in order", flush=True)
# the last one is not waited for by rank 0, which ends: the others need it
work = dist.all_reduce(ferro.ones(3), async_op=True)
if RANK > 0:
    work.wait()  # type: ignore[union-attr]
