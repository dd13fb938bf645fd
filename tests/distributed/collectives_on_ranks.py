"""A script for several ranks: every exchange against what NumPy says that it gives. Prints one line when all agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributed as dist
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
DTYPES = [
    ferro.float32,
    ferro.float64,
    ferro.float16,
    ferro.bfloat16,
    ferro.int64,
    ferro.int32,
    ferro.uint8,
    ferro.bool,
]
DTYPES += [ferro.int16, ferro.int8, ferro.complex64, ferro.complex128]


def data(rank: int, dtype: Any, shape: tuple = (3, 5)) -> Any:
    """What a rank has: the same numbers on each run, of that rank."""
    numbers = np.random.default_rng(rank).integers(0, 3, shape)
    found = ferro.tensor(numbers).to(dtype).to(DEVICE)
    return found * (1 + 2j) if dtype.is_complex else found


def zeros(*shape: int) -> Any:
    return ferro.zeros(*shape, device=DEVICE)


def same(got: Any, want: Any, what: str) -> None:
    assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    wide = (lambda t: t.float()) if got.dtype.is_floating_point else (lambda t: t)
    assert got.device == want.device, (what, got.device, want.device)
    if "AVG" in what and SIZE == 3 and DEVICE == "cuda":  # (NCCL adds thirds)
        tolerance = {2: 1e-2, 4: 1e-6, 8: 1e-12}[got.element_size()]
        np.testing.assert_allclose(wide(got).tolist(), wide(want).tolist(), tolerance, tolerance, err_msg=what)
    else:
        assert wide(got).tolist() == wide(want).tolist(), (what, RANK, got, want)


def reduced(values: list, op: Any) -> Any:
    first = values[0].clone()
    for value in values[1:]:
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            first = first | value if first.dtype is ferro.bool else first + value
        elif op is dist.ReduceOp.PRODUCT:
            first = first * value
        elif op is dist.ReduceOp.MAX:
            first = ferro.maximum(first, value)
        else:
            first = ferro.minimum(first, value)
    return first / SIZE if op is dist.ReduceOp.AVG else first


for dtype in DTYPES:
    every = [data(r, dtype) for r in range(SIZE)]
    operations = [dist.ReduceOp.SUM]
    if not dtype.is_complex:
        operations += [dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN]
    if dtype.is_floating_point:
        operations.append(dist.ReduceOp.AVG)
    for op in operations:
        want = reduced(every, op)
        x = data(RANK, dtype)
        before = x._version
        dist.all_reduce(x, op)
        same(x, want, f"all_reduce {op}")
        assert x._version > before
        x = data(RANK, dtype).T  # (whose elements are not one behind the other)
        work = dist.all_reduce(x, op, async_op=True)
        assert work.wait()
        assert work.is_completed()
        same(x, want.T, f"all_reduce {op}, transposed")
        x = data(RANK, dtype)
        dist.reduce(x, SIZE - 1, op)
        same(x, want if RANK == SIZE - 1 else x, f"reduce {op}")
        out = zeros(5).to(dtype)
        lists = [[data(r, dtype, (SIZE, 5))[k] for k in range(SIZE)] for r in range(SIZE)]
        dist.reduce_scatter(out, lists[RANK], op)
        same(out, reduced([lists[r][RANK] for r in range(SIZE)], op), f"reduce_scatter {op}")
    for root in range(SIZE):
        x = data(RANK, dtype)
        dist.broadcast(x, root)
        same(x, every[root], "broadcast")
        out = zeros(5).to(dtype)
        given = [data(root, dtype, (SIZE, 5))[k] for k in range(SIZE)]
        dist.scatter(out, given if root == RANK else None, root)
        same(out, given[RANK], "scatter")
        gathered = [zeros(3, 5).to(dtype) for _ in range(SIZE)]
        dist.gather(data(RANK, dtype), gathered if root == RANK else None, root)
        for r in range(SIZE if root == RANK else 0):
            same(gathered[r], every[r], "gather")
    gathered = [zeros(3, 5).to(dtype) for _ in range(SIZE)]
    dist.all_gather(gathered, data(RANK, dtype))
    whole = zeros(3 * SIZE, 5).to(dtype)
    dist.all_gather_single(whole, data(RANK, dtype))
    same(whole, ferro.cat(every), "all_gather_single")
    parts = [zeros(3, 5).to(dtype) for _ in range(SIZE)]
    dist.all_to_all(parts, [data(RANK * SIZE + k, dtype) for k in range(SIZE)])
    for r in range(SIZE):
        same(gathered[r], every[r], "all_gather")
        same(parts[r], data(r * SIZE + RANK, dtype), "all_to_all")
    if SIZE > 1:
        after, before_me = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        work = dist.isend(data(RANK, dtype), after, tag=7)
        x = zeros(3, 5).to(dtype)
        assert dist.recv(x, before_me, tag=7) == before_me
        work.wait()
        same(x, every[before_me], "send and recv")

# each rank's tensor times a factor of that rank, and added
for dtype in (ferro.float32, ferro.float64, ferro.float16, ferro.bfloat16):
    halves = [data(r, dtype) * ((r + 1) / 2) for r in range(SIZE)]  # (exact in all of these)
    op = dist._make_nccl_premul_sum((RANK + 1) / 2 if dtype.itemsize > 2 else ferro.tensor([(RANK + 1) / 2]))
    x = data(RANK, dtype)
    dist.all_reduce(x, op)
    same(x, reduced(halves, dist.ReduceOp.SUM), "all_reduce, multiplied")
    x = data(RANK, dtype)
    dist.reduce(x, SIZE - 1, op)
    same(x, reduced(halves, dist.ReduceOp.SUM) if RANK == SIZE - 1 else data(RANK, dtype), "reduce, multiplied")
    out = zeros(5).to(dtype)
    dist.reduce_scatter_single(out, ferro.cat([data(RANK, dtype, (5,)) for _ in range(SIZE)]), op)
    same(out, reduced([data(r, dtype, (5,)) * ((r + 1) / 2) for r in range(SIZE)], dist.ReduceOp.SUM), "multiplied")
for wrong, words in ((dist.ReduceOp.PREMUL_SUM, "has no factor"), (dist._make_nccl_premul_sum(2), "got ferro.int64")):
    x = data(RANK, ferro.int64)
    with pytest.raises(RuntimeError, match=words):
        dist.all_reduce(x, wrong)
    same(x, data(RANK, ferro.int64), "what was refused")

# several sends and receives at once, around the ring in both directions
if SIZE > 1:
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    x, y = zeros(3, 5), zeros(3, 5)
    own = data(RANK, ferro.float32)
    ops = [dist.P2POp(dist.isend, own, right, tag=1), dist.P2POp(dist.isend, own, left, tag=2)]
    ops += [dist.P2POp(dist.irecv, x, left, tag=1), dist.P2POp(dist.irecv, y, group_peer=right, tag=2)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(x, data(left, ferro.float32), "batch_isend_irecv")
    same(y, data(right, ferro.float32), "batch_isend_irecv")

# the ranks divided into groups of equal size
for size in [k for k in range(1, SIZE + 1) if SIZE % k == 0]:
    some, every_group = dist.new_subgroups(size)
    first = RANK - RANK % size
    assert dist.get_process_group_ranks(some) == list(range(first, first + size))
    assert [g == dist.GroupMember.NON_GROUP_MEMBER for g in every_group] == [
        k != RANK // size for k in range(SIZE // size)
    ]
    x = ferro.tensor([float(RANK)], device=DEVICE)
    dist.all_reduce(x, group=some)
    assert x.item() == sum(range(first, first + size))
    for one in every_group:
        dist.destroy_process_group(one)
lone, _ = dist.new_subgroups_by_enumeration([[SIZE - 1]])
assert (lone is None) == (RANK != SIZE - 1)

# parts of different sizes: rank i has k + 1 rows for rank k
given = ferro.full((sum(range(1, SIZE + 1)), 2), float(RANK), device=DEVICE)
out = zeros(SIZE * (RANK + 1), 2)
dist.all_to_all_single(out, given, [RANK + 1] * SIZE, list(range(1, SIZE + 1)))
assert out[:, 0].tolist() == [float(r) for r in range(SIZE) for _ in range(RANK + 1)]

found: list = [None] * SIZE
dist.all_gather_object(found, {"rank": RANK})
assert [f["rank"] for f in found] == list(range(SIZE))
told = ["from", SIZE - 1] if RANK == SIZE - 1 else [None, None]
dist.broadcast_object_list(told, SIZE - 1)
assert told == ["from", SIZE - 1]
mine: list = [None]
dist.scatter_object_list(mine, [f"to {r}" for r in range(SIZE)] if RANK == 0 else None, 0)
assert mine == [f"to {RANK}"]
dist.gather_object(RANK, found if RANK == 0 else None, 0)
assert RANK or found == list(range(SIZE))

# a group of every other rank, in descending order
chosen = list(range(SIZE))[::2][::-1]
some = dist.new_group(chosen, sort_ranks=False)
if RANK in chosen:
    assert dist.get_process_group_ranks(some) == chosen
    assert (dist.get_rank(some), dist.get_world_size(some)) == (chosen.index(RANK), len(chosen))
    x = ferro.tensor([float(RANK)], device=DEVICE)
    dist.all_reduce(x, group=some)
    assert x.item() == sum(chosen)
    x = ferro.tensor([float(RANK)], device=DEVICE)
    dist.broadcast(x, chosen[0], some)
    assert x.item() == chosen[0]
    dist.broadcast(x, group=some, group_src=len(chosen) - 1)
    dist.destroy_process_group(some)
else:
    assert some == dist.GroupMember.NON_GROUP_MEMBER
dist.barrier()
dist.destroy_process_group()

# in the order of the ranks, whatever MPI would do: the sum of one process
dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
drawn = [np.random.default_rng(r).standard_normal(1001).astype(np.float32) for r in range(SIZE)]
numbers = [ferro.tensor(one).to(DEVICE) for one in drawn]
x = numbers[RANK].clone()
dist.all_reduce(x)
want = numbers[0].clone()
for other in numbers[1:]:
    want = want + other
same(x, want, "the order of ranks")
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks agree")
